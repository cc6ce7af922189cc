"""Whoever runs other people's programs beside hushcall runs this (``make interop``): our files in, their verdict out.

Each test drives the real program on loopback. One that is not installed is skipped, and named.
"""
