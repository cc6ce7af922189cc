"""The phone's sync: deltas where they work, the whole list where not, and the old list whenever something is foul."""

from __future__ import annotations

import json
import pickle
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from securesystemslib.signer import CryptoSigner
from tests.imports import brought_by
from tests.published import ListServer, Operator, ago, make_list, now, serving
from tuf.api.metadata import Metadata

from hushcall.client.screening.list_sync import ListClient
from hushcall.client.screening.lookup import LIST_FILE, LoadedList
from hushcall.errors import HushcallError, InvalidParameter, Refused, Unreachable, UntrustedList
from hushcall.protocol.blocklist import delta
from hushcall.server.signing import ceremony, signer
from hushcall.server.signing.keys import ONLINE

LISTED = "blocklist.jsonl"


@pytest.fixture
def operator() -> Operator:
    return Operator.with_a_list()


@pytest.fixture
def server(operator: Operator) -> Iterator[ListServer]:
    with serving(operator.files) as running:
        yield running


@pytest.fixture
def client(server: ListServer, tmp_path: Path) -> ListClient:
    return ListClient(tmp_path / "lists", server.url, server.files["metadata/1.root.json"])


def held(client: ListClient) -> bytes:
    return (client.folder / LIST_FILE).read_bytes()


def test_the_first_sync_fetches_the_whole_list(client: ListClient, server: ListServer) -> None:
    result = client.sync()
    assert (result.before, result.version, result.entries, result.how) == (None, 1, 50, "full")
    assert held(client) == make_list(1).to_bytes()
    assert (result.requests, result.bytes) == (len(server.asked), sum(size for _, size in server.asked))


def test_a_second_sync_downloads_no_list(client: ListClient, server: ListServer) -> None:
    client.sync()
    server.asked.clear()
    assert client.sync().how == "unchanged"
    assert server.names() == ["2.root.json", "timestamp.json"]


def test_a_delta_is_taken_where_there_is_one(client: ListClient, server: ListServer, operator: Operator) -> None:
    client.sync()
    operator.publish(1, 2)
    server.asked.clear()
    result = client.sync()
    assert (result.before, result.version, result.how) == (1, 2, "delta")
    assert held(client) == make_list(2).to_bytes()
    assert not any(name.endswith(LISTED) for name in server.names())
    assert result.bytes < len(make_list(2).to_bytes())


def drop_delta(operator: Operator) -> None:
    del operator.files[operator.target("delta-1-2.jsonl")]


def damage_delta(operator: Operator) -> None:
    path = operator.target("delta-1-2.jsonl")
    operator.files[path] = operator.files[path].replace(b"+1202555", b"+1202556")


def lengthen_delta(operator: Operator) -> None:
    operator.files[operator.target("delta-1-2.jsonl")] += b"more\n"


def sign_a_delta_that_leads_elsewhere(operator: Operator) -> None:
    targets = {LISTED: make_list(2).to_bytes(), "delta-1-2.jsonl": delta(make_list(1), make_list(3))}
    operator.apply(signer.publish(operator.files, operator.ring, targets, now()))


def sign_a_delta_that_is_none(operator: Operator) -> None:
    targets = {LISTED: make_list(2).to_bytes(), "delta-1-2.jsonl": b"nonsense"}
    operator.apply(signer.publish(operator.files, operator.ring, targets, now()))


@pytest.mark.parametrize(
    "change", [drop_delta, damage_delta, lengthen_delta, sign_a_delta_that_leads_elsewhere, sign_a_delta_that_is_none]
)
def test_without_a_delta_that_works_the_whole_list_is_fetched(
    change: Callable[[Operator], None], client: ListClient, operator: Operator
) -> None:
    client.sync()
    operator.publish(1, 2)
    change(operator)
    assert client.sync().how == "full"
    assert held(client) == make_list(2).to_bytes()


def test_a_phone_two_versions_behind_a_single_delta_takes_the_whole_list(
    client: ListClient, operator: Operator
) -> None:
    client.sync()
    operator.publish(2, 3)
    assert client.sync().how == "full"


def test_a_list_that_was_damaged_on_the_phone_is_fetched_anew(client: ListClient) -> None:
    client.sync()
    for content in (b"", b"rubbish\n", make_list(1).to_bytes()[:-10]):
        (client.folder / LIST_FILE).write_bytes(content)
        assert client.sync().how == "full"
        assert held(client) == make_list(1).to_bytes()


# --- attacks --------------------------------------------------------------------------------------------------------

Files = dict[str, bytes]


def forge(name: str) -> Callable[[Files, Files], None]:
    def change(_: Files, new: Files) -> None:
        document = json.loads(new[name])
        document["signed"]["expires"] = "2036-01-01T00:00:00Z"
        new[name] = json.dumps(document).encode()

    return change


def forge_list(_: Files, new: Files) -> None:
    new |= {path: data.replace(b"+1202555", b"+1202556") for path, data in new.items() if path.endswith(LISTED)}


def endless_list(_: Files, new: Files) -> None:
    new |= {path: data + bytes(10**6) for path, data in new.items() if path.endswith(LISTED)}


def old_snapshot(old: Files, new: Files) -> None:
    new["metadata/3.snapshot.json"] = old["metadata/2.snapshot.json"]


def mix_and_match(old: Files, new: Files) -> None:
    new["metadata/3.targets.json"] = old["metadata/2.targets.json"]


def wrong_key(_: Files, new: Files) -> None:
    metadata: Metadata = Metadata.from_bytes(new["metadata/timestamp.json"])  # type: ignore[type-arg]
    metadata.sign(CryptoSigner.generate_ed25519())
    new["metadata/timestamp.json"] = metadata.to_bytes()


def no_json(_: Files, new: Files) -> None:
    new["metadata/timestamp.json"] = b"<html>Log in to this hotel's network</html>"


def other_root(_: Files, new: Files) -> None:
    stranger = Operator().start()
    stranger.rotate("targets")
    new["metadata/2.root.json"] = stranger.files["metadata/2.root.json"]


ATTACKS: dict[str, Callable[[Files, Files], None]] = {
    "list forged": forge_list,
    "list endless": endless_list,
    "timestamp forged": forge("metadata/timestamp.json"),
    "snapshot forged": forge("metadata/3.snapshot.json"),
    "targets forged": forge("metadata/3.targets.json"),
    "old snapshot": old_snapshot,
    "mix and match": mix_and_match,
    "wrong key": wrong_key,
    "captive portal": no_json,
    "another's root": other_root,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_and_the_old_list_stays(name: str, client: ListClient, operator: Operator) -> None:
    client.sync()
    before = dict(operator.files)
    operator.publish(2)
    good = dict(operator.files)
    ATTACKS[name](before, operator.files)
    with pytest.raises(UntrustedList):
        client.sync()
    assert held(client) == make_list(1).to_bytes()
    assert client.load().version == 1
    operator.files.clear()
    operator.files |= good
    assert client.sync().version == 2


def test_a_rolled_back_timestamp_is_refused(client: ListClient, operator: Operator) -> None:
    before = dict(operator.files)
    operator.publish(2)
    client.sync()
    operator.files["metadata/timestamp.json"] = before["metadata/timestamp.json"]
    with pytest.raises(UntrustedList, match="older than the one that this phone has seen"):
        client.sync()
    assert held(client) == make_list(2).to_bytes()


def test_a_frozen_list_is_refused_once_its_timestamp_expires(tmp_path: Path) -> None:
    operator = Operator().start(ago(4))
    operator.publish(1, at=ago(4))
    frozen = dict(operator.files)
    operator.apply(signer.refresh(operator.files, operator.ring, now()))
    with serving(operator.files) as server:
        client = ListClient(tmp_path, server.url)
        client.sync()
        operator.files["metadata/timestamp.json"] = frozen["metadata/timestamp.json"]
        with pytest.raises(UntrustedList):
            client.sync()
        fresh = ListClient(tmp_path / "fresh", server.url)
        with pytest.raises(UntrustedList, match=r"timestamp.json is expired"):
            fresh.sync()
        assert held(client) == make_list(1).to_bytes()
        assert not (tmp_path / "fresh" / LIST_FILE).exists()


def test_an_expired_root_is_refused(tmp_path: Path) -> None:
    operator = Operator().start(ago(366))
    operator.publish(1)
    with serving(operator.files) as server:
        with pytest.raises(UntrustedList, match=r"root.json is expired"):
            ListClient(tmp_path, server.url).sync()
        operator.rotate("timestamp")
        assert ListClient(tmp_path, server.url).sync().version == 1


# --- trust on first use, pins, rotation -------------------------------------------------------------------------------


def test_without_a_root_the_first_one_is_trusted_and_pinned(server: ListServer, tmp_path: Path) -> None:
    client = ListClient(tmp_path, server.url + "/")
    client.sync()
    assert server.names()[0] == "root.json"
    impostor = Operator().start()
    impostor.publish(5)
    impostor.publish(6)
    server.files.clear()
    server.files |= impostor.files
    with pytest.raises(UntrustedList):
        client.sync()
    assert server.names().count("root.json") == 1
    assert held(client) == make_list(1).to_bytes()


def test_nothing_is_pinned_by_a_first_sync_that_failed(server: ListServer, operator: Operator, tmp_path: Path) -> None:
    genuine = dict(operator.files)
    impostor = Operator().start()
    impostor.publish(9)
    forge_list({}, impostor.files)
    server.files |= impostor.files
    client = ListClient(tmp_path, server.url)
    with pytest.raises(UntrustedList):
        client.sync()
    server.files.clear()
    server.files |= genuine
    assert client.sync().version == 1


def test_a_given_root_of_somebody_else_is_refused_at_the_first_sync(server: ListServer, tmp_path: Path) -> None:
    for root in (Operator().start().files["metadata/1.root.json"], b"no root"):
        with pytest.raises(UntrustedList):
            ListClient(tmp_path, server.url, root).sync()
    assert not (tmp_path / LIST_FILE).exists()


def test_a_digest_got_elsewhere_guards_the_first_use(server: ListServer, operator: Operator, tmp_path: Path) -> None:
    operator.rotate("root")
    digest = ceremony.root_sha256(server.files)
    with pytest.raises(UntrustedList, match="not the one that you gave"):
        ListClient(tmp_path, server.url, root_sha256="0" * 64).sync()
    client = ListClient(tmp_path, server.url, root_sha256=f" {digest.upper()}\n")
    assert client.sync().version == 1
    operator.rotate("root")  # has another digest; the pinned root leads there
    assert client.sync().how == "unchanged"


@pytest.mark.parametrize("pinned", [True, False])
def test_a_phone_that_lagged_behind_follows_every_rotation(
    pinned: bool, server: ListServer, operator: Operator, tmp_path: Path
) -> None:
    client = ListClient(tmp_path, server.url, server.files["metadata/1.root.json"] if pinned else None)
    client.sync()
    for version in (2, 3):
        for role in ("root", *ONLINE):
            operator.rotate(role)
        operator.publish(1, version)
    assert (client.sync().how, client.load().version) == ("delta", 3)
    assert client.sync().how == "unchanged"


# --- trouble --------------------------------------------------------------------------------------------------------


def fails_with(kind: type[HushcallError], client: ListClient) -> str:
    with pytest.raises(kind) as caught:
        client.sync()
    assert held(client) == make_list(1).to_bytes()
    return str(caught.value)


def test_network_trouble_is_told_apart_and_loses_nothing(
    client: ListClient, server: ListServer, operator: Operator
) -> None:
    client.sync()
    operator.publish(2)
    server.status = 503
    assert "503" in fails_with(Unreachable, client)
    server.status = 410
    assert "410" in fails_with(Refused, client)
    server.status, server.cut = 200, True
    fails_with(Unreachable, client)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = ListClient(client.folder, f"http://127.0.0.1:{unused.getsockname()[1]}", client.root)
        assert "could not be asked" in fails_with(Unreachable, nobody)


def test_a_server_without_a_list_says_so(tmp_path: Path) -> None:
    with serving(Operator().start().files) as server, pytest.raises(Refused, match="no list yet"):
        ListClient(tmp_path, server.url).sync()


def test_a_list_of_an_unknown_format_does_not_replace_one_that_works(client: ListClient, operator: Operator) -> None:
    client.sync()
    targets = {LISTED: make_list(2).to_bytes().replace(b"hushcall-list/1", b"hushcall-list/9")}
    operator.apply(signer.publish(operator.files, operator.ring, targets, now()))
    with pytest.raises(HushcallError, match="have a format of hushcall-list/1, hushcall-list/2"):
        client.sync()
    assert client.load().version == 1


def test_a_folder_that_cannot_be_made_is_named(server: ListServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    root = server.files["metadata/1.root.json"]
    with pytest.raises(InvalidParameter, match="folder must be writable"):
        ListClient(tmp_path / "file" / "lists", server.url, root).sync()
    with pytest.raises(InvalidParameter, match="folder must be readable"):
        ListClient(tmp_path / "file" / "lists", server.url).sync()


def test_the_error_survives_a_process_border() -> None:
    twin = pickle.loads(pickle.dumps(UntrustedList("it is old")))  # noqa: S301
    assert (twin.why, str(twin)) == ("it is old", "the server's list cannot be trusted: it is old")


def test_the_state_tells_when_the_list_was_synced_and_expires(client: ListClient, tmp_path: Path) -> None:
    at = now().replace(microsecond=0)
    result = client.sync(at)
    loaded = LoadedList.load(client.folder)
    assert loaded.synced == int(at.timestamp())
    assert loaded.expires == int(result.expires.timestamp())
    assert timedelta(days=2, hours=23) < result.expires - at <= timedelta(days=3)
    assert not loaded.expired(int(at.timestamp()))
    assert loaded.expired(int(at.timestamp()) + 3 * 86400)


def test_looking_up_needs_no_tuf_and_no_network_library() -> None:
    heavy = {"tuf", "urllib3", "securesystemslib", "cryptography", "numpy"}
    assert not heavy & brought_by("hushcall.client.screening.lookup", "hushcall.client.screening.screen")
