"""A plain ``tuf.ngclient`` updater against the running service: it gets the list, and refuses whatever is off."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Village
from tuf.api.exceptions import RepositoryError
from tuf.ngclient import Updater

from hushcall.server.db import list_entries, schema
from hushcall.server.service import Service
from hushcall_lab.servers import running

DAY = 86_400


def _fetch(url: str, folder: Path, root: bytes) -> bytes:
    folder.mkdir(exist_ok=True)
    updater = Updater(
        metadata_dir=str(folder),
        metadata_base_url=f"{url}/v1/lists/metadata/",
        target_dir=str(folder),
        target_base_url=f"{url}/v1/lists/targets/",
        bootstrap=root,
    )
    info = updater.get_targetinfo("blocklist.jsonl")
    assert info is not None
    return Path(updater.download_target(info, str(folder / "list"))).read_bytes()


def _published(make_service: MakeService, clock: Clock, at: float) -> tuple[Service, bytes]:
    clock.now = at
    service = make_service()
    Village(service, clock).to("published", [SPAM] * 8)
    root = service.store.file("metadata/1.root.json")
    assert root is not None
    return service, root[0]


def test_it_downloads_and_verifies_the_list(make_service: MakeService, clock: Clock, tmp_path: Path) -> None:
    service, root = _published(make_service, clock, time.time())
    with running(service) as url:
        data = _fetch(url, tmp_path / "client", root)
    assert SPAM.encode() in data
    with service.store.read() as connection:
        assert data == list_entries.whole(connection, 1)


def _tampered(service: Service) -> None:
    """A listed number becomes another one."""
    table = schema.files
    for path in service.store.rows(sa.select(table.c.path).where(table.c.path.like("%.blocklist.jsonl"))):
        other = (service.store.file(path.path) or (b"",))[0].replace(SPAM.encode(), b"+12025550144")
        with service.store.write("an intruder") as connection:
            connection.execute(sa.update(table).where(table.c.path == path.path).values(data=other))


def _resigned(service: Service) -> None:
    """The timestamp is changed by somebody without its key."""
    table = schema.files
    data, _ = service.store.file("metadata/timestamp.json") or (b"", "")
    with service.store.write("an intruder") as connection:
        changed = data.replace(b'"version": 1', b'"version": 7').replace(b'"version":1', b'"version":7')
        assert changed != data or b'"sig"' in data
        forged = changed.replace(b'"sig": "', b'"sig": "00').replace(b'"sig":"', b'"sig":"00')
        connection.execute(sa.update(table).where(table.c.path == "metadata/timestamp.json").values(data=forged))


@pytest.mark.parametrize("harm", [_tampered, _resigned])
def test_what_was_tampered_with_is_refused(
    make_service: MakeService, clock: Clock, tmp_path: Path, harm: Callable[[Service], None]
) -> None:
    service, root = _published(make_service, clock, time.time())
    harm(service)
    with running(service) as url, pytest.raises(RepositoryError):
        _fetch(url, tmp_path / "client", root)


def test_a_server_set_back_to_its_past_is_refused(make_service: MakeService, clock: Clock, tmp_path: Path) -> None:
    service, root = _published(make_service, clock, time.time())
    before = service.store.files()
    Village(service, clock).to("published", [SPAM] * 8)
    with running(service) as url:
        _fetch(url, tmp_path / "client", root)
        service.store.change_files(lambda _: before)
        with pytest.raises(RepositoryError):
            _fetch(url, tmp_path / "client", root)


def test_a_server_frozen_in_its_past_is_refused(make_service: MakeService, clock: Clock, tmp_path: Path) -> None:
    service, root = _published(make_service, clock, time.time() - 30 * DAY)
    with running(service) as url, pytest.raises(RepositoryError, match="expired"):
        _fetch(url, tmp_path / "client", root)
