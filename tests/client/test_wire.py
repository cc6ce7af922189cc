"""A day with nothing to say looks like any other: the same requests, sizes and times."""

import math
from bisect import bisect
from collections import Counter
from heapq import heappop, heappush
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.fake_server import DAY, START, FakeServer, FakeService, Request, over_http

from hushcall.client import round_session
from hushcall.client.client import Client
from hushcall.client.reporting.transport import HttpTransport
from hushcall.client.storage.store import Store
from hushcall.formats.calls.call import Call, CallKind
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.states import ANNOUNCING

PHONES = 400
FALSE_ALARM = 1e-6
"""The chance that two samples of one distribution are told apart, had the coins been drawn afresh."""


def ks_distance(first: list[int], second: list[int]) -> float:
    """Two-sample Kolmogorov-Smirnov: the largest gap between the two distribution functions."""
    one, two = sorted(first), sorted(second)
    return max(abs(bisect(one, at) / len(one) - bisect(two, at) / len(two)) for at in {*one, *two})


def ks_threshold(first: int, second: int) -> float:
    """The distance that samples of these sizes exceed with probability FALSE_ALARM (Smirnov's bound)."""
    return math.sqrt(-math.log(FALSE_ALARM / 2) / 2 * (first + second) / (first * second))


def day_of(phones: int, label: str, calls: int) -> list[Request]:
    """What an eavesdropper sees of one day of so many phones, each with this many unknown callers."""
    now = [START]
    service = FakeService(lambda: now[0], mechanism="whole-number")
    crowd = []
    for device in range(phones):
        rand = seeded(f"{label} {device}".encode())
        phone = Client(Store.in_memory(), FakeServer(service, device), rand=rand, clock=lambda: now[0])
        numbers = [str(NANP.number(202, 5_550_100 + device % 50 + i)) for i in range(calls)]
        phone.ingest([Call(number, START - 60, CallKind.MISSED) for number in numbers])
        crowd.append(phone)
    agenda = [(START, device) for device in range(phones)]
    while agenda:  # every phone runs when it said that it should run again
        now[0], device = heappop(agenda)
        following = crowd[device].report().next_at
        if following is not None and following < START + DAY:
            heappush(agenda, (following, device))
    for phone in crowd:
        phone.store.close()
    return service.requests


def shapes(requests: list[Request]) -> Counter[tuple[tuple[str, str, int], ...]]:
    """How many phones made which sequence of requests."""
    by_device: dict[int, list[tuple[str, str, int]]] = {}
    for request in requests:
        by_device.setdefault(request.device, []).append((request.method, request.path, request.size))
    return Counter(tuple(made) for made in by_device.values())


def times(requests: list[Request], method: str) -> list[int]:
    return [request.at - START for request in requests if request.method == method]


def test_nothing_to_say_cannot_be_told_from_something_to_say() -> None:
    quiet, busy = day_of(PHONES, "quiet", 0), day_of(PHONES, "busy", 3)
    assert shapes(quiet) == shapes(busy)
    assert len(shapes(quiet)) == 1  # one sequence of requests, one size each, for all 800 phones
    for method in ("POST", "PUT"):
        first, second = times(quiet, method), times(busy, method)
        assert len(first) == len(second) == PHONES
        assert ks_distance(first, second) < ks_threshold(PHONES, PHONES)
        # The test has teeth: phones that spoke in the first 60 % of their window would be noticed.
        start = min(first)
        hasty = [start + (at - start) * 6 // 10 for at in second]
        assert ks_distance(first, hasty) > ks_threshold(PHONES, PHONES)


def bytes_on_the_wire(
    service: FakeService, url: str, folder: Path, calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> list[int]:
    """The size of every piece that a phone's HTTP client hands to its socket during one round."""
    sizes: list[int] = []
    send = HTTPConnection.send

    def counting(connection: HTTPConnection, data: Any) -> None:
        sizes.append(len(data))
        send(connection, data)

    service.state = "announcing"
    phone = Client(Store.open(folder), HttpTransport(url, HttpTransport(url).enrol().token), clock=lambda: START)
    phone.ingest(calls)
    with monkeypatch.context() as patched:
        patched.setattr(HTTPConnection, "send", counting)
        assert phone.report(skip_delays=True).action == "announced"
        service.state = "collecting"
        assert phone.report(skip_delays=True).action == "sent"
    phone.store.close()
    return sizes


def test_over_http_both_days_are_equal_to_the_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spam = [Call("+12025550143", START - 60, CallKind.MISSED)]
    service = FakeService(lambda: START, round=1)
    with over_http(service) as url:
        quiet = bytes_on_the_wire(service, url, tmp_path / "quiet", [], monkeypatch)
        busy = bytes_on_the_wire(service, url, tmp_path / "busy", spam, monkeypatch)
    assert quiet == busy
    assert len(quiet) >= 4  # two looks at the round, an announcement, a report


def test_moments_are_uniform_over_the_window() -> None:
    """Against the exact law (a one-sample test), with the same false-alarm rate."""
    drawn = [round_session.draw(info(START), seeded(str(i).encode())) for i in range(2000)]
    for found, start, end in (
        ([m.announce_at for m in drawn], START, START + DAY // 2 - 3600),
        ([m.report_at for m in drawn], START + DAY // 2, START + DAY - 3600),
    ):
        assert start <= min(found)
        assert max(found) < end
        ranked = [(at - start) / (end - start) for at in sorted(found)]
        distance = max(abs(value - place / len(ranked)) for place, value in enumerate(ranked))
        assert distance < math.sqrt(-math.log(FALSE_ALARM / 2) / 2 / len(ranked)) + 1 / len(ranked)


def info(now: int, length: int = DAY) -> RoundInfo:
    half = START + length // 2
    return RoundInfo(1, ANNOUNCING, START, half, START + length, now, bytes(32), NANP.name, 7, "subspace", 4.0, None)


@given(st.integers(0, DAY), st.integers(0, 3 * DAY), st.binary(max_size=8))
def test_moments_lie_in_what_is_left_of_the_window(late: int, length: int, seed: bytes) -> None:
    round_ = info(START + late, length)
    found = round_session.draw(round_, seeded(seed))
    assert found.announce_at >= round_.server_time
    if round_.server_time < round_.collects - min((round_.collects - round_.opens) // 10, 3600):
        assert found.announce_at < round_.collects
    assert round_.collects <= found.report_at <= round_.closes
