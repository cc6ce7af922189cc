"""Split-view detection: whether the server shows this client the same rounds and lists as all others.

The client keeps the round documents that it acts on. The next signed list names digests of its rounds. A server that
copies itself for one client shows it another list too, so a *log* that somebody else keeps names the digests as they
were seen elsewhere. Where a digest differs, the client takes part no more with the server and keeps both documents,
until its owner has looked. It also takes no part while the list that it has is expired.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hushcall.client.reporting.consent import Rejection
from hushcall.client.reporting.round_context import RoundContext
from hushcall.client.reporting.transport import HttpTransport, Transport
from hushcall.client.screening.lookup import read_state
from hushcall.client.storage.store import DAY_SECONDS, Store
from hushcall.errors import InvalidParameter, Unreachable
from hushcall.protocol import round_commitment
from hushcall.protocol.blocklist import iso

KEPT_DAYS = 90
# Settings: the server whose rounds were signed once, the log's address, its length and SHA-256 as last read, and why
# the client takes no part.
SIGNED, LOG, _LOG_SEEN, _REJECTION = "rounds_signed", "log", "log.seen", "split_view"
_LIST = "snapshot"  # in the log: the metadata that a list, its deltas and rounds hang on
MAX_WITHOUT_LIST_SECONDS = 3 * DAY_SECONDS


def look_rejection(context: RoundContext) -> Rejection | None:
    """Why the client takes no part now: for its list, for this round's document, or for what the log says of either."""
    store, document, server = context.store, context.info.document, context.transport.url
    if document is None:  # a simulation
        return None
    reason = list_rejection(context) or rejection(store, server) or signature_rejection(store, server, document)
    if reason is not None:
        return reason
    record(store, server, document, context.now)
    return rejection(store, server) or log_rejection(store, context.transport, document)


def list_rejection(context: RoundContext) -> Rejection | None:
    """Why the list says to stop. A store in memory has no list."""
    store, now, server = context.store, context.now, context.transport.url
    if store.folder is None:
        return None
    if context.anonymous and _keys(store) is None:
        return Rejection("this phone does not know the server's keys yet: run hushcall phone sync")
    expires = read_state(store.lists).get("expires")
    if expires is not None and now >= expires:
        return Rejection(
            f"its list expired on {iso(expires)}: run hushcall phone sync. If none comes, somebody holds it back"
        )
    query = "SELECT min(joined) FROM rounds WHERE server = ?"
    first = store.count(query + " HAVING count(*) > 0", server)
    if expires is None and first and now >= first + MAX_WITHOUT_LIST_SECONDS:
        return Rejection("no list has come for three days: run hushcall phone sync")
    return None


def record(store: Store, server: str, document: Mapping[str, Any], now: int) -> None:
    """Keep a document. A second, different document of the same round is a split view."""
    for part, body in round_commitment.parts(document).items():
        store.run(
            "INSERT OR IGNORE INTO documents VALUES (?, ?, ?, ?, ?, ?)",
            *(server, document["round"], part, round_commitment.digest(body), body.decode(), now),
        )
        query = "SELECT count(*) FROM documents WHERE server = ? AND round = ? AND part = ?"
        if store.count(query, server, document["round"], part) > 1:
            text = f"the server showed this phone two different documents of round {document['round']}"
            _reject(store, server, text)
    store.run("DELETE FROM documents WHERE seen <= ?", now - KEPT_DAYS * DAY_SECONDS)


def compare(store: Store, server: str, named: Mapping[int, Mapping[str, str]], now: int) -> Rejection | None:
    """Compare the recorded documents with the digests that a list names (round → part → digest)."""
    covered = range(min(named), max(named) + 1) if named else ()
    for round_, part, sha256 in store.rows("SELECT round, part, sha256 FROM documents WHERE server = ?", server):
        public = named.get(round_, {}).get(part, "")  # a list that omits a part denies it
        if round_ in covered and public != sha256:
            evidence = json.dumps({"list names": public, "this phone saw": sha256})
            store.run(
                "INSERT OR IGNORE INTO documents VALUES (?, ?, ?, ?, ?, ?)",
                *(server, round_, f"{part}, by the list", public, evidence, now),
            )
            _reject(store, server, f"the server showed this phone another round {round_} than everybody else ({part})")
    return rejection(store, server)


def log_rejection(store: Store, transport: Transport, document: Mapping[str, Any] | None = None) -> Rejection | None:
    """Compare what this client was shown with the owner's log, if there is one. It only grows, a line for each digest.

    ``{"at":"2026-11-15T00:00:00Z","id":12,"sha256":"…","what":"opened"}``: a round's part, or the list's snapshot.
    A round of which the log does not have this ``document`` yet may be for this client only.
    """
    address, server = store.get(LOG), transport.url
    if not address or not isinstance(transport, HttpTransport):
        return None
    try:
        answer = transport.fetch("GET", address, None, {"User-Agent": "hushcall", "Accept-Encoding": "identity"})
    except Unreachable as error:
        return Rejection(f"the log does not answer ({error})")
    entries = _entries(answer.data) if answer.status == 200 else None
    if entries is None:
        return Rejection(f"there is no log at {address} (status {answer.status})")
    length, _, before = store.get(_LOG_SEEN).partition(" ")
    if length and round_commitment.digest(answer.data[: int(length)]) != before:
        _reject(store, server, "the log was changed where it should only grow")
    store.put(_LOG_SEEN, f"{len(answer.data)} {round_commitment.digest(answer.data)}")
    query, snapshots = "SELECT part, round, sha256 FROM documents WHERE server = ?", _snapshot(store)
    for what, id_, sha256 in [*store.rows(query, server), *snapshots]:
        if entries.get((what, id_), sha256) != sha256:
            name = "another list" if what == _LIST else f"another round {id_}"
            _reject(store, server, f"the server showed this phone {name} than it showed the log ({what} {id_})")
    if document is not None:
        parts = round_commitment.parts(document).items()
        shown = [(part, document["round"], round_commitment.digest(body)) for part, body in parts]
        for what, id_, _ in [*shown, *snapshots]:
            if (what, id_) not in entries:
                return rejection(store, server) or Rejection(f"the log does not have {what} {id_} yet")
    return rejection(store, server)


def _entries(data: bytes) -> dict[tuple[str, int], str] | None:
    """The digests of a log. What it has twice, with two digests, equals none."""
    entries: dict[tuple[str, int], str] = {}
    try:
        for row in map(json.loads, data.splitlines()):
            key, sha256 = (str(row["what"]), int(row["id"])), str(row["sha256"])
            entries[key] = sha256 if entries.get(key, sha256) == sha256 else ""
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return entries


def _snapshot(store: Store) -> list[tuple[str, int, str]]:
    """The list that this client has, as the log names it. Empty before the first sync."""
    if store.folder is None:
        return []
    try:
        signed = json.loads((store.lists / "metadata" / "timestamp.json").read_bytes())["signed"]
        meta = signed["meta"]["snapshot.json"]
        return [(_LIST, int(meta["version"]), str(meta["hashes"]["sha256"]))]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def rejection(store: Store, server: str) -> Rejection | None:
    rejected, _, text = store.get(_REJECTION).partition("\n")
    return Rejection(text) if text and rejected == server else None


def trust_again(store: Store) -> None:
    """The owner has looked: the client takes part again. The evidence stays for its time."""
    store.put(_REJECTION, "")


def signature_rejection(store: Store, server: str, document: Mapping[str, Any]) -> Rejection | None:
    """A server that has signed once has to sign from then on. Without a list a document is accepted as it came."""
    signatures = document.get("signatures")
    if not isinstance(signatures, list) or not signatures:
        if document.get("anonymous") and _keys(store) is not None:
            return Rejection("the server's round is not signed")
        return Rejection("the server's round is not signed any more") if store.get(SIGNED) == server else None
    keys = _keys(store)
    if keys is None:
        return None
    trusted = _of_keys(signatures, keys)
    if not trusted:
        return Rejection("the server's round is signed by no key that this phone knows: run hushcall phone sync")
    message = round_commitment.to_sign(document)
    if not any(_verified(keys[signature["keyid"]], signature.get("sig"), message) for signature in trusted):
        return Rejection("the signature of the server's round does not hold")
    store.put(SIGNED, server)
    return None


def signed_by_strangers(store: Store, document: Mapping[str, Any] | None) -> bool:
    """Whether a document is signed by unknown keys only. After a rotation, a sync brings the new key."""
    signatures, keys = (document or {}).get("signatures"), _keys(store)
    return isinstance(signatures, list) and keys is not None and not _of_keys(signatures, keys)


def _of_keys(signatures: list[Any], keys: Mapping[str, str]) -> list[dict[str, Any]]:
    return [item for item in signatures if isinstance(item, dict) and item.get("keyid") in keys]


def _keys(store: Store) -> dict[str, str] | None:
    """The keys of the timestamp role by the trusted root, which TUF's client keeps. In memory: by the owner's."""
    try:
        root = store.get("root") if store.folder is None else (store.lists / "metadata" / "root.json").read_bytes()
        signed = json.loads(root)["signed"]
        return {name: signed["keys"][name]["keyval"]["public"] for name in signed["roles"]["timestamp"]["keyids"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _verified(public: str, signature: object, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # takes 0.1 s, which a lookup does not need
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(str(signature)), message)
    except (InvalidSignature, ValueError, InvalidParameter):
        return False
    return True


def _reject(store: Store, server: str, text: str) -> None:
    if rejection(store, server) is None:  # the first one is what the owner should look at
        store.put(_REJECTION, f"{server}\n{text}")
