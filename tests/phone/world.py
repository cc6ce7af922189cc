"""A clock, a service and one phone in memory: the world in which tests of the protocol let days pass."""

from dataclasses import dataclass

from tests.phone.fake_server import DAY, START, FakeServer, FakeService

from hushcall.formats.calls.call import Call, CallKind
from hushcall.phone.home.store import Store
from hushcall.phone.phone import Phone
from hushcall.phone.visit import Outcome
from hushcall.privacy.coins import seeded

HALF = DAY // 2


@dataclass
class World:
    """A clock, a service and one phone."""

    now: float = START
    coins: bytes = b"world"

    def __post_init__(self) -> None:
        self.service = FakeService(lambda: self.now)
        self.store = Store.in_memory()
        self.phone = Phone(self.store, FakeServer(self.service), coins=seeded(self.coins), clock=lambda: self.now)

    def calls(self, *numbers: str) -> None:
        self.phone.ingest([Call(number, int(self.now), CallKind.MISSED) for number in numbers])

    def day(self, day: int, *, hurry: bool = True) -> list[Outcome]:
        """One whole day: the phone runs twice, once in each phase."""
        found = []
        for moment in (0, HALF):
            self.now = START + day * DAY + moment
            found.append(self.phone.report(hurry=hurry))
        return found

    def bytes_sent(self) -> list[bytes]:
        return list(self.service.reports.values())
