"""The one vocabulary of phone, server, tour and lab: what travels between them, and nothing else. Pure, no numpy."""
