"""What every mechanism's phone half is: public parameters that cannot be built invalid, and one verb, privatise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from hushcall.errors import InvalidParameter
from hushcall.privacy.coins import ByteSource
from hushcall.protocol.wire import HEADER_BYTES, Kind
from hushcall.report.randomisers import RandomisedResponse


@dataclass(frozen=True, slots=True)
class Draw:
    """One independent part of a report: which coins decide which bytes. The audit probes the code through this.

    ``index`` bits of the ``index_bytes`` coins from ``index_at`` choose among equally likely positions (0 bits:
    none do), the 64-bit word at ``word_at`` chooses the symbol, and bytes ``out`` of the body come out.
    """

    word_at: int
    out: slice
    index_at: int = 0
    index_bytes: int = 0
    index_bits: int = 0


class Mechanism(Protocol):
    """A frozen value: the public parameters of a round, and the phone's half of it."""

    @property
    def name(self) -> str:
        """As it appears in tables and on the command line."""

    @property
    def kind(self) -> Kind:
        """The second byte of its reports."""

    @property
    def item_bits(self) -> int:
        """Items are 0 … 2^item_bits − 1."""

    @property
    def cost(self) -> Fraction:
        """ε of one report, exactly accounted: what the phone's ledger records."""

    @property
    def coin_bytes(self) -> int:
        """Random bytes that one report takes, whatever the item."""

    @property
    def body_bytes(self) -> int:
        """Length of a report's body, whatever the item."""

    def draws(self) -> tuple[Draw, ...]:
        """The independent parts of a report."""

    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """A report of ``item``. ``public`` is the 32-byte public seed that came with the phone's ticket."""


class OneValue(Mechanism, Protocol):
    """A mechanism whose report is one randomised value, so that the odds of any report can be shown exactly."""

    @property
    def bits(self) -> int:
        """b: the report is one of 2^b values."""

    @property
    def size(self) -> int:
        """How many values there are."""

    @property
    def response(self) -> RandomisedResponse:
        """The odds of the truth and of any other value."""

    def hashed(self, item: int, public: bytes) -> int:
        """The value that is randomised."""

    def parse(self, report: bytes) -> int:
        """The value that a report holds."""


def report_bytes(mechanism: Mechanism) -> int:
    """What one report weighs on the wire."""
    return HEADER_BYTES + mechanism.body_bytes


def check_item(item: int, bits: int) -> None:
    """An item that does not fit would silently be another one: refuse it, without repeating it."""
    if type(item) is not int or item < 0 or item >> bits:
        raise InvalidParameter("item", f"be a whole number of at most {bits} bits", type(item).__name__)
