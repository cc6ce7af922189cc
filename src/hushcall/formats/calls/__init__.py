"""Call logs in: the phone gives a file, calls leave. Pure Python, no numpy, nothing written to disk.

Read in this order: ``call`` (what leaves), ``reader`` (what all formats share), one format (``sms_backup`` is short),
then ``reading``, which finds the format of a file. ``contacts`` reads the numbers that are never reported.
"""
