"""What the commands on archives share: where one is, and opening it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hushcall.errors import MissingExtra

Where = Annotated[str, typer.Argument(metavar="ARCHIVE", help="A folder, or any address that fsspec knows.")]


def address_of(url: str) -> Any:
    """The archive at an address, or an error that names the packages it takes."""
    try:
        from hushcall.archive.manifest import Address
    except ImportError:
        raise MissingExtra("hushcall archive", "scale") from None
    return Address(url)
