"""The attacks that have a name, each against a fresh phone: a server's plan comes in, a broken promise leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hushcall.formats.calls.call import Call, CallKind
from hushcall.lab.prove.hostile import LIMITS, POOL, START, Broken, Prey
from hushcall.lab.prove.liar import AREA_IN_CLEAR, DAY, OTHER, plain
from hushcall.numbers import NANP
from hushcall.phone.home.store import Store
from hushcall.protocol.blocklist import iso
from hushcall.protocol.states import ANNOUNCING, CLOSED, COLLECTING


def document(round_: int, state: str, now: int, *, skip: bool = False, **changes: Any) -> dict[str, Any]:
    """What an honest server could have shown, unsigned; ``skip``: no bucket runs."""
    terms = {"runs": True, "report_bytes": 3, "parameters": plain(4.0, 5)}
    times = {"opens": now - 3600, "collects": now, "closes": now + 3600, "server_time": now}
    return {
        **{name: iso(value) for name, value in times.items()},
        "round": round_,
        "state": state,
        "seed": "22" * 32,
        "plan": NANP.name,
        "window": 7,
        "profile": {"mechanism": AREA_IN_CLEAR, "epsilon": 4.0},
        "buckets": None if state == ANNOUNCING else {} if skip else {str(area): terms for area in NANP.area_codes},
        "upload_bytes": None if state == ANNOUNCING else 3,
        **changes,
    }


def show(prey: Prey, round_: int, state: str, **changes: Any) -> str:
    """The server shows a round, and the phone looks."""
    prey.liars[prey.url].script = document(round_, state, prey.now, **changes)
    return prey.look()


def with_a_call(seed: int = 7) -> Prey:
    """A phone that was called once."""
    prey = Prey(seed)
    prey.phone.ingest([Call(POOL[0], START, CallKind.MISSED)])
    return prey


def descending() -> None:
    """Many rounds announced downwards, then called in upwards."""
    prey = with_a_call()
    for day in range(10):
        prey.now = START + day * DAY // 2
        show(prey, 10_000 - day, ANNOUNCING, window=366)
    for day in range(10):
        show(prey, 9_991 + day, COLLECTING, window=366)


def reopened() -> None:
    """The same round, again and again, as if it had never been."""
    prey = with_a_call()
    for _ in range(20):
        for state in (ANNOUNCING, COLLECTING, CLOSED, ANNOUNCING, COLLECTING):
            show(prey, 1, state)


def a_day_full_of_rounds() -> None:
    """A round joined on one day and called in on the next, when as many more are joined as the owner allows."""
    prey = with_a_call()
    show(prey, 1, ANNOUNCING)
    prey.now = START + DAY
    for round_ in (1, 2, 3):
        prey.phone.ingest([Call(POOL[round_], prey.now, CallKind.MISSED)])
        show(prey, round_, ANNOUNCING)
        show(prey, round_, COLLECTING)


def an_old_call() -> None:
    """A server whose window is a year asks a phone whose owner allows a week."""
    prey = with_a_call()
    prey.now = START + 20 * DAY
    show(prey, 1, ANNOUNCING, window=366)
    show(prey, 1, COLLECTING, window=366)


def a_daily_caller() -> None:
    """One number calls every day for forty days, and the server's window is one."""
    prey = Prey(10)
    for day in range(40):
        prey.now = START + day * DAY
        prey.phone.ingest([Call(POOL[0], prey.now, CallKind.MISSED)])
        show(prey, day + 1, ANNOUNCING, window=1)
        show(prey, day + 1, COLLECTING, window=1)


def skipped_week(calls: bool = False) -> list[int]:
    """Every bucket is skipped for a week: the phone announces one caller until it is too old, made up or not."""
    prey = with_a_call() if calls else Prey(8)
    for day in range(6):
        prey.now = START + day * DAY
        show(prey, day + 1, ANNOUNCING)
        show(prey, day + 1, COLLECTING, skip=True)
    found = [row[0] for row in prey.store.rows("SELECT bucket FROM rounds ORDER BY seq")]
    if len(set(found)) != 1:
        raise Broken(f"announced {found} while every bucket was skipped")
    if len(prey.bodies) != 6:
        raise Broken(f"sent {len(prey.bodies)} uploads in 6 rounds that it announced")
    return found


def copies() -> None:
    """Sixteen copies of one phone are asked the same."""
    first = with_a_call()
    show(first, 1, ANNOUNCING)
    image = first.store._connection.serialize()
    said = set()
    for copy in range(16):
        prey = Prey(7)
        prey.dice.seed(copy)
        prey.store = Store.in_memory()
        prey.store._connection.deserialize(image)
        prey.coins.seed = f"another entropy {copy}".encode()
        show(prey, 1, COLLECTING)
        said |= {request.body for liar in prey.liars.values() for request in liar.requests if request.method == "PUT"}
    if len(said) != 1:
        raise Broken(f"16 copies of one phone gave {len(said)} different reports for one ticket")


def a_friend_meanwhile() -> None:
    """The caller becomes a contact between the announcement and the report."""
    prey = with_a_call()
    show(prey, 1, ANNOUNCING)
    prey.phone.add_contacts([POOL[0]])
    show(prey, 1, COLLECTING)


def one_bit() -> None:
    """Parameters whose ε is within the limit, and that tell the truth nearly always."""
    prey = with_a_call()
    show(prey, 1, ANNOUNCING)
    terms = {"runs": True, "report_bytes": 3, "parameters": plain(4.0, 1)}
    show(prey, 1, COLLECTING, buckets={str(area): terms for area in NANP.area_codes})


def another_mechanism() -> None:
    """A round of a mechanism that the owner did not agree to."""
    show(with_a_call(), 1, ANNOUNCING, profile={"mechanism": OTHER, "epsilon": 4.0})


def full_books() -> None:
    """A round a day for two months, and an owner who allows a hundred for life: the caps hold."""
    prey = Prey(9, replace(LIMITS, life=Fraction(100)))
    for day in range(60):
        prey.now = START + day * DAY
        show(prey, day + 1, ANNOUNCING)
        show(prey, day + 1, COLLECTING)
        prey.step = 50 * (day + 1)
        prey.look()


ATTACKS: dict[str, Callable[[], object]] = {
    "descending ids": descending,
    "a round reopened": reopened,
    "a day full of rounds": a_day_full_of_rounds,
    "a skipped week without calls": skipped_week,
    "a skipped week with a call": lambda: skipped_week(calls=True),
    "sixteen copies": copies,
    "a friend meanwhile": a_friend_meanwhile,
    "one bit": one_bit,
    "another mechanism": another_mechanism,
    "an old call": an_old_call,
    "a daily caller": a_daily_caller,
    "two months of rounds": full_books,
}
