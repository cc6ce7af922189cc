"""Promises put to the test with the real code."""
