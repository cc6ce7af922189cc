"""Tokens: the right to one anonymous report in one round, by a blind signature.

A token is a publicly verifiable token of Privacy Pass (RFC 9577, section 2.2, and RFC 9578, section 6). The round's
seed is the redemption context, and every round has its own key, so a token is valid for one round. The ticket of its
report is a hash of the token. Neither a client nor the server can choose it: a client gets only one signature, and the
issuer never sees it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from hushcall import checks
from hushcall.errors import InvalidToken
from hushcall.protocol.anonymity import blind_rsa
from hushcall.protocol.anonymity.blind_rsa import Blinding, PublicKey
from hushcall.protocol.randomness import ByteSource, read

TOKEN_TYPE = 2
KEY_BITS = 2048
SIGNATURE_BYTES = KEY_BITS // 8
NONCE_BYTES = DIGEST_BYTES = SEED_BYTES = 32
INPUT_BYTES = 2 + NONCE_BYTES + 2 * DIGEST_BYTES
TOKEN_BYTES = INPUT_BYTES + SIGNATURE_BYTES
TICKET_BYTES = 16
REQUEST_TYPE = "application/private-token-request"
RESPONSE_TYPE = "application/private-token-response"
_ISSUER = b"hushcall"
# SubjectPublicKeyInfo of an RSA key of 2048 bits with id-RSASSA-PSS, SHA-384, MGF1 with SHA-384 and 48 bytes of salt
# (RFC 9578, section 6.5), up to the modulus; after it comes the exponent 65537.
_KEY_HEAD = bytes.fromhex(
    "30820152303d06092a864886f70d01010a3030a00d300b0609608648016503040202a11a301806092a864886f70d010108300b06"
    "09608648016503040202a2030201300382010f003082010a0282010100"
)
_KEY_TAIL = bytes.fromhex("0203010001")


@dataclass(frozen=True, slots=True)
class TokenKey:
    public: PublicKey

    def __post_init__(self) -> None:
        if self.public.n.bit_length() != KEY_BITS:
            raise InvalidToken("key", f"have {KEY_BITS} bits", self.public.n.bit_length())

    def to_bytes(self) -> bytes:
        """SubjectPublicKeyInfo in DER with the RSASSA-PSS identifier (RFC 9578)."""
        return _KEY_HEAD + self.public.n.to_bytes(SIGNATURE_BYTES, "big") + _KEY_TAIL

    @classmethod
    def from_bytes(cls, data: bytes) -> TokenKey:
        """Reads a key strictly: each has one encoding, so its digest identifies it."""
        start = len(_KEY_HEAD)
        if len(data) != start + SIGNATURE_BYTES + len(_KEY_TAIL):
            raise InvalidToken("key", "be an RSASSA-PSS key of 2048 bits in DER", f"{len(data)} bytes")
        if data[:start] != _KEY_HEAD or data[-len(_KEY_TAIL) :] != _KEY_TAIL:
            raise InvalidToken("key", "be an RSASSA-PSS key of 2048 bits in DER", data[:start].hex())
        return cls(PublicKey(int.from_bytes(data[start : start + SIGNATURE_BYTES], "big")))

    @property
    def key_id(self) -> bytes:
        return hashlib.sha256(self.to_bytes()).digest()


@dataclass(frozen=True, slots=True)
class PendingToken:
    """A token that is not signed yet: what will be redeemed, and the secret blinding."""

    token_input: bytes
    blinding: Blinding


def challenge_digest(round_seed: bytes) -> bytes:
    """SHA-256 of the TokenChallenge: token type, issuer's name, the round's seed as context, no origin."""
    checks.length("seed", round_seed, SEED_BYTES)
    challenge = TOKEN_TYPE.to_bytes(2, "big") + len(_ISSUER).to_bytes(2, "big") + _ISSUER
    return hashlib.sha256(challenge + bytes([SEED_BYTES]) + round_seed + bytes(2)).digest()


def prepare(key: TokenKey, round_seed: bytes, rand: ByteSource) -> PendingToken:
    nonce = read(rand, NONCE_BYTES)
    token_input = TOKEN_TYPE.to_bytes(2, "big") + nonce + challenge_digest(round_seed) + key.key_id
    return PendingToken(token_input, blind_rsa.blind(key.public, token_input, rand))


def token_of(key: TokenKey, pending: PendingToken, blind_sig: bytes) -> bytes:
    """The client's second step: the token, if the issuer signed with the published key."""
    return pending.token_input + blind_rsa.finalize(key.public, pending.token_input, blind_sig, pending.blinding.inv)


def check(key: TokenKey, round_seed: bytes, token: bytes) -> None:
    """Refuses any other token than one of this round. The database knows whether it was spent."""
    if len(token) != TOKEN_BYTES:
        raise InvalidToken("token", f"be {TOKEN_BYTES} bytes long", f"{len(token)} bytes")
    if token[:2] != TOKEN_TYPE.to_bytes(2, "big"):
        raise InvalidToken("token type", f"be {TOKEN_TYPE}", token[:2].hex())
    key_id = key_id_of(token)
    if token[34:66] != challenge_digest(round_seed) or key_id != key.key_id:
        raise InvalidToken("token", "be one of this round", f"key {key_id.hex()[:16]}")
    blind_rsa.verify(key.public, token[:INPUT_BYTES], token[INPUT_BYTES:])


def write_request(key: TokenKey, pending: PendingToken) -> bytes:
    """The TokenRequest (RFC 9578, section 6.1)."""
    return TOKEN_TYPE.to_bytes(2, "big") + key.key_id[-1:] + pending.blinding.blinded_msg


def read_request(key: TokenKey, request: bytes) -> bytes:
    if len(request) != 3 + SIGNATURE_BYTES:
        raise InvalidToken("request", f"be {3 + SIGNATURE_BYTES} bytes long", f"{len(request)} bytes")
    if request[:3] != TOKEN_TYPE.to_bytes(2, "big") + key.key_id[-1:]:
        raise InvalidToken("request", "name this round's key", request[:3].hex())
    return request[3:]


def key_id_of(token: bytes) -> bytes:
    return token[66:98]


def ticket_of_token(token: bytes) -> str:
    return hashlib.sha256(b"hushcall/1/ticket" + token).hexdigest()[: 2 * TICKET_BYTES]
