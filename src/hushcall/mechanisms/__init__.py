"""The mechanisms by name: ``schemes`` is the table that pairs each one's two halves, ``parameters`` its JSON form."""
