"""What the server signs, a stranger's TUF client verifies; what it did not sign, that client refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from securesystemslib.signer import CryptoSigner
from tests.published import ListServer, Operator, ago, make_list, new_ring, serving
from tuf.api.exceptions import (
    BadVersionNumberError,
    DownloadError,
    ExpiredMetadataError,
    LengthOrHashMismatchError,
    RepositoryError,
    UnsignedMetadataError,
)
from tuf.api.metadata import Metadata
from tuf.ngclient import Updater

from hushcall.errors import InvalidList, InvalidParameter
from hushcall.server.signing import signer
from hushcall.server.signing.keys import ONLINE

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
DAY = timedelta(days=1)
LISTED = "blocklist.jsonl"


@pytest.fixture
def operator() -> Operator:
    return Operator.with_a_list()


@pytest.fixture
def server(operator: Operator) -> Iterator[ListServer]:
    with serving(operator.files) as running:
        yield running


class Stranger:
    """A plain ``tuf.ngclient.Updater`` that keeps its state from one run to the next."""

    def __init__(self, server: ListServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.root = server.files["metadata/1.root.json"]

    def fetch(self, name: str = LISTED) -> bytes:
        base, folder = self.server.base, str(self.folder)
        updater = Updater(folder, f"{base}metadata/", folder, f"{base}targets/", bootstrap=self.root)
        updater.refresh()
        info = updater.get_targetinfo(name)
        assert info is not None
        return Path(updater.download_target(info)).read_bytes()


@pytest.fixture
def stranger(server: ListServer, tmp_path: Path) -> Stranger:
    return Stranger(server, tmp_path)


def test_a_stranger_gets_every_target(operator: Operator, stranger: Stranger) -> None:
    operator.publish(1, 2)
    assert stranger.fetch() == make_list(2).to_bytes()
    assert stranger.fetch("exports/plain.txt") == b"2\n"
    assert b"hushcall-delta/1" in stranger.fetch("delta-1-2.jsonl")


def test_the_signed_list_says_its_version(operator: Operator) -> None:
    operator.publish(7)
    signed = json.loads(operator.files["metadata/3.targets.json"])["signed"]
    assert signed["targets"][LISTED]["custom"] == {"version": 7}


# --- attacks: each is given the files as they were before and as they are now, and changes what is served -----------


def swap_targets_of_other_version(old: dict[str, bytes], new: dict[str, bytes]) -> None:
    new["metadata/3.targets.json"] = old["metadata/2.targets.json"]


def damage_target(_: dict[str, bytes], new: dict[str, bytes]) -> None:
    new |= {path: data.replace(b"+1202555", b"+1202556") for path, data in new.items() if path.endswith(LISTED)}


def damage(name: str) -> Callable[[dict[str, bytes], dict[str, bytes]], None]:
    def change(_: dict[str, bytes], new: dict[str, bytes]) -> None:
        document = json.loads(new[name])
        document["signed"]["expires"] = "2036-01-01T00:00:00Z"
        new[name] = json.dumps(document).encode()

    return change


def roll_back_timestamp(old: dict[str, bytes], new: dict[str, bytes]) -> None:
    new["metadata/timestamp.json"] = old["metadata/timestamp.json"]


def roll_back_snapshot(old: dict[str, bytes], new: dict[str, bytes]) -> None:
    new["metadata/3.snapshot.json"] = old["metadata/2.snapshot.json"]


def sign_by_another(_: dict[str, bytes], new: dict[str, bytes]) -> None:
    metadata: Metadata = Metadata.from_bytes(new["metadata/timestamp.json"])  # type: ignore[type-arg]
    metadata.sign(CryptoSigner.generate_ed25519())
    new["metadata/timestamp.json"] = metadata.to_bytes()


Attack = Callable[[dict[str, bytes], dict[str, bytes]], None]
ATTACKS: dict[str, tuple[Attack, tuple[type[Exception], ...]]] = {
    "target tampered with": (damage_target, (LengthOrHashMismatchError,)),
    "timestamp tampered with": (damage("metadata/timestamp.json"), (UnsignedMetadataError,)),
    "snapshot tampered with": (damage("metadata/3.snapshot.json"), (LengthOrHashMismatchError, DownloadError)),
    "targets tampered with": (damage("metadata/3.targets.json"), (LengthOrHashMismatchError, DownloadError)),
    "snapshot rolled back": (roll_back_snapshot, (LengthOrHashMismatchError,)),
    "mix and match": (swap_targets_of_other_version, (LengthOrHashMismatchError, DownloadError)),
    "wrong key": (sign_by_another, (UnsignedMetadataError,)),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused(name: str, operator: Operator, stranger: Stranger) -> None:
    attack, expected = ATTACKS[name]
    stranger.fetch()
    before = dict(operator.files)
    operator.publish(2)
    good = dict(operator.files)
    attack(before, operator.files)
    with pytest.raises(expected):
        stranger.fetch()
    operator.files |= good
    assert stranger.fetch() == make_list(2).to_bytes()


def test_a_rolled_back_timestamp_is_refused(operator: Operator, stranger: Stranger) -> None:
    before = dict(operator.files)
    operator.publish(2)
    stranger.fetch()
    roll_back_timestamp(before, operator.files)
    with pytest.raises(BadVersionNumberError):
        stranger.fetch()


@pytest.mark.parametrize(("days", "what"), [(4, "timestamp"), (400, "root")])
def test_what_has_expired_is_refused(days: int, what: str, tmp_path: Path) -> None:
    operator = Operator().start(ago(days))
    operator.publish(1, at=ago(days))
    with serving(operator.files) as server:
        stranger = Stranger(server, tmp_path)
        with pytest.raises(ExpiredMetadataError, match=what):
            stranger.fetch()
        if what == "timestamp":
            operator.apply(signer.refresh(operator.files, operator.ring, ago(0)))
        else:
            operator.rotate("root")
        assert stranger.fetch() == make_list(1).to_bytes()


def test_a_forged_root_is_refused(operator: Operator, stranger: Stranger) -> None:
    stranger.fetch()
    forger = Operator().start()
    forger.rotate("targets")
    operator.files["metadata/2.root.json"] = forger.files["metadata/2.root.json"]
    with pytest.raises(UnsignedMetadataError):
        stranger.fetch()


# --- rotation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["root", *ONLINE])
def test_a_client_follows_the_rotation_of_a_key(role: str, operator: Operator, stranger: Stranger) -> None:
    stranger.fetch()
    operator.rotate(role)
    assert stranger.fetch() == make_list(1).to_bytes()
    operator.publish(2)
    assert stranger.fetch() == make_list(2).to_bytes()


def test_a_client_that_lagged_behind_follows_every_rotation_twice(operator: Operator, stranger: Stranger) -> None:
    stranger.fetch()
    for version in range(2, 4):
        for role in ("root", *ONLINE):
            operator.rotate(role)
        operator.publish(version)
    assert stranger.fetch() == make_list(3).to_bytes()
    assert "metadata/9.root.json" in operator.files


@pytest.mark.parametrize("role", ONLINE)
def test_the_old_key_counts_for_nothing_after_a_rotation(role: str, operator: Operator, stranger: Stranger) -> None:
    thief = Operator(operator.ring, operator.root_key)
    operator.rotate(role)
    stranger.fetch()
    thief.files = {path: data for path, data in operator.files.items() if path != "metadata/2.root.json"}
    thief.publish(2)
    thief.publish(3)
    operator.files |= thief.files
    with pytest.raises(RepositoryError):
        stranger.fetch()


def test_a_publication_that_raced_with_a_rotation_heals_at_the_next_refresh(
    operator: Operator, stranger: Stranger
) -> None:
    late = signer.publish(
        operator.files, operator.ring, {LISTED: make_list(2).to_bytes()}, ago(0)
    )  # read before, written after
    operator.rotate("targets")
    operator.apply(late)
    with pytest.raises(RepositoryError):
        stranger.fetch()
    operator.apply(signer.refresh(operator.files, operator.ring, ago(0)))
    assert stranger.fetch() == make_list(2).to_bytes()


def test_another_root_key_cannot_rotate(operator: Operator) -> None:
    stray = CryptoSigner.generate_ed25519()
    for role in ("root", "targets"):
        with pytest.raises(InvalidParameter, match="root key must be the current one"):
            signer.rotate(operator.files, operator.ring, role, CryptoSigner.generate_ed25519(), [stray], NOON)


def test_a_ring_without_the_key_in_force_cannot_publish(operator: Operator) -> None:
    with pytest.raises(InvalidParameter, match="keys must hold the targets key that root version 1 names"):
        signer.publish(operator.files, new_ring(), {LISTED: make_list(2).to_bytes()}, NOON)


# --- publishing -----------------------------------------------------------------------------------------------------


def test_publishing_the_same_again_changes_nothing_until_something_is_due(operator: Operator) -> None:
    targets = {LISTED: make_list(1).to_bytes(), "exports/plain.txt": b"1\n"}
    at = ago(0)
    assert signer.publish(operator.files, operator.ring, targets, at) == {}
    assert signer.refresh(operator.files, operator.ring, at + DAY) == {}
    assert set(signer.publish(operator.files, operator.ring, targets, at + 2 * DAY)) == {"metadata/timestamp.json"}
    later = signer.refresh(operator.files, operator.ring, at + 16 * DAY)
    assert set(later) == {"metadata/timestamp.json", "metadata/3.snapshot.json", "metadata/3.targets.json"}


def test_equal_inputs_give_equal_bytes() -> None:
    ring, root_key = new_ring(), CryptoSigner.generate_ed25519()
    targets = {LISTED: make_list(1).to_bytes(), "exports/a.txt": b"a", "exports/b.txt": b"b"}
    twins = []
    for order in (list(targets), list(reversed(targets))):
        files = signer.start(ring, [root_key], NOON)
        made = signer.publish(files, ring, {name: targets[name] for name in order}, NOON)
        twins.append(files | {path: data for path, data in made.items() if data is not None})
    assert twins[0] == twins[1]


def test_only_the_last_three_versions_are_kept_and_every_root(operator: Operator) -> None:
    operator.rotate("timestamp")
    for version in range(2, 8):
        operator.publish(version)
    versions = {path for path in operator.files if path.endswith((".targets.json", ".snapshot.json"))}
    assert versions == {f"metadata/{v}.{role}.json" for v in (6, 7, 8) for role in ("targets", "snapshot")}
    assert {"metadata/1.root.json", "metadata/2.root.json"} <= set(operator.files)
    lists = {data for path, data in operator.files.items() if path.endswith(LISTED)}
    assert lists == {make_list(version).to_bytes() for version in (5, 6, 7)}


def test_a_target_that_comes_back_while_its_file_is_still_there_stays(operator: Operator, stranger: Stranger) -> None:
    for version in (2, 3, 1, 2, 3, 1):
        operator.publish(version)
        assert stranger.fetch() == make_list(version).to_bytes()


def test_published_files_are_not_changed_in_place(operator: Operator) -> None:
    before = dict(operator.files)
    signer.publish(operator.files, operator.ring, {}, NOON)
    signer.rotate(operator.files, operator.ring, "root", CryptoSigner.generate_ed25519(), [operator.root_key], NOON)
    assert operator.files == before


def test_status_tells_versions_expiries_and_keys() -> None:
    operator = Operator().start(NOON)
    operator.publish(1, at=NOON)
    rows = {row.role: row for row in signer.status(operator.files, NOON + 4 * DAY)}
    assert [(row.version, row.expires - NOON, row.expired) for row in rows.values()] == [
        (1, 365 * DAY, False),
        (2, 3 * DAY, True),
        (2, 30 * DAY, False),
        (2, 30 * DAY, False),
    ]
    assert list(rows) == ["root", *ONLINE]
    assert rows["root"].key_ids == (operator.root_key.public_key.keyid,)
    assert rows["targets"].key_ids == (operator.ring.signers["targets"][0].public_key.keyid,)


@pytest.mark.parametrize("path", ["../up", "/abs", "a//b", "", ".hidden", "a/../b", "a b"])
def test_a_target_path_that_could_leave_its_folder_is_refused(path: str, operator: Operator) -> None:
    with pytest.raises(InvalidParameter, match="target path"):
        signer.publish(operator.files, operator.ring, {path: b""}, NOON)


def test_bad_inputs_are_errors_of_ours(operator: Operator) -> None:
    with pytest.raises(InvalidParameter, match="hushcall keys init"):
        signer.refresh({}, operator.ring, NOON)
    with pytest.raises(InvalidParameter, match="now must have a time zone"):
        signer.start(operator.ring, [operator.root_key], datetime(2026, 11, 15))
    with pytest.raises(InvalidList, match="names its version"):
        signer.publish(operator.files, operator.ring, {LISTED: b"not a list"}, NOON)
    with pytest.raises(InvalidParameter, match="role must be one of"):
        signer.rotate(operator.files, operator.ring, "mirror", operator.root_key, [operator.root_key], NOON)
    with pytest.raises(InvalidList, match="be TUF metadata"):
        signer.refresh({**operator.files, "metadata/timestamp.json": b"{}"}, operator.ring, NOON)
    lost = {path: data for path, data in operator.files.items() if path != "metadata/2.targets.json"}
    with pytest.raises(InvalidList, match=r"hold metadata/2.targets.json"):
        signer.refresh(lost, operator.ring, NOON)


def test_no_target_is_read_to_refresh_or_rotate(operator: Operator) -> None:
    class MetadataOnly(dict[str, bytes]):
        def __getitem__(self, path: str) -> bytes:
            assert path.startswith("metadata/"), path
            return super().__getitem__(path)

    files = MetadataOnly(operator.files)
    assert signer.refresh(files, operator.ring, ago(-20))
    assert signer.rotate(files, operator.ring, "targets", CryptoSigner.generate_ed25519(), [operator.root_key], ago(0))
    assert signer.publish(files, operator.ring, {LISTED: make_list(2).to_bytes()}, ago(0))
