"""hushcall: learn which phone numbers spam people, from call logs that stay private."""

__version__ = "0.1.0"
