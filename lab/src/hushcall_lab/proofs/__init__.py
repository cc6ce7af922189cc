"""Promises of client and server, tested with the real code."""
