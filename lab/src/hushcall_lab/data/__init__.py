"""Days and months of calls: read from files, invented, described."""
