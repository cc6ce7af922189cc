"""Other people's programs with our files, on loopback: ``make interop``. A program that is not installed is skipped."""
