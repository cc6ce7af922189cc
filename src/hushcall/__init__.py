"""hushcall: learn which phone numbers spam people, from call logs that stay private."""

from hushcall.version import __version__

__all__ = ["__version__"]
