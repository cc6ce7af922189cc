"""What is never listed: the allowlist in its three forms, appeals, numbers that reach an emergency service."""

from __future__ import annotations

import sys
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Village, bearer, operator_token, serving

from hushcall.errors import InvalidData, InvalidNumber, InvalidParameter
from hushcall.protocol.numbers import NANP, Number
from hushcall.server.http.routes import admin
from hushcall.server.publishing import exclusions
from hushcall.server.publishing.exclusions import is_protected, look_up, never_listed, read_allow_file
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.rounds import round_status
from hushcall.server.service import Service
from hushcall.server.settings import ListSettings
from hushcall.server.web import findings

OTHER = "+12025550199"
THIRD = "+12025550177"
CALLERS = [SPAM] * 6 + [OTHER] * 6 + [THIRD] * 6


def hook(program: str) -> list[str]:
    """A lookup command that runs these lines of Python."""
    return [sys.executable, "-c", program]


def listed(service: Service) -> list[str]:
    with service.store.read() as connection:
        found = newest_list(connection)
    return [] if found is None else [entry.number for entry in found.entries]


def off(service: Service, **settings: Any) -> frozenset[str]:
    with service.store.read() as connection:
        return never_listed(connection, ListSettings(**settings), NANP, [SPAM, OTHER, THIRD])


def test_a_number_in_the_table_in_an_appeal_in_the_file_or_of_the_lookup_stays_off(
    service: Service, tmp_path: Path
) -> None:
    file = tmp_path / "allow.txt"
    file.write_text("# ours\n(202) 555-0199  # reception\n\n", encoding="utf-8")
    assert off(service) == frozenset()
    assert off(service, allow_file=file) == {OTHER}
    assert off(service, allow_command=hook(f"print('{THIRD}')")) == {THIRD}
    service.corrections.allow("202-555-0143", "ours", "me", service.now)
    exclusions.appeal(service.store, THIRD, "a school", "they", service.now)
    assert off(service, allow_file=file) == {SPAM, OTHER, THIRD}
    exclusions.close_appeal(service.store, 1, "no school", service.now)
    exclusions.disallow(service.store, SPAM)
    assert off(service) == frozenset()


def test_the_lookup_is_asked_only_about_what_is_left_and_heard_only_about_that(
    service: Service, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    program = f"import sys; text = sys.stdin.read(); open({str(seen)!r}, 'w').write(text); print(text, '+12125550100')"
    exclusions.allow(service.store, SPAM, "ours", "me", service.now)
    assert off(service, allow_command=hook(program)) == {SPAM, OTHER, THIRD}
    assert seen.read_text(encoding="utf-8").split() == [THIRD, OTHER]


@pytest.mark.parametrize(
    ("program", "patience", "kind"),
    [
        ("import sys; sys.exit(3)", 60.0, "CalledProcessError"),
        ("import time; time.sleep(600)", 0.5, "TimeoutExpired"),
        ("import sys; sys.stdout.buffer.write(bytes([255]))", 60.0, "UnicodeDecodeError"),
    ],
)
def test_a_lookup_that_fails_stops_the_list_until_it_works(
    make_service: MakeService, database: str, clock: Clock, program: str, patience: float, kind: str
) -> None:
    broken = make_service(database, list={"allow_command": hook(program), "allow_timeout": patience})
    village = Village(broken, clock)
    number = village.to("decoded", CALLERS)
    with pytest.raises(InvalidParameter, match=rf"answers within {patience:g} s \({kind}"):
        broken.rounds.advance(broken.now)
    assert (listed(broken), round_status.status(broken.store, number)["state"]) == ([], "decoded")
    mended = make_service(database, list={"allow_command": hook(f"print('{SPAM}')")})
    assert mended.rounds.advance(mended.now) == ["round 1 is published"]
    assert listed(mended) == [THIRD, OTHER]


def test_an_appeal_does_not_wait_for_a_lookup_or_a_file_that_is_out_of_order(
    make_service: MakeService, database: str, clock: Clock, tmp_path: Path
) -> None:
    allowed, switch = tmp_path / "allowed.txt", tmp_path / "broken"
    allowed.write_text("", encoding="utf-8")
    program = f"import os, sys; print({THIRD!r}); sys.exit(os.path.exists({str(switch)!r}))"
    service = make_service(database, list={"allow_file": allowed, "allow_command": hook(program)})
    Village(service, clock).to("published", CALLERS)
    assert listed(service) == [SPAM, OTHER]
    switch.touch()
    allowed.unlink()
    exclusions.appeal(service.store, SPAM, "mine", "its owner", service.now)
    assert service.publisher.republish(service.now)
    assert listed(service) == [OTHER], "SPAM left, and what the lookup kept off did not come in"


def test_a_lookup_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidParameter, match=r"allow_command must .*FileNotFoundError\), got 'no-such-command'"):
        look_up(["no-such-command"], [SPAM], 1.0)


def test_a_line_of_the_file_that_is_no_number_is_named_by_its_place_alone(tmp_path: Path) -> None:
    file = tmp_path / "allow.txt"
    file.write_text("+12025550143\n12345\n", encoding="utf-8")
    with pytest.raises(InvalidData, match="allow_file must hold a number in line 2") as caught:
        read_allow_file(file, NANP)
    assert "12345" not in str(caught.value).replace(str(file), "")
    for broken in (tmp_path / "absent", tmp_path):
        with pytest.raises(InvalidData, match="allow_file must be a readable text file"):
            read_allow_file(broken, NANP)


def test_a_number_that_reaches_an_emergency_service_is_protected() -> None:
    assert not is_protected(SPAM, NANP)
    assert all(is_protected(Number(1, area, 5550143), NANP) for area in (211, 411, 911))
    assert is_protected("+4930123456", NANP)  # not one of the plan: nobody could say what it reaches


def test_an_appeal_takes_a_number_off_at_once_and_its_close_brings_it_back(village: Village) -> None:
    village.to("published", CALLERS)
    service = village.service
    entry, published = service.corrections.appeal("1 202 555 0143", "a school", "the school", service.now)
    assert published
    assert exclusions.appeals(service.store, SPAM)[0].id == entry
    assert listed(service) == [THIRD, OTHER]
    assert not service.publisher.republish(service.now)  # the same list is not published twice
    village.to("published", CALLERS)
    assert listed(service) == [THIRD, OTHER]  # reported again, and still appealed
    assert service.corrections.close(entry, "it was none", service.now)
    assert listed(service) == [SPAM, THIRD, OTHER]


def test_the_log_of_appeals_keeps_who_when_why_and_the_end(service: Service, clock: Clock) -> None:
    store = service.store
    first = exclusions.appeal(store, SPAM, "a school", "the school", 10)
    assert exclusions.appeal(store, SPAM, "again", "somebody", 20) == first  # the one that is open stays
    exclusions.close_appeal(store, first, "turned down", 30)
    second = exclusions.appeal(store, SPAM, "a letter", "the school", 40)
    assert second != first
    rows = [astuple(row) for row in exclusions.appeals(store)]
    assert rows == [
        (second, SPAM, "a letter", "the school", 40, None, None),
        (first, SPAM, "a school", "the school", 10, 30, "turned down"),
    ]
    for wrong in (first, 999):
        with pytest.raises(InvalidParameter, match=f"There is no open appeal {wrong}"):
            exclusions.close_appeal(store, wrong, "x", 50)


def test_the_allowlist_keeps_the_first_reason_and_forgets_what_is_taken_off(service: Service) -> None:
    for why in ("first", "second"):
        exclusions.allow(service.store, SPAM, why, "me", 10)
    assert [astuple(row) for row in exclusions.allowlist(service.store)] == [(SPAM, "first", "me", 10)]
    exclusions.disallow(service.store, SPAM)
    with pytest.raises(InvalidParameter, match="is not on the allowlist"):
        exclusions.disallow(service.store, SPAM)
    with pytest.raises(InvalidNumber):
        service.corrections.allow("911", "x", "me", 10)


def test_the_log_of_appeals_is_read_in_parts(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in range(7):
        exclusions.appeal(service.store, f"+120255501{place:02}", "a letter", "its owner", place)
    monkeypatch.setattr(admin, "LOGGED", 3)
    monkeypatch.setattr(findings, "PAGE", 3)
    token = operator_token(service)
    with serving(service) as client:
        newest = client.get("/v1/admin/appeals", headers=bearer(token)).json()["appeals"]
        older = client.get("/v1/admin/appeals?before=5", headers=bearer(token)).json()["appeals"]
    assert [row["id"] for row in newest] == [7, 6, 5]
    assert [row["id"] for row in older] == [4, 3, 2]
    count, read = exclusions.count_appeals(service.store), partial(exclusions.appeals, service.store, None)
    pages = [findings.Slice.read(count, read, page) for page in (1, 2, 3, 9)]
    assert [[row.id for row in part.rows] for part in pages] == [[7, 6, 5], [4, 3, 2], [1], [1]]
    assert [(part.page, part.pages) for part in pages] == [(1, 3), (2, 3), (3, 3), (3, 3)]
