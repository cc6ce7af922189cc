"""Oblivious HTTP (RFC 9458): a request comes in, bytes leave that a relay carries to the gateway and cannot read.

Runs on a phone (:func:`encapsulate_request`, :func:`decapsulate_response`) and in the server's gateway (the other two).
The relay in between sees who, never what; the gateway sees what, never who. Names are those of the RFC.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hushcall.anonymity import hpke
from hushcall.errors import InvalidMessage
from hushcall.privacy.coins import ByteSource, read

REQUEST_TYPE = "message/ohttp-req"
RESPONSE_TYPE = "message/ohttp-res"
KEYS_TYPE = "application/ohttp-keys"
_REQUEST_LABEL = b"message/bhttp request"
_RESPONSE_LABEL = b"message/bhttp response"
HEADER_BYTES = 7
NONCE_BYTES = max(hpke.N_N, hpke.N_K)
REQUEST_OVERHEAD = HEADER_BYTES + hpke.N_ENC + hpke.N_T
RESPONSE_OVERHEAD = NONCE_BYTES + hpke.N_T


@dataclass(frozen=True, slots=True)
class KeyConfig:
    """The gateway's public key, as section 3 writes it down; ours offers one suite."""

    key_id: int
    public: bytes

    @property
    def header(self) -> bytes:
        """hdr: key identifier, KEM, KDF, AEAD."""
        return bytes([self.key_id]) + _u16(hpke.KEM_ID) + _u16(hpke.KDF_ID) + _u16(hpke.AEAD_ID)

    def to_bytes(self) -> bytes:
        """One configuration, without the length that stands before each in a list of them."""
        algorithms = _u16(hpke.KDF_ID) + _u16(hpke.AEAD_ID)
        return bytes([self.key_id]) + _u16(hpke.KEM_ID) + self.public + _u16(len(algorithms)) + algorithms

    @classmethod
    def from_bytes(cls, data: bytes) -> KeyConfig:
        """Read one back; it may offer other algorithms beside ours."""
        start = 3 + hpke.N_PK
        length = int.from_bytes(data[start : start + 2], "big")
        if len(data) != start + 2 + length or length % 4 or not length:
            raise InvalidMessage("key configuration", "be as long as it says", f"{len(data)} bytes")
        if int.from_bytes(data[1:3], "big") != hpke.KEM_ID:
            raise InvalidMessage("KEM", f"be {hpke.KEM_ID} (X25519)", int.from_bytes(data[1:3], "big"))
        offered = {data[i : i + 4] for i in range(start + 2, len(data), 4)}
        if _u16(hpke.KDF_ID) + _u16(hpke.AEAD_ID) not in offered:
            raise InvalidMessage("algorithms", "offer HKDF-SHA256 with AES-128-GCM", data[start + 2 :].hex())
        return cls(data[0], data[3:start])


@dataclass(frozen=True, slots=True)
class Exchange:
    """What either end keeps to seal, or to open, the one answer to a request."""

    enc: bytes
    secret: bytes = field(repr=False)

    def keys(self, response_nonce: bytes) -> tuple[bytes, bytes]:
        """(aead_key, aead_nonce) of the answer."""
        prk = hpke.extract(self.enc + response_nonce, self.secret)
        return hpke.expand(prk, b"key", hpke.N_K), hpke.expand(prk, b"nonce", hpke.N_N)


def encode_configs(*configs: KeyConfig) -> bytes:
    """A document of the type ``application/ohttp-keys``."""
    return b"".join(_u16(len(config.to_bytes())) + config.to_bytes() for config in configs)


def decode_configs(data: bytes) -> tuple[KeyConfig, ...]:
    """The configurations of such a document."""
    return tuple(KeyConfig.from_bytes(part) for part in _parts(data))


def encapsulate_request(config: KeyConfig, request: bytes, coins: ByteSource) -> tuple[bytes, Exchange]:
    """Section 4.3: (enc_request, what opens the answer). Reads 32 bytes of coins."""
    info = _REQUEST_LABEL + b"\x00" + config.header
    enc, context = hpke.setup_sender(config.public, info, hpke.generate_key(coins))
    return config.header + enc + context.seal(b"", request), _exchange(enc, context)


def decapsulate_request(config: KeyConfig, secret: bytes, enc_request: bytes) -> tuple[bytes, Exchange]:
    """Section 4.3, the gateway's side: (request, what seals the answer)."""
    header = enc_request[:HEADER_BYTES]
    if header != config.header:
        raise InvalidMessage("key", f"be the one published ({config.header.hex()})", header.hex())
    enc = enc_request[HEADER_BYTES : HEADER_BYTES + hpke.N_ENC]
    context = hpke.setup_receiver(enc, secret, _REQUEST_LABEL + b"\x00" + header)
    request = context.open(b"", enc_request[HEADER_BYTES + hpke.N_ENC :])
    return request, _exchange(enc, context)


def encapsulate_response(exchange: Exchange, response: bytes, coins: ByteSource) -> bytes:
    """Section 4.4: enc_response. Reads 16 bytes of coins."""
    response_nonce = read(coins, NONCE_BYTES)
    key, nonce = exchange.keys(response_nonce)
    return response_nonce + hpke.aead_seal(key, nonce, b"", response)


def decapsulate_response(exchange: Exchange, enc_response: bytes) -> bytes:
    """Section 4.4, the phone's side."""
    key, nonce = exchange.keys(enc_response[:NONCE_BYTES])
    return hpke.aead_open(key, nonce, b"", enc_response[NONCE_BYTES:])


def _exchange(enc: bytes, context: hpke.Context) -> Exchange:
    return Exchange(enc, context.export(_RESPONSE_LABEL, NONCE_BYTES))


def _parts(data: bytes) -> Iterator[bytes]:
    place = 0
    while place < len(data):
        end = place + 2 + int.from_bytes(data[place : place + 2], "big")
        if end > len(data):
            raise InvalidMessage("key configurations", "be as long as they say", f"{len(data)} bytes")
        yield data[place + 2 : end]
        place = end


def _u16(value: int) -> bytes:
    return value.to_bytes(2, "big")
