"""The phone's half of every mechanism: a number comes in, a randomised report leaves. Pure Python, no numpy.

Read in this order: ``mechanism`` (what all of them share), ``randomisers`` (the odds), then one mechanism:
``subspace`` is ours and the default, ``succinct_histogram`` the paper's, ``original_histogram`` its ancestor,
``local_hashing`` the frequency oracle.
"""
