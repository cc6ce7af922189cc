"""hushcall: learn which phone numbers spam people, from call logs that stay private.

The public names are here, and are imported on first use: ``from hushcall import Client`` imports no numpy, no HTTP
client and no signature code. ``docs/embedding.md`` shows them at work.

>>> from hushcall import NANP
>>> str(NANP.parse("(202) 555-0143"))
'+12025550143'
"""

from importlib import import_module
from typing import TYPE_CHECKING

from hushcall.version import __version__ as __version__

if TYPE_CHECKING:  # what __getattr__ returns, for readers and type checkers
    from hushcall.client.client import Client as Client
    from hushcall.client.reporting.consent import Limits as Limits
    from hushcall.client.reporting.explain import Explanation as Explanation
    from hushcall.client.reporting.explain import Sent as Sent
    from hushcall.client.reporting.explain import explain as explain
    from hushcall.client.reporting.ledger import Spend as Spend
    from hushcall.client.reporting.round_context import Outcome as Outcome
    from hushcall.client.reporting.transport import Enrolment as Enrolment
    from hushcall.client.reporting.transport import HttpTransport as HttpTransport
    from hushcall.client.reporting.transport import Transport as Transport
    from hushcall.client.saving import Restored as Restored
    from hushcall.client.saving import Saved as Saved
    from hushcall.client.saving import back_up as back_up
    from hushcall.client.saving import restore as restore
    from hushcall.client.screening.list_sync import ListClient as ListClient
    from hushcall.client.screening.list_sync import SyncResult as SyncResult
    from hushcall.client.screening.lookup import LoadedList as LoadedList
    from hushcall.client.screening.lookup import Policy as Policy
    from hushcall.client.screening.lookup import Verdict as Verdict
    from hushcall.client.screening.lookup import check as check
    from hushcall.client.screening.screen import Screen as Screen
    from hushcall.client.storage.folder import Busy as Busy
    from hushcall.client.storage.folder import erase_all as erase_all
    from hushcall.client.storage.personal import Action as Action
    from hushcall.client.storage.store import Store as Store
    from hushcall.client.storage.trouble import StoreTrouble as StoreTrouble
    from hushcall.decoding.planning import Outlook as Outlook
    from hushcall.decoding.planning import outlook as outlook
    from hushcall.errors import HushcallError as HushcallError
    from hushcall.errors import InvalidData as InvalidData
    from hushcall.errors import InvalidList as InvalidList
    from hushcall.errors import InvalidNumber as InvalidNumber
    from hushcall.errors import InvalidParameter as InvalidParameter
    from hushcall.errors import InvalidReport as InvalidReport
    from hushcall.errors import InvalidTally as InvalidTally
    from hushcall.errors import MissingExtra as MissingExtra
    from hushcall.errors import Refused as Refused
    from hushcall.errors import Unreachable as Unreachable
    from hushcall.errors import UntrustedList as UntrustedList
    from hushcall.errors import WrongServer as WrongServer
    from hushcall.formats.calls.call import Call as Call
    from hushcall.formats.calls.call import CallKind as CallKind
    from hushcall.formats.calls.reading import read_calls as read_calls
    from hushcall.mechanisms.decision import HeavyHitter as HeavyHitter
    from hushcall.mechanisms.decision import Support as Support
    from hushcall.mechanisms.profiles import PROFILES as PROFILES
    from hushcall.mechanisms.profiles import Profile as Profile
    from hushcall.protocol.blocklist import Blocklist as Blocklist
    from hushcall.protocol.blocklist import Entry as Entry
    from hushcall.protocol.numbers import NANP as NANP
    from hushcall.protocol.numbers import Number as Number
    from hushcall.protocol.numbers import NumberingPlan as NumberingPlan
    from hushcall.protocol.randomness import seeded as seeded
    from hushcall.protocol.round_document import RoundInfo as RoundInfo
    from hushcall.round import Listed as Listed
    from hushcall.round import Round as Round
    from hushcall.round import run_round as run_round
    from hushcall.server.service import Service as Service
    from hushcall.server.service import open_service as open_service
    from hushcall.server.settings import Settings as Settings

    Phone = Client

_MODULES = {
    "errors": (
        "HushcallError InvalidData InvalidList InvalidNumber InvalidParameter InvalidReport InvalidTally MissingExtra "
        "Refused Unreachable UntrustedList WrongServer"
    ),
    "formats.calls.call": "Call CallKind",
    "protocol.numbers": "NANP Number NumberingPlan",
    "formats.calls.reading": "read_calls",
    "client.storage.folder": "Busy erase_all",
    "client.storage.personal": "Action",
    "client.storage.store": "Store",
    "client.storage.trouble": "StoreTrouble",
    "client.client": "Client",
    "client.saving": "Restored Saved back_up restore",
    "client.reporting.explain": "Explanation Sent explain",
    "client.reporting.consent": "Limits",
    "client.reporting.ledger": "Spend",
    "client.reporting.round_context": "Outcome",
    "client.reporting.transport": "Enrolment HttpTransport Transport",
    "client.screening.list_sync": "ListClient SyncResult",
    "client.screening.lookup": "LoadedList Policy Verdict check",
    "client.screening.screen": "Screen",
    "decoding.planning": "Outlook outlook",
    "mechanisms.decision": "HeavyHitter Support",
    "mechanisms.profiles": "PROFILES Profile",
    "protocol.blocklist": "Blocklist Entry",
    "protocol.randomness": "seeded",
    "protocol.round_document": "RoundInfo",
    "round": "Listed Round run_round",
    "server.service": "Service open_service",
    "server.settings": "Settings",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> object:
    """A public name from its module. It is stored here, so this is called once per name."""
    if name == "Phone":  # the former name
        import warnings

        warnings.warn("hushcall.Phone is hushcall.Client now", DeprecationWarning, stacklevel=2)
        value: object = __getattr__("Client")
    elif name in _MODULE_OF:
        try:
            value = getattr(import_module(f"hushcall.{_MODULE_OF[name]}"), name)
        except ModuleNotFoundError as error:
            if (error.name or "hushcall").startswith("hushcall"):
                raise
            raise __getattr__("MissingExtra")(name, "server") from None  # type: ignore[operator]
    else:
        raise AttributeError(f"module 'hushcall' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
