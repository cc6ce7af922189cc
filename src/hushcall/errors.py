"""The errors that callers of hushcall may want to tell apart, in one tree.

A few more live beside the only code that raises them: ``phone.home.lock.Busy`` (another process is at work),
``phone.home.trouble.StoreTrouble`` (a phone's store cannot be used, and why), ``server.problems.Problem`` (an answer of
the server), ``audit.enumeration.Broken`` (a randomiser that breaks its promise).

::

    HushcallError
    ├── InvalidParameter      a setting or argument breaks its rule
    ├── InvalidNumber         a text or value is no number of the numbering plan
    ├── InvalidReport         a report's bytes are not what the protocol allows
    │   ├── WrongVersion
    │   ├── WrongMechanism
    │   ├── WrongLength
    │   └── WrongSymbol
    ├── InvalidToken          a blind token, or a step on its way, is not what the protocol allows
    ├── InvalidMessage        a sealed or binary message cannot be read
    ├── InvalidTally          a tally cannot be read, or cannot be merged with another
    ├── InvalidArchive        an archive of rounds is damaged, unfinished, or none of ours
    ├── InvalidData           a file of calls cannot be read, or holds nothing of use
    ├── InvalidList           a blocklist or a delta cannot be read, or does not fit
    ├── Refused               a server said no, and why
    │   └── WrongServer       somebody answers at the address, and it is no hushcall server
    ├── Unreachable           a server could not be asked at all
    ├── UntrustedList         a server's list is forged, mixed up, rolled back, frozen or expired
    └── MissingExtra          a part of hushcall needs packages that are not installed

A message names the field, the rule and the value: ``epsilon must be positive, got -1.0``.

>>> raise InvalidParameter("epsilon", "be positive", -1.0)
Traceback (most recent call last):
    ...
hushcall.errors.InvalidParameter: epsilon must be positive, got -1.0
"""

from enum import Enum


class HushcallError(Exception):
    """The root: catch this one to catch all of ours. ``exit_code`` is what a command that it ends leaves with."""

    exit_code = 2


class _Violation(HushcallError):
    """A field broke a rule; the three parts stay readable for programs."""

    def __init__(self, field: str, rule: str, value: object) -> None:
        self.field, self.rule, self.value = field, rule, value
        super().__init__(f"{field} must {rule}, got {_short(value)}")

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the way back from a worker process."""
        return type(self), (self.field, self.rule, self.value)


class InvalidParameter(_Violation):
    """A setting or argument breaks its rule."""


class InvalidNumber(_Violation):
    """A text or value is no number of the numbering plan."""


class InvalidReport(_Violation):
    """A report's bytes are not what the protocol allows."""


class WrongVersion(InvalidReport):
    """The first byte names a wire version that this release does not speak."""


class WrongMechanism(InvalidReport):
    """The second byte names another mechanism than the round's."""


class WrongLength(InvalidReport):
    """The report is longer or shorter than the round's parameters dictate."""


class WrongSymbol(InvalidReport):
    """A field of the report holds a value that no honest phone sends."""


class InvalidToken(_Violation):
    """A blind token, or a step on its way, is not what the protocol allows."""


class InvalidMessage(_Violation):
    """A sealed or binary message cannot be read."""


class InvalidTally(_Violation):
    """A tally cannot be read, or cannot be merged with another."""


class InvalidArchive(_Violation):
    """An archive of rounds is damaged, unfinished, or none of ours."""


class InvalidData(_Violation):
    """A file of calls cannot be read, or holds nothing of use."""


class InvalidList(_Violation):
    """A blocklist or a delta cannot be read, or does not fit."""


class Refused(HushcallError):
    """A server said no: ``problem`` is the last part of the problem's type, ``todo`` what to do about it."""

    def __init__(self, problem: str, status: int, detail: str, todo: str = "") -> None:
        self.problem, self.status, self.detail, self.todo = problem, status, detail, todo
        super().__init__(f"the server refused ({status}, {problem}): {detail}" + (f" {todo}" if todo else ""))

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the way back from a worker process."""
        return type(self), (self.problem, self.status, self.detail, self.todo)


class WrongServer(Refused):
    """Somebody answers at the address, but not in our words: another web server, or a network's login page."""

    def __init__(self, url: str, status: int, kind: str) -> None:
        self.url, self.kind = url, kind
        todo = (
            "Check the address and its port; behind a proxy, that it passes /v1/ on; in a public network, that you are"
            " logged in to it."
        )
        super().__init__(
            "not-hushcall", status, f"it answered {status} with {kind or 'content of no named kind'}.", todo
        )
        self.args = (f"there is no hushcall server at {url}: {self.detail} {todo}",)

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the way back from a worker process."""
        return type(self), (self.url, self.status, self.kind)


class Unreachable(HushcallError):
    """A server could not be asked at all: no network, no server, no answer in time."""


class UntrustedList(HushcallError):
    """What a server hands out is not what its keys signed last: forged, mixed up, rolled back, frozen or expired."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"the server's list cannot be trusted: {why}")

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the way back from a worker process."""
        return type(self), (self.why,)


class MissingExtra(HushcallError):
    """A part of hushcall needs packages that are not installed."""

    def __init__(self, part: str, extra: str) -> None:
        self.part, self.extra = part, extra
        super().__init__(f"{part} needs more packages: pip install 'hushcall[{extra}]' (in a clone: '.[{extra}]')")

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the way back from a worker process."""
        return type(self), (self.part, self.extra)


def _short(value: object) -> str:
    """A value as it appears in a message: never a screenful, and one of an enumeration as it is written."""
    try:
        text = repr(value.value if isinstance(value, Enum) else value)
    except ValueError:  # Python prints no integer of more than 4300 digits
        return f"a number of {int(value).bit_length()} bits" if isinstance(value, int) else type(value).__name__
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"
