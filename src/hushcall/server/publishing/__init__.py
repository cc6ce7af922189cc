"""Findings come in, a version of the list leaves: without what must never be listed, and appeals with their way out."""
