"""The server's half of every mechanism: reports come in, heavy hitters leave. Needs the ``server`` extra.

Read in this order: ``gate`` (which buckets run), ``learner`` (what all mechanisms share), one mechanism, ``decision``
(which candidates are listed, and how sure we are), ``window`` (what a service decides, over several rounds), ``theory``
(what to expect).
"""

try:
    import numpy as _numpy  # noqa: F401
    import scipy as _scipy  # noqa: F401
except ImportError:
    from hushcall.errors import MissingExtra

    raise MissingExtra("hushcall.learn", "server") from None
