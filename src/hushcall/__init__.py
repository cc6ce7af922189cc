"""hushcall: learn which phone numbers spam people, from call logs that stay private.

What programs build on is here, and is imported when it is first asked for: ``from hushcall import Phone`` brings no
numpy, no HTTP client and no signature code. ``docs/embedding.md`` shows all of it at work.

>>> from hushcall import NANP
>>> str(NANP.parse("(202) 555-0143"))
'+12025550143'
"""

from importlib import import_module
from typing import TYPE_CHECKING

from hushcall.version import __version__ as __version__

if TYPE_CHECKING:  # what __getattr__ finds, for readers and type checkers
    from hushcall.errors import (
        HushcallError,
        InvalidData,
        InvalidList,
        InvalidNumber,
        InvalidParameter,
        InvalidReport,
        InvalidTally,
        MissingExtra,
        Refused,
        Unreachable,
        UntrustedList,
        WrongServer,
    )
    from hushcall.formats.calls.call import Call, CallKind
    from hushcall.formats.calls.reading import read_calls
    from hushcall.numbers import NANP, Number, NumberingPlan
    from hushcall.phone.home.action import Action
    from hushcall.phone.home.erasing import erase_all
    from hushcall.phone.home.lock import Busy
    from hushcall.phone.home.store import Store
    from hushcall.phone.home.trouble import StoreTrouble
    from hushcall.phone.phone import Phone
    from hushcall.phone.reporting.explain import Explanation, Sent, explain
    from hushcall.phone.reporting.ledger import Limits, Spend
    from hushcall.phone.reporting.transport import Enrolment, HttpTransport, Transport
    from hushcall.phone.saving import Restored, Saved, back_up, restore
    from hushcall.phone.screening.list_sync import ListClient, SyncResult
    from hushcall.phone.screening.lookup import LoadedList, Policy, Verdict, check
    from hushcall.phone.screening.screen import Screen
    from hushcall.phone.visit import Outcome
    from hushcall.profiles import PROFILES, Profile
    from hushcall.protocol.blocklist import Blocklist, Entry
    from hushcall.protocol.round_document import RoundInfo
    from hushcall.round import Listed, Round, run_round

_ROOMS = {
    "errors": (
        "HushcallError InvalidData InvalidList InvalidNumber InvalidParameter InvalidReport InvalidTally MissingExtra "
        "Refused Unreachable UntrustedList WrongServer"
    ),
    "formats.calls.call": "Call CallKind",
    "numbers": "NANP Number NumberingPlan",
    "formats.calls.reading": "read_calls",
    "phone.home.erasing": "erase_all",
    "phone.home.lock": "Busy",
    "phone.home.store": "Store",
    "phone.home.trouble": "StoreTrouble",
    "phone.phone": "Phone",
    "phone.saving": "Restored Saved back_up restore",
    "phone.reporting.explain": "Explanation Sent explain",
    "phone.reporting.ledger": "Limits Spend",
    "phone.reporting.transport": "Enrolment HttpTransport Transport",
    "phone.visit": "Outcome",
    "phone.screening.list_sync": "ListClient SyncResult",
    "phone.home.action": "Action",
    "phone.screening.lookup": "LoadedList Policy Verdict check",
    "phone.screening.screen": "Screen",
    "profiles": "PROFILES Profile",
    "protocol.blocklist": "Blocklist Entry",
    "protocol.round_document": "RoundInfo",
    "round": "Listed Round run_round",
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names.split()}

__all__ = [
    "NANP",
    "PROFILES",
    "Action",
    "Blocklist",
    "Busy",
    "Call",
    "CallKind",
    "Enrolment",
    "Entry",
    "Explanation",
    "HttpTransport",
    "HushcallError",
    "InvalidData",
    "InvalidList",
    "InvalidNumber",
    "InvalidParameter",
    "InvalidReport",
    "InvalidTally",
    "Limits",
    "ListClient",
    "Listed",
    "LoadedList",
    "MissingExtra",
    "Number",
    "NumberingPlan",
    "Outcome",
    "Phone",
    "Policy",
    "Profile",
    "Refused",
    "Restored",
    "Round",
    "RoundInfo",
    "Saved",
    "Screen",
    "Sent",
    "Spend",
    "Store",
    "StoreTrouble",
    "SyncResult",
    "Transport",
    "Unreachable",
    "UntrustedList",
    "Verdict",
    "WrongServer",
    "back_up",
    "check",
    "erase_all",
    "explain",
    "read_calls",
    "restore",
    "run_round",
]


def __getattr__(name: str) -> object:
    """A public name, from the room that it lives in."""
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'hushcall' has no attribute {name!r}")
    found = getattr(import_module(f"hushcall.{_ROOM_OF[name]}"), name)
    globals()[name] = found  # found once: the next access does not come here
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOM_OF})
