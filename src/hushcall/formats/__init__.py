"""Readers of call logs and contacts, writers of blocklists."""

MARK = "hushcall"
"""The first word of every name and remark in an export, so that a tool's own entries are never taken for ours.

A caller whom a router or a phone names so is in an exported address book: that makes it no acquaintance.
"""
