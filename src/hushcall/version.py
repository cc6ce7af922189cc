"""Which release this is. A module of its own, so that every room may know it."""

__version__ = "0.1.0"
