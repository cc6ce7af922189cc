"""What every test run shares: generated examples follow from the test alone, and no example is failed for its time.

``--hypothesis-profile=chance`` draws others each time, for whoever wants to look further.
"""

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("chance", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("steady")
