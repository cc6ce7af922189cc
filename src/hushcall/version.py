"""The release. A module of its own, so that importing it brings nothing else."""

__version__ = "1.0.0rc1"
