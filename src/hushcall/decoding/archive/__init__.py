"""A closed round's reports as Parquet files, on disk or at any address that fsspec knows. Needs the ``scale`` extra."""

try:
    import fsspec as _fsspec  # noqa: F401
    import pyarrow as _pyarrow  # noqa: F401
except ImportError:
    from hushcall.errors import MissingExtra

    raise MissingExtra("hushcall.decoding.archive", "scale") from None
