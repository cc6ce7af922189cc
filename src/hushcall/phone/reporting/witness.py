"""Whether everybody is shown the same round: documents come in and are kept, a list's digests come in, trouble leaves.

A phone keeps what it acted on. When the next list names digests of its rounds (signed under the list's root, the same
for everybody), they are compared: another digest means that this phone was shown a round of its own. Then it says so,
takes part no more with that server, and keeps both as evidence until its owner has looked (``hushcall phone init``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hushcall.errors import InvalidParameter
from hushcall.phone.home.store import Store
from hushcall.phone.reporting.ledger import DAY
from hushcall.protocol import charter

KEPT_DAYS = 90
SIGNED = "rounds_signed"
"""The setting that names the server whose rounds were signed once: from then on they have to be."""
_TROUBLE = "split_view"


def see(store: Store, server: str, document: Mapping[str, Any], now: int) -> None:
    """Keep what the phone is about to act on. Two different documents of one round are trouble by themselves."""
    for part, body in charter.parts(document).items():
        store.run(
            "INSERT OR IGNORE INTO documents VALUES (?, ?, ?, ?, ?, ?)",
            *(server, document["round"], part, charter.digest(body), body.decode(), now),
        )
        query = "SELECT count(*) FROM documents WHERE server = ? AND round = ? AND part = ?"
        if store.row(query, server, document["round"], part)[0] > 1:
            _tell(store, server, f"it showed this phone two different documents of round {document['round']}")
    store.run("DELETE FROM documents WHERE seen <= ?", now - KEPT_DAYS * DAY)


def compare(store: Store, server: str, named: Mapping[int, Mapping[str, str]], now: int) -> str:
    """Compare what was seen with what the list names; the trouble, if there is any."""
    for round_, part, sha256 in store.rows("SELECT round, part, sha256 FROM documents WHERE server = ?", server):
        public = _public(named, round_, part)
        if public is not None and public != sha256:
            evidence = json.dumps({"list names": public, "this phone saw": sha256})
            store.run(
                "INSERT OR IGNORE INTO documents VALUES (?, ?, ?, ?, ?, ?)",
                *(server, round_, f"{part}, by the list", public, evidence, now),
            )
            _tell(store, server, f"it showed this phone another round {round_} than everybody else ({part})")
    return trouble(store, server)


def _public(named: Mapping[int, Mapping[str, str]], round_: int, part: str) -> str | None:
    """What a list says of a part; None: it does not speak of such rounds. A list that leaves one out denies it."""
    silent = not named or not min(named) <= round_ <= max(named)
    return None if silent else named.get(round_, {}).get(part, "")


def trouble(store: Store, server: str) -> str:
    """Why this phone takes no part with this server any more; empty where it does."""
    where, _, why = store.get(_TROUBLE).partition("\n")
    return why if where == server else ""


def forgive(store: Store) -> None:
    """The owner has looked: the phone takes part again. The evidence stays for its time."""
    store.put(_TROUBLE, "")


def verify(store: Store, server: str, document: Mapping[str, Any]) -> str:
    """Why a document's signature is not believed; empty where it is, or where there is nothing yet to believe it by.

    A server that has signed once has to sign from then on. Which keys count says the root that the list was verified
    with; a phone that has no list yet joins on the word of the transport, as it enrolled on it.
    """
    signatures = document.get("signatures")
    if not isinstance(signatures, list) or not signatures:
        return "its round is not signed any more" if store.get(SIGNED) == server else ""
    keys = _keys(store)
    if keys is None:
        return ""
    known = _by_known_keys(signatures, keys)
    if not known:
        return "its round is signed by no key that this phone knows: run hushcall phone sync"
    if not any(_verified(keys[one["keyid"]], one.get("sig"), charter.to_sign(document)) for one in known):
        return "the signature of its round does not hold"
    store.put(SIGNED, server)
    return ""


def signed_by_strangers(store: Store, document: Mapping[str, Any] | None) -> bool:
    """Whether a document is signed, but by no key that this phone knows: after a rotation a sync brings the new one."""
    signatures, keys = (document or {}).get("signatures"), _keys(store)
    return isinstance(signatures, list) and keys is not None and not _by_known_keys(signatures, keys)


def _by_known_keys(signatures: list[Any], keys: Mapping[str, str]) -> list[dict[str, Any]]:
    return [one for one in signatures if isinstance(one, dict) and one.get("keyid") in keys]


def _keys(store: Store) -> dict[str, str] | None:
    """The keys of the timestamp role by the trusted root, as TUF's client keeps it."""
    if store.folder is None:
        return None
    try:
        signed = json.loads((store.lists / "metadata" / "root.json").read_bytes())["signed"]
        return {name: signed["keys"][name]["keyval"]["public"] for name in signed["roles"]["timestamp"]["keyids"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _verified(public: str, signature: object, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # a tenth of a second that a lookup does not need
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(str(signature)), message)
    except (InvalidSignature, ValueError, InvalidParameter):
        return False
    return True


def _tell(store: Store, server: str, why: str) -> None:
    if not trouble(store, server):  # the first is what the owner should look at
        store.put(_TROUBLE, f"{server}\n{why}")
