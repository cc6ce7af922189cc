"""Blind RSA signatures (RFC 9474): the signer never sees the message.

The client prepares, blinds and finalizes, the issuer signs, ingest verifies. Comments carry the step names of the RFC.
`cryptography` verifies. Blinding is integer arithmetic and is here, because none of our libraries does it. The
variant is RSABSSA-SHA384-PSS-Deterministic: messages hold 32 random bytes already.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from hushcall.errors import InvalidParameter, InvalidToken
from hushcall.protocol.randomness import ByteSource, read

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

HASH_BYTES = SALT_BYTES = 48
MIN_BITS = 2048
MAX_BITS = 4096
EXPONENT = 65537


@dataclass(frozen=True, slots=True)
class PublicKey:
    n: int
    e: int = EXPONENT

    def __post_init__(self) -> None:
        if not MIN_BITS <= self.n.bit_length() <= MAX_BITS or self.n % 2 == 0:
            raise InvalidParameter("n", f"be an odd number of {MIN_BITS} to {MAX_BITS} bits", self.n)
        if self.e != EXPONENT:
            raise InvalidParameter("e", f"be {EXPONENT}", self.e)

    @property
    def modulus_len(self) -> int:
        return (self.n.bit_length() + 7) // 8


@dataclass(frozen=True, slots=True)
class SecretKey:
    """The issuer's. ``power`` raises to a secret exponent. The server supplies a constant-time one."""

    public: PublicKey
    p: int = field(repr=False)
    q: int = field(repr=False)
    power: Callable[[int, int, int], int] = field(default=pow, repr=False, compare=False)
    at_once: tuple[int, int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        p, q, e = self.p, self.q, self.public.e
        if p * q != self.public.n or p == q or 1 in (p, q):
            raise InvalidParameter("p, q", "be the two factors of n", "others")
        object.__setattr__(self, "at_once", (pow(e, -1, p - 1), pow(e, -1, q - 1), pow(q, -1, p)))

    def rsasp1(self, m: int) -> int:
        """RSASP1 of RFC 8017, section 5.2.1: m^d mod n, by the Chinese remainder theorem."""
        p, q, (d_p, d_q, q_inverse) = self.p, self.q, self.at_once
        at_p, at_q = int(self.power(m % p, d_p, p)), int(self.power(m % q, d_q, q))
        return at_q + q * ((at_p - at_q) * q_inverse % p)


@dataclass(frozen=True, slots=True)
class Blinding:
    """The message that a client sends, and the secret ``inv`` that removes the blinding."""

    blinded_msg: bytes
    inv: int = field(repr=False)


def blind(key: PublicKey, input_msg: bytes, rand: ByteSource, salt_bytes: int = SALT_BYTES) -> Blinding:
    """Blind (4.2): z = m·r^e mod n. For every m, z is uniform, so the issuer learns nothing."""
    salt = read(rand, salt_bytes) if salt_bytes else b""
    encoded_msg = emsa_pss_encode(input_msg, key.n.bit_length() - 1, salt)
    m = int.from_bytes(encoded_msg, "big")
    if math.gcd(m, key.n) != 1:  # is_coprime(m, n): otherwise the sender has factored n
        raise InvalidToken("message", "be coprime to the modulus (invalid input)", "a multiple of a factor")
    r = random_integer_uniform(key.n, rand)
    try:
        inv = pow(r, -1, key.n)  # inverse_mod(r, n)
    except ValueError:
        raise InvalidToken("r", "have an inverse (blinding error)", "a multiple of a factor") from None
    x = pow(r, key.e, key.n)  # RSAVP1(pk, r)
    z = m * x % key.n
    return Blinding(z.to_bytes(key.modulus_len, "big"), inv)


def blind_sign(key: SecretKey, blinded_msg: bytes, rand: ByteSource) -> bytes:
    """BlindSign (4.3), with a blinding of the issuer's own, so that its timing reveals nothing about its key."""
    public = key.public
    m = number_below(public, "blinded message", blinded_msg)
    r = random_integer_uniform(public.n, rand)
    s = key.rsasp1(m * pow(r, public.e, public.n) % public.n) * pow(r, -1, public.n) % public.n
    if pow(s, public.e, public.n) != m:  # m' = RSAVP1(pk, s): a fault would give a factor of n away
        raise InvalidToken("blind signature", "verify (signing failure)", "another value")
    return s.to_bytes(public.modulus_len, "big")


def finalize(key: PublicKey, input_msg: bytes, blind_sig: bytes, inv: int, salt_bytes: int = SALT_BYTES) -> bytes:
    """Finalize (4.4): s = z·inv mod n, returned only if it verifies."""
    z = number_below(key, "blind signature", blind_sig)
    s = z * inv % key.n
    sig = s.to_bytes(key.modulus_len, "big")
    verify(key, input_msg, sig, salt_bytes)
    return sig


def verify(key: PublicKey, input_msg: bytes, sig: bytes, salt_bytes: int = SALT_BYTES) -> None:
    """RSASSA-PSS-VERIFY, by OpenSSL. Any other signature than the issuer's is an :class:`InvalidToken`."""
    from cryptography.exceptions import InvalidSignature  # slow to import, and most clients need none
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    padded = padding.PSS(padding.MGF1(hashes.SHA384()), salt_bytes)
    try:
        _openssl(key).verify(sig, input_msg, padded, hashes.SHA384())
    except InvalidSignature:
        raise InvalidToken("signature", "be the issuer's (invalid signature)", sig.hex()) from None


@lru_cache(maxsize=16)
def _openssl(key: PublicKey) -> RSAPublicKey:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.RSAPublicNumbers(key.e, key.n).public_key()


def number_below(key: PublicKey, name: str, data: bytes) -> int:
    if len(data) != key.modulus_len:
        raise InvalidToken(name, f"be {key.modulus_len} bytes long (unexpected input size)", f"{len(data)} bytes")
    value = int.from_bytes(data, "big")
    if not 0 < value < key.n:
        raise InvalidToken(name, "be above 0 and below the modulus", value)
    return value


def random_integer_uniform(n: int, rand: ByteSource) -> int:
    """A whole number from 1 to n − 1, exactly uniform: a draw that does not fit is repeated."""
    bits = n.bit_length()
    while True:
        r = int.from_bytes(read(rand, (bits + 7) // 8), "big") & ((1 << bits) - 1)
        if 1 <= r < n:
            return r


def emsa_pss_encode(message: bytes, em_bits: int, salt: bytes) -> bytes:
    """EMSA-PSS-ENCODE of RFC 8017, section 9.1.1, with SHA-384 and MGF1."""
    em_len = (em_bits + 7) // 8
    m_hash = hashlib.sha384(message).digest()
    h = hashlib.sha384(bytes(8) + m_hash + salt).digest()  # H = Hash(M'), M' = 8 zero bytes || mHash || salt
    ps = bytes(em_len - len(salt) - HASH_BYTES - 2)
    db = ps + b"\x01" + salt
    masked_db = bytearray(a ^ b for a, b in zip(db, _mgf1(h, len(db)), strict=True))
    masked_db[0] &= 0xFF >> (8 * em_len - em_bits)
    return bytes(masked_db) + h + b"\xbc"


def _mgf1(seed: bytes, length: int) -> bytes:
    count = -(-length // HASH_BYTES)
    return b"".join(hashlib.sha384(seed + i.to_bytes(4, "big")).digest() for i in range(count))[:length]
