"""The phone: calls come in, one randomised report a day leaves, a signed list is looked up offline."""
