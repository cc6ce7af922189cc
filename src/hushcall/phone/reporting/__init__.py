"""One report a day: what it may cost, when it leaves, how far it is, and the wire that carries it."""
