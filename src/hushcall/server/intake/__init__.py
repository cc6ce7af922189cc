"""Uploads come in, durable rows leave, many of them in one commit."""
