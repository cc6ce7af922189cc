"""Proof instead of promise: the exact ε of the running phone code, and broken randomisers that must be caught."""
