"""Readers of call logs and contacts. Start with ``call``, ``reader`` and ``android``."""
