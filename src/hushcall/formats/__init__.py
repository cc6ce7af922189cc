"""Call logs and contacts in, blocklists out: one file per format."""
