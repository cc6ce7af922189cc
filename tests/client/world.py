"""A clock, a service and one phone in memory: the world in which tests of the protocol let days pass."""

from dataclasses import dataclass

from tests.client.fake_server import DAY, START, FakeServer, FakeService

from hushcall.client.client import Client
from hushcall.client.reporting.round_context import Outcome
from hushcall.client.storage.store import Store
from hushcall.formats.calls.call import Call, CallKind
from hushcall.protocol.randomness import seeded

HALF = DAY // 2


@dataclass
class World:
    """A clock, a service and one phone."""

    now: float = START
    rand: bytes = b"world"

    def __post_init__(self) -> None:
        self.service = FakeService(lambda: self.now)
        self.store = Store.in_memory()
        self.phone = Client(self.store, FakeServer(self.service), rand=seeded(self.rand), clock=lambda: self.now)

    def calls(self, *numbers: str) -> None:
        self.phone.ingest([Call(number, int(self.now), CallKind.MISSED) for number in numbers])

    def day(self, day: int, *, skip_delays: bool = True) -> list[Outcome]:
        """One whole day: the phone runs twice, once in each phase."""
        found = []
        for moment in (0, HALF):
            self.now = START + day * DAY + moment
            found.append(self.phone.report(skip_delays=skip_delays))
        return found

    def bytes_sent(self) -> list[bytes]:
        return list(self.service.reports.values())
