"""The schema's history: each file in versions/ is one step, applied when the server starts."""
