"""Call logs in: the phone gives a file, calls leave. Pure Python, no numpy, nothing written to disk.

Read in this order: ``call`` (what leaves), ``reader`` (what all formats share), one format (``ncid`` is the shortest),
then ``reading``, which finds the format of a file. ``contacts`` reads the numbers that are never reported.
"""
