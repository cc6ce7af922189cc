"""Where a phone lives: its one file, its lock, its health, moving and erasing it."""
