"""Oblivious HTTP (RFC 9458): requests through a relay that cannot read them.

The client encapsulates requests and decapsulates responses, the server's gateway does the inverse. The relay sees who,
never what. The gateway sees what, never who. Names are those of the RFC.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hushcall.errors import InvalidMessage
from hushcall.protocol.anonymity import hpke
from hushcall.protocol.randomness import ByteSource, read

REQUEST_TYPE = "message/ohttp-req"
RESPONSE_TYPE = "message/ohttp-res"
KEYS_TYPE = "application/ohttp-keys"
_REQUEST_LABEL = b"message/bhttp request"
_RESPONSE_LABEL = b"message/bhttp response"
HEADER_BYTES = 7
NONCE_BYTES = max(hpke.N_N, hpke.N_K)
REQUEST_OVERHEAD = HEADER_BYTES + hpke.N_ENC + hpke.N_T


@dataclass(frozen=True, slots=True)
class KeyConfig:
    """The gateway's public key (section 3). Ours offers one suite."""

    key_id: int
    public: bytes

    @property
    def header(self) -> bytes:
        return bytes([self.key_id]) + _u16(hpke.KEM_ID) + _u16(hpke.KDF_ID) + _u16(hpke.AEAD_ID)

    def to_bytes(self) -> bytes:
        """One configuration, without its length prefix."""
        algorithms = _u16(hpke.KDF_ID) + _u16(hpke.AEAD_ID)
        return bytes([self.key_id]) + _u16(hpke.KEM_ID) + self.public + _u16(len(algorithms)) + algorithms

    @classmethod
    def from_bytes(cls, data: bytes) -> KeyConfig:
        """Reads one. It may offer other algorithms beside ours."""
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
    """The secret that seals and opens the one answer to a request."""

    enc: bytes
    secret: bytes = field(repr=False)

    def keys(self, response_nonce: bytes) -> tuple[bytes, bytes]:
        prk = hpke.extract(self.enc + response_nonce, self.secret)
        return hpke.expand(prk, b"key", hpke.N_K), hpke.expand(prk, b"nonce", hpke.N_N)


def encode_configs(*configs: KeyConfig) -> bytes:
    return b"".join(_u16(len(config.to_bytes())) + config.to_bytes() for config in configs)


def decode_configs(data: bytes) -> KeyConfig:
    """The first configuration of such a document that we can use."""
    start, problem = 0, InvalidMessage("key configurations", "hold one", f"{len(data)} bytes")
    while start + 2 <= len(data):
        end = start + 2 + int.from_bytes(data[start : start + 2], "big")
        try:
            return KeyConfig.from_bytes(data[start + 2 : end])
        except InvalidMessage as error:
            start, problem = end, error
    raise problem


def encapsulate_request(config: KeyConfig, request: bytes, rand: ByteSource) -> tuple[bytes, Exchange]:
    """Section 4.3: (enc_request, the exchange). Reads 32 random bytes."""
    info = _REQUEST_LABEL + b"\x00" + config.header
    enc, context = hpke.setup_sender(config.public, info, hpke.generate_key(rand))
    return config.header + enc + context.seal(b"", request), _exchange(enc, context)


def decapsulate_request(config: KeyConfig, secret: bytes, enc_request: bytes) -> tuple[bytes, Exchange]:
    """Section 4.3, the gateway's side: (request, the exchange)."""
    header = enc_request[:HEADER_BYTES]
    if header != config.header:
        raise InvalidMessage("key", f"be the one published ({config.header.hex()})", header.hex())
    enc = enc_request[HEADER_BYTES : HEADER_BYTES + hpke.N_ENC]
    context = hpke.setup_receiver(enc, secret, _REQUEST_LABEL + b"\x00" + header)
    request = context.open(b"", enc_request[HEADER_BYTES + hpke.N_ENC :])
    return request, _exchange(enc, context)


def encapsulate_response(exchange: Exchange, response: bytes, rand: ByteSource) -> bytes:
    """Section 4.4: enc_response. Reads 16 random bytes."""
    response_nonce = read(rand, NONCE_BYTES)
    key, nonce = exchange.keys(response_nonce)
    return response_nonce + hpke.aead_seal(key, nonce, b"", response)


def decapsulate_response(exchange: Exchange, enc_response: bytes) -> bytes:
    """Section 4.4, the client's side."""
    key, nonce = exchange.keys(enc_response[:NONCE_BYTES])
    return hpke.aead_open(key, nonce, b"", enc_response[NONCE_BYTES:])


def _exchange(enc: bytes, context: hpke.Context) -> Exchange:
    return Exchange(enc, context.export(_RESPONSE_LABEL, NONCE_BYTES))


def _u16(value: int) -> bytes:
    return value.to_bytes(2, "big")
