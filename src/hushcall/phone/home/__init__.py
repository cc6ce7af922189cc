"""Where a phone lives: its one file, its lock, its key, its owner's own list; moving and erasing it."""
