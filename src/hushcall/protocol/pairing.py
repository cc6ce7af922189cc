"""The pairing string: a server's address with the digest of its root as a fragment, which no server sees.

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
    return address.rstrip("/") + MARK + root_sha256


def split(text: str) -> tuple[str, str]:
    """(address, digest). The digest of a plain address is ""."""
    address, _, digest = text.partition(MARK)
    return address, digest
