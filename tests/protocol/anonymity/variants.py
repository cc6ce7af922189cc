"""The four variants of RFC 9474, section 5: with or without a salt, with or without a random prefix."""

from dataclasses import dataclass

from hushcall.protocol.anonymity.blind_rsa import HASH_BYTES
from hushcall.protocol.randomness import ByteSource, read

PREFIX_BYTES = 32


@dataclass(frozen=True)
class Variant:
    name: str
    salt_bytes: int
    prefix_bytes: int


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("RSABSSA-SHA384-PSS-Randomized", HASH_BYTES, PREFIX_BYTES),
        Variant("RSABSSA-SHA384-PSSZERO-Randomized", 0, PREFIX_BYTES),
        Variant("RSABSSA-SHA384-PSS-Deterministic", HASH_BYTES, 0),
        Variant("RSABSSA-SHA384-PSSZERO-Deterministic", 0, 0),
    )
}
OURS = VARIANTS["RSABSSA-SHA384-PSS-Deterministic"]


def prepare(message: bytes, rand: ByteSource, variant: Variant) -> bytes:
    """Prepare (4.1): the message behind the variant's random prefix."""
    return read(rand, variant.prefix_bytes) + message if variant.prefix_bytes else message
