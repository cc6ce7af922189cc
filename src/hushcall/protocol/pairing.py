"""How a phone is pointed at a server: an address and the digest of its root come in, one string leaves, and back.

The digest stands behind the address as a fragment, which no server ever sees; as a QR code it is all that an
owner needs.

>>> pairing("https://calls.example.org/", "ab" * 32)[:46]
'https://calls.example.org#root-sha256=abababab'
>>> split(pairing("https://calls.example.org", "ab" * 32)) == ("https://calls.example.org", "ab" * 32)
True
>>> split("https://calls.example.org")
('https://calls.example.org', '')
"""

from __future__ import annotations

MARK = "#root-sha256="


def pairing(address: str, root_sha256: str) -> str:
    """One string of both."""
    return address.rstrip("/") + MARK + root_sha256


def split(text: str) -> tuple[str, str]:
    """(address, digest) of such a string; of a plain address, the digest is empty."""
    address, _, digest = text.partition(MARK)
    return address, digest
