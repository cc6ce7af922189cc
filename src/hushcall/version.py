"""The release. A module of its own, so that importing it brings nothing else."""

__version__ = "0.1.0"
