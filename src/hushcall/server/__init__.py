"""What an operator runs: rounds, durable intake, decoding, and a signed blocklist."""
