"""Uploads become rows: many in one commit, each counted once, whoever races with whom."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from tests.server.serving import SPAM, Village

from hushcall.protocol.numbers import NANP
from hushcall.server.auth.devices import token_hash
from hushcall.server.db import schema
from hushcall.server.db.store import Store
from hushcall.server.ingest.group_commit import GroupCommit
from hushcall.server.ingest.ingest import Announce, Answer, Intake, Upload
from hushcall.server.problems import Problem
from hushcall.server.rounds import round_status
from hushcall.server.service import Service

UPLOADS, BATCH = 1000, 100


def announcements(village: Village, count: int, bucket: int = 202) -> list[Announce]:
    village.grow(count)
    return [Announce(token_hash(token), 1, bucket) for token in village.tokens[:count]]


def count(service: Service, table: sa.Table) -> int:
    return int(service.store.rows(sa.select(sa.func.count()).select_from(table))[0][0])


def after(service: Service, commits: int) -> tuple[Intake, threading.Event]:
    """An intake, and an event that is set once it has committed so often."""
    left, reached = [commits], threading.Event()

    def fault(name: str) -> None:
        left[0] -= name == "intake: after commit"
        if left[0] == 0:
            reached.set()

    return Intake(Store(service.store.engine, fault), "test"), reached


def held_back(village: Village, callers: int) -> list[Upload]:
    """The reports of a round that takes them, not handed in yet."""
    village.to("collecting", [SPAM] * callers)
    with village.service.store.write("forget") as connection:
        connection.execute(sa.delete(schema.reports))
    kept, real = list[Upload](), Intake.accept

    def accept(intake: Intake, asked: Sequence[Announce | Upload]) -> list[Answer | Problem]:
        uploads = [one for one in asked if isinstance(one, Upload)]
        kept.extend(uploads)
        return [] if uploads else real(intake, asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Intake, "accept", accept)
        village.report([SPAM] * callers)
    assert len(kept) == callers
    return kept


def counting(service: Service) -> tuple[Intake, list[str]]:
    """An intake, and a list that grows with each of its commits."""
    commits: list[str] = []

    def fault(name: str) -> None:
        if name == "intake: after commit":
            commits.append(name)

    return Intake(Store(service.store.engine, fault), "test"), commits


def test_a_thousand_uploads_at_once_take_few_commits(village: Village) -> None:
    village.to("announcing")
    asked, sizes = announcements(village, UPLOADS), list[int]()
    intake, commits = counting(village.service)

    async def run() -> list[Answer]:
        group = GroupCommit(intake, BATCH, 0.002, 5000, lambda size, _: sizes.append(size))
        group.start()
        answers = await asyncio.gather(*(group.submit(one) for one in asked))
        await group.stop()
        return answers

    answers = asyncio.run(run())
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body["ticket"] for answer in answers}) == count(village.service, schema.announcements) == UPLOADS
    assert UPLOADS // BATCH <= len(commits) <= 2 * UPLOADS // BATCH
    assert (sum(sizes), max(sizes)) == (UPLOADS, BATCH)


def test_a_batch_that_fails_is_told_to_all_in_it_and_the_next_one_works(village: Village) -> None:
    village.to("announcing")
    asked, broken = announcements(village, 4), [True]

    def fault(name: str) -> None:
        if broken and name == "intake: before commit":
            broken.clear()
            raise OSError("disk full")

    async def run() -> tuple[list[object], list[Answer]]:
        group = GroupCommit(Intake(Store(village.service.store.engine, fault), "test"), BATCH, 0, 100)
        group.start()
        failed = await asyncio.gather(*(group.submit(one) for one in asked), return_exceptions=True)
        assert count(village.service, schema.announcements) == 0
        again = await asyncio.gather(*(group.submit(one) for one in asked))
        await group.stop()
        return list(failed), again

    failed, again = asyncio.run(run())
    assert [type(error) for error in failed] == [OSError] * 4
    assert [answer.status for answer in again] == [201] * 4


def test_stopping_commits_what_waits_and_takes_no_more(village: Village) -> None:
    village.to("announcing")
    asked = announcements(village, 5)

    async def run() -> list[Answer]:
        group = GroupCommit(Intake(village.service.store, "test"), 2, 0.5, 100)
        group.start()
        waiting = [asyncio.ensure_future(group.submit(one)) for one in asked[:4]]
        waiting[0].cancel()  # a phone that hangs up
        await asyncio.sleep(0)
        await group.stop()
        with pytest.raises(Problem, match="busy"):
            await group.submit(asked[4])
        return await asyncio.gather(*waiting[1:])

    assert [answer.status for answer in asyncio.run(run())] == [201] * 3
    assert count(village.service, schema.announcements) in (3, 4)  # cancelled before or after it was handed in


def at_once(calls: Sequence[Callable[[], list[Answer | Problem]]]) -> list[list[Answer | Problem]]:
    together = threading.Barrier(len(calls))

    def run(call: Callable[[], list[Answer | Problem]]) -> list[Answer | Problem]:
        together.wait(60)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def outcome(answers: Sequence[Answer | Problem]) -> list[str]:
    return [str(answer.status) if isinstance(answer, Answer) else answer.name for answer in answers]


def test_a_device_that_announces_two_buckets_to_two_workers_at_once_has_one_voice(village: Village) -> None:
    village.to("announcing")
    store = village.service.store
    first, second = announcements(village, 40), announcements(village, 40, bucket=212)
    one, two = at_once([lambda: Intake(store, "a").accept(first), lambda: Intake(store, "b").accept(second)])
    for pair in zip(outcome(one), outcome(two), strict=True):
        assert sorted(pair) == ["201", "already-announced"]
    stored = {row.device: row.bucket for row in store.rows(sa.select(schema.announcements))}
    assert len(stored) == 40


@pytest.mark.parametrize("same", [True, False])
def test_a_report_sent_to_two_workers_at_once_is_counted_once(village: Village, same: bool) -> None:
    first, store = held_back(village, 40), village.service.store
    second = first if same else [_other(upload) for upload in first]
    one, two = at_once([lambda: Intake(store, "a").accept(first), lambda: Intake(store, "b").accept(second)])
    for pair in zip(outcome(one), outcome(two), strict=True):
        assert set(pair) <= {"201", "200"} if same else sorted(pair) == ["201", "different-report"]
    assert count(village.service, schema.reports) == 40


def _other(upload: Upload) -> Upload:
    """Another report that is just as valid."""
    return Upload(upload.token, upload.round, upload.ticket, upload.body[:-1] + bytes([upload.body[-1] ^ 1]))


def race(
    service: Service, asked: Sequence[Announce | Upload], batch: int, commits: int, step: Callable[[], object]
) -> list[str]:
    """What uploads are answered, a batch at a time, while the round takes a step once so many are committed."""
    intake, begun = after(service, commits)

    def hand_in() -> list[Answer | Problem]:
        return [answer for at in range(0, len(asked), batch) for answer in intake.accept(asked[at : at + batch])]

    def move_on() -> list[Answer | Problem]:
        assert begun.wait(60)
        step()
        return []

    return outcome(at_once([hand_in, move_on])[0])


def test_announcements_that_race_with_the_decision_are_counted_or_refused(village: Village) -> None:
    village.to("announcing")
    service, asked = village.service, announcements(village, 300)
    answers = race(service, asked, 10, 3, lambda: service.rounds.start_collecting(1, service.now))
    taken = answers.count("201")
    assert 30 <= taken == answers.index("wrong-phase") if "wrong-phase" in answers else taken == 300
    assert set(answers) <= {"201", "wrong-phase"}
    found = round_status.status(service.store)
    (bucket,) = service.store.rows(sa.select(schema.buckets.c.users))
    assert (found["announced"], bucket.users, count(service, schema.announcements)) == (taken, taken, taken)


def test_reports_that_race_with_the_close_are_in_the_tally_or_refused(village: Village) -> None:
    service, sent = village.service, held_back(village, 100)

    def close() -> None:
        service.rounds.close(1)
        service.rounds.learn(1)

    answers = race(service, sent, 2, 5, close)
    (tally,) = service.store.rows(sa.select(schema.tallies.c.count))
    assert tally.count == answers.count("201") >= 10
    assert set(answers) <= {"201", "wrong-phase", "unknown-ticket"}  # tickets go with the announcements


def test_refused_uploads_are_counted_by_round_and_kind_for_each_worker(village: Village) -> None:
    village.to("announcing")
    store, bad = village.service.store, announcements(village, 3, bucket=999)
    for worker in ("a", "b", "a"):
        assert outcome(Intake(store, worker).accept(bad)) == ["wrong-bucket"] * 3
    later = [Announce(one.token, 7, 202) for one in bad]
    assert outcome(Intake(store, "a").accept(later)) == ["future-round"] * 3
    rows = store.rows(sa.select(schema.counters).order_by("round", "worker"))
    assert [tuple(row) for row in rows] == [
        (0, "future-round", "a", 3),
        (1, "wrong-bucket", "a", 6),
        (1, "wrong-bucket", "b", 3),
    ]


def test_one_batch_may_hold_the_same_device_twice(village: Village) -> None:
    village.to("announcing")
    (one,) = announcements(village, 1)
    other = Announce(one.token, 1, 212)
    intake = Intake(village.service.store, "a")
    assert outcome(intake.accept([one, one, other])) == ["201", "200", "already-announced"]
    assert NANP.area_index[212] != NANP.area_index[202]
