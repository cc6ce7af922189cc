"""A closed round's reports as Parquet, on disk or at any address: written while streaming, verified, read in batches.

Anything that reads Parquet reads it (DuckDB, Spark); ``hushcall learn`` learns from it without a server. Needs the
``scale`` extra.
"""

try:
    import fsspec as _fsspec  # noqa: F401
    import pyarrow as _pyarrow  # noqa: F401
except ImportError:
    from hushcall.errors import MissingExtra

    raise MissingExtra("hushcall.archive", "scale") from None
