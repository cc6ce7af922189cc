"""The list comes in, verified; callers are judged by it, offline."""
