"""A token: the right to one report in one round, signed by an issuer who does not know what it signed.

Written as Privacy Pass writes a publicly verifiable token (RFC 9577, section 2.2; RFC 9578, section 6). The round's
seed is the redemption context, and every round has a key of its own: a token is good for one round and nothing else.
The ticket under which a report is filed is a hash of the token, so neither a phone nor the server can choose it: a
phone cannot know the signature before it has asked for the only one it gets, and the issuer never sees it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from hushcall import checks
from hushcall.anonymity import blind_rsa
from hushcall.anonymity.blind_rsa import Blinding, PublicKey
from hushcall.errors import InvalidToken
from hushcall.privacy.coins import ByteSource, read

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
    """The issuer's key of one round, as it is published and as phones know it by."""

    public: PublicKey

    def __post_init__(self) -> None:
        if self.public.n.bit_length() != KEY_BITS:
            raise InvalidToken("key", f"have {KEY_BITS} bits", self.public.n.bit_length())

    def to_bytes(self) -> bytes:
        """SubjectPublicKeyInfo in DER with the RSASSA-PSS identifier, as RFC 9578 wants token keys."""
        return _KEY_HEAD + self.public.n.to_bytes(SIGNATURE_BYTES, "big") + _KEY_TAIL

    @classmethod
    def from_bytes(cls, data: bytes) -> TokenKey:
        """Only what :meth:`to_bytes` writes is a key: there is one way to write each, so its digest names it."""
        start = len(_KEY_HEAD)
        if len(data) != start + SIGNATURE_BYTES + len(_KEY_TAIL):
            raise InvalidToken("key", "be an RSASSA-PSS key of 2048 bits in DER", f"{len(data)} bytes")
        if data[:start] != _KEY_HEAD or data[-len(_KEY_TAIL) :] != _KEY_TAIL:
            raise InvalidToken("key", "be an RSASSA-PSS key of 2048 bits in DER", data[:start].hex())
        return cls(PublicKey(int.from_bytes(data[start : start + SIGNATURE_BYTES], "big")))

    @property
    def key_id(self) -> bytes:
        """SHA-256 of the key as published."""
        return hashlib.sha256(self.to_bytes()).digest()


@dataclass(frozen=True, slots=True)
class Wish:
    """A phone's half-made token: what it will redeem, and what it must keep secret until then."""

    token_input: bytes
    blinding: Blinding


def challenge_digest(round_seed: bytes) -> bytes:
    """SHA-256 of the TokenChallenge: token type, issuer's name, the round's seed as context, no origin."""
    checks.length("seed", round_seed, SEED_BYTES)
    challenge = TOKEN_TYPE.to_bytes(2, "big") + len(_ISSUER).to_bytes(2, "big") + _ISSUER
    return hashlib.sha256(challenge + bytes([SEED_BYTES]) + round_seed + bytes(2)).digest()


def wish(key: TokenKey, round_seed: bytes, coins: ByteSource) -> Wish:
    """The phone's first step. ``blinding.blinded_msg`` goes to the issuer; reads nonce, salt and blinding."""
    nonce = read(coins, NONCE_BYTES)
    token_input = TOKEN_TYPE.to_bytes(2, "big") + nonce + challenge_digest(round_seed) + key.key_id
    return Wish(token_input, blind_rsa.blind(key.public, token_input, coins))


def token_of(key: TokenKey, wished: Wish, blind_sig: bytes) -> bytes:
    """The phone's second step: the token, if the issuer really signed with the key that was published."""
    return wished.token_input + blind_rsa.finalize(key.public, wished.token_input, blind_sig, wished.blinding.inv)


def check(key: TokenKey, round_seed: bytes, token: bytes) -> None:
    """The intake's: is this a token of this round? Whether it was spent before is the database's to say."""
    if len(token) != TOKEN_BYTES:
        raise InvalidToken("token", f"be {TOKEN_BYTES} bytes long", f"{len(token)} bytes")
    if token[:2] != TOKEN_TYPE.to_bytes(2, "big"):
        raise InvalidToken("token type", f"be {TOKEN_TYPE}", token[:2].hex())
    challenged, key_id = token[34:66], key_id_of(token)
    if challenged != challenge_digest(round_seed) or key_id != key.key_id:
        raise InvalidToken("token", "be one of this round", f"key {key_id.hex()[:16]}")
    blind_rsa.verify(key.public, token[:INPUT_BYTES], token[INPUT_BYTES:])


def write_request(key: TokenKey, wished: Wish) -> bytes:
    """What goes to the issuer: a TokenRequest (RFC 9578, section 6.1)."""
    return TOKEN_TYPE.to_bytes(2, "big") + key.key_id[-1:] + wished.blinding.blinded_msg


def read_request(key: TokenKey, request: bytes) -> bytes:
    """The blinded message of such a request."""
    if len(request) != 3 + SIGNATURE_BYTES:
        raise InvalidToken("request", f"be {3 + SIGNATURE_BYTES} bytes long", f"{len(request)} bytes")
    if request[:3] != TOKEN_TYPE.to_bytes(2, "big") + key.key_id[-1:]:
        raise InvalidToken("request", "name this round's key", request[:3].hex())
    return request[3:]


def key_id_of(token: bytes) -> bytes:
    """Which key a token says it was signed with."""
    return token[66:98]


def ticket_of(token: bytes) -> str:
    """The ticket that a token stands for: 32 hexadecimal digits that nobody could have chosen."""
    return hashlib.sha256(b"hushcall/1/ticket" + token).hexdigest()[: 2 * TICKET_BYTES]
