"""Calls come in, the callers that may be reported leave; nothing here sends anything."""
