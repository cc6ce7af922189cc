"""HPKE in its base mode (RFC 9180), with an exporter.

One suite: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, over the primitives of `cryptography`. Its own HPKE
exports no secret, and answers need one. Comments carry the names of the RFC.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

from hushcall.errors import InvalidMessage
from hushcall.protocol.randomness import ByteSource, read

KEM_ID, KDF_ID, AEAD_ID = 0x0020, 0x0001, 0x0001
N_ENC = N_PK = N_SK = N_SECRET = N_H = 32
N_K, N_N, N_T = 16, 12, 16
"""Bytes of the key, the nonce and the tag of AES-128-GCM."""
_KEM_SUITE = b"KEM" + KEM_ID.to_bytes(2, "big")
_SUITE = b"HPKE" + b"".join(part.to_bytes(2, "big") for part in (KEM_ID, KDF_ID, AEAD_ID))
_MODE_BASE = b"\x00"


@dataclass(slots=True)
class Context:
    key: bytes = field(repr=False)
    base_nonce: bytes = field(repr=False)
    exporter_secret: bytes = field(repr=False)
    seq: int = 0

    def _next_nonce(self) -> bytes:
        nonce = int.from_bytes(self.base_nonce, "big") ^ self.seq  # ComputeNonce
        self.seq += 1  # IncrementSeq
        return nonce.to_bytes(N_N, "big")

    def seal(self, aad: bytes, plaintext: bytes) -> bytes:
        """Context.Seal (RFC 9180, 5.2). The nonce counts up."""
        return aead_seal(self.key, self._next_nonce(), aad, plaintext)

    def open(self, aad: bytes, ciphertext: bytes) -> bytes:
        """Context.Open. Anything else than a sealed message is an :class:`InvalidMessage`."""
        return aead_open(self.key, self._next_nonce(), aad, ciphertext)

    def export(self, exporter_context: bytes, length: int) -> bytes:
        """Context.Export (RFC 9180, 5.3): a secret that both ends can derive, here the response's key."""
        return _labeled_expand(_SUITE, self.exporter_secret, b"sec", exporter_context, length)


def generate_key(rand: ByteSource) -> bytes:
    """A secret key from 32 random bytes (DeriveKeyPair)."""
    dkp_prk = _labeled_extract(_KEM_SUITE, b"", b"dkp_prk", read(rand, N_SK))
    return _labeled_expand(_KEM_SUITE, dkp_prk, b"sk", b"", N_SK)


def public_key(secret: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def setup_sender(public: bytes, info: bytes, ephemeral: bytes) -> tuple[bytes, Context]:
    """SetupBaseS with the ephemeral secret key given: (enc, context)."""
    enc = public_key(ephemeral)
    dh = _exchange(ephemeral, public)
    return enc, _key_schedule(_extract_and_expand(dh, enc + public), info)


def setup_receiver(enc: bytes, secret: bytes, info: bytes) -> Context:
    """SetupBaseR (RFC 9180, 5.1.1): the sender's context again, from the secret key."""
    dh = _exchange(secret, enc)
    return _key_schedule(_extract_and_expand(dh, enc + public_key(secret)), info)


def aead_seal(key: bytes, nonce: bytes, aad: bytes, plaintext: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # slow to import

    return AESGCM(key).encrypt(nonce, plaintext, aad)


def aead_open(key: bytes, nonce: bytes, aad: bytes, ciphertext: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(nonce, ciphertext, aad)
    except (InvalidTag, ValueError):
        raise InvalidMessage("sealed message", "open with this key", f"{len(ciphertext)} bytes") from None


def _exchange(secret: bytes, public: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    try:
        return X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # a wrong length, or a point whose shared secret is zero
        raise InvalidMessage("public key", "be a point of Curve25519 of large order", public.hex()) from None


def _extract_and_expand(dh: bytes, kem_context: bytes) -> bytes:
    eae_prk = _labeled_extract(_KEM_SUITE, b"", b"eae_prk", dh)
    return _labeled_expand(_KEM_SUITE, eae_prk, b"shared_secret", kem_context, N_SECRET)


def _key_schedule(shared_secret: bytes, info: bytes) -> Context:
    psk_id_hash = _labeled_extract(_SUITE, b"", b"psk_id_hash", b"")
    info_hash = _labeled_extract(_SUITE, b"", b"info_hash", info)
    context = _MODE_BASE + psk_id_hash + info_hash  # key_schedule_context
    secret = _labeled_extract(_SUITE, shared_secret, b"secret", b"")
    return Context(
        key=_labeled_expand(_SUITE, secret, b"key", context, N_K),
        base_nonce=_labeled_expand(_SUITE, secret, b"base_nonce", context, N_N),
        exporter_secret=_labeled_expand(_SUITE, secret, b"exp", context, N_H),
    )


def _labeled_extract(suite_id: bytes, salt: bytes, label: bytes, ikm: bytes) -> bytes:
    return extract(salt, b"HPKE-v1" + suite_id + label + ikm)


def _labeled_expand(suite_id: bytes, prk: bytes, label: bytes, info: bytes, length: int) -> bytes:
    return expand(prk, length.to_bytes(2, "big") + b"HPKE-v1" + suite_id + label + info, length)


def extract(salt: bytes, ikm: bytes) -> bytes:
    """HKDF-Extract with SHA-256 (RFC 5869)."""
    return hmac.digest(salt or bytes(N_H), ikm, "sha256")


def expand(prk: bytes, info: bytes, length: int) -> bytes:
    """HKDF-Expand with SHA-256 (RFC 5869)."""
    block, out = b"", b""
    for i in range(-(-length // N_H)):
        block = hmac.digest(prk, block + info + bytes([i + 1]), "sha256")
        out += block
    return out[:length]
