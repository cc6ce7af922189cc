"""Feeding the tally: tickets and bodies come in as flat arrays, matrices and values leave; no object per report."""
