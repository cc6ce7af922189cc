"""RFC 9180: its base mode's vectors, and the other implementation that is at hand."""

import pytest
from cryptography.hazmat.primitives import hpke as peer
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.protocol.anonymity.published import in_turn, vectors

from hushcall.errors import InvalidMessage
from hushcall.protocol.anonymity import hpke
from hushcall.protocol.randomness import seeded

A1 = vectors("rfc9180-a1.json")
INFO, SECRET, PUBLIC = (bytes.fromhex(A1[name]) for name in ("info", "skRm", "pkRm"))
PEER = peer.Suite(peer.KEM.X25519, peer.KDF.HKDF_SHA256, peer.AEAD.AES_128_GCM)


def both() -> tuple[hpke.Context, hpke.Context]:
    enc, sender = hpke.setup_sender(PUBLIC, INFO, bytes.fromhex(A1["skEm"]))
    return sender, hpke.setup_receiver(enc, SECRET, INFO)


@pytest.mark.parametrize("who", ["E", "R"])
def test_keys_are_derived_as_published(who: str) -> None:
    secret = hpke.generate_key(in_turn(bytes.fromhex(A1[f"ikm{who}"])))
    assert secret.hex() == A1[f"sk{who}m"]
    assert hpke.public_key(secret).hex() == A1[f"pk{who}m"]


def test_the_key_schedule_is_the_published_one_at_both_ends() -> None:
    for context in both():
        assert context.key.hex() == A1["key"]
        assert context.base_nonce.hex() == A1["base_nonce"]
        assert context.exporter_secret.hex() == A1["exporter_secret"]
        for export in A1["exports"]:
            assert context.export(bytes.fromhex(export["context"]), 32).hex() == export["value"]


def test_messages_are_sealed_and_opened_as_published() -> None:
    sender, receiver = both()
    for vector in A1["encryptions"]:
        sender.seq = receiver.seq = vector["seq"]
        sealed = sender.seal(bytes.fromhex(vector["aad"]), bytes.fromhex(A1["pt"]))
        assert sealed.hex() == vector["ct"]
        assert receiver.open(bytes.fromhex(vector["aad"]), sealed).hex() == A1["pt"]


def test_the_other_implementation_opens_ours_and_we_open_its() -> None:
    secret = hpke.generate_key(seeded(b"gateway"))
    theirs = X25519PrivateKey.from_private_bytes(secret)
    enc, context = hpke.setup_sender(hpke.public_key(secret), INFO, hpke.generate_key(seeded(b"phone")))
    assert PEER.decrypt(enc + context.seal(b"", b"from us"), theirs, info=INFO) == b"from us"
    sealed = PEER.encrypt(b"from them", theirs.public_key(), info=INFO)
    assert hpke.setup_receiver(sealed[:32], secret, INFO).open(b"", sealed[32:]) == b"from them"


def test_anything_changed_does_not_open() -> None:
    sender, receiver = both()
    sealed = sender.seal(b"aad", b"message")
    for place in range(len(sealed)):
        bad = bytearray(sealed)
        bad[place] ^= 1
        receiver.seq = 0
        with pytest.raises(InvalidMessage):
            receiver.open(b"aad", bytes(bad))
    for aad, text, seq in ((b"", sealed, 0), (b"aad", sealed, 1), (b"aad", sealed[:-1], 0), (b"aad", b"", 0)):
        receiver.seq = seq
        with pytest.raises(InvalidMessage):
            receiver.open(aad, text)


@pytest.mark.parametrize("public", [bytes(32), bytes([1]) + bytes(31), b"short"], ids=["zero", "order one", "short"])
def test_points_that_would_share_a_known_secret_are_refused(public: bytes) -> None:
    with pytest.raises(InvalidMessage):
        hpke.setup_receiver(public, SECRET, INFO)
