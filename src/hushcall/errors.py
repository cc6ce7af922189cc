"""The errors that callers of hushcall may want to tell apart. A few more live beside the only code that raises them.

::

    HushcallError
    ├── InvalidParameter: NotFound
    ├── InvalidReport: WrongVersion, WrongMechanism, WrongLength, WrongSymbol
    ├── InvalidNumber, InvalidToken, InvalidMessage, InvalidTally, InvalidArchive, InvalidData, InvalidList
    ├── Refused: WrongServer
    └── Unreachable, UntrustedList, MissingExtra, MovedCommand

A message names the field, the rule and the value: ``epsilon must be positive, got -1.0``.

>>> raise InvalidParameter("epsilon", "be positive", -1.0)
Traceback (most recent call last):
    ...
hushcall.errors.InvalidParameter: epsilon must be positive, got -1.0
"""

from enum import Enum


class HushcallError(Exception):
    """The root of all errors here. ``exit_code`` is the exit status of a command that it ends."""

    exit_code = 2

    def __reduce__(self) -> tuple[object, ...]:
        """Errors are pickled on their way from a worker process, whatever arguments they are made of."""
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(kind: type[HushcallError], args: tuple[object, ...], fields: dict[str, object]) -> HushcallError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


class _Violation(HushcallError):
    """A field broke a rule."""

    def __init__(self, field: str, rule: str, value: object) -> None:
        self.field, self.rule, self.value = field, rule, value
        super().__init__(f"{field} must {rule}, got {_short(value)}")


class InvalidParameter(_Violation):
    """A setting or argument breaks its rule."""


class NotFound(InvalidParameter):
    """An argument names something that is not there. The message is that fact."""

    def __init__(self, field: str, rule: str, value: object, fact: str) -> None:
        super().__init__(field, rule, value)
        self.fact = fact
        self.args = (fact,)


class InvalidNumber(_Violation):
    """A text or value is not a number of the numbering plan."""


class InvalidReport(_Violation):
    """A report breaks the protocol."""


class WrongVersion(InvalidReport):
    """The first byte names a wire version that this release does not speak."""


class WrongMechanism(InvalidReport):
    """The second byte names another mechanism than the round's."""


class WrongLength(InvalidReport):
    """The report is longer or shorter than the round's parameters dictate."""


class WrongSymbol(InvalidReport):
    """A field of the report has a value that no honest client sends."""


class InvalidToken(_Violation):
    """A blind token, or a message of its issuance, breaks the protocol."""


class InvalidMessage(_Violation):
    """A sealed or binary message cannot be read."""


class InvalidTally(_Violation):
    """A tally cannot be read, or cannot be merged with another."""


class InvalidArchive(_Violation):
    """An archive of rounds is damaged, incomplete or of another kind."""


class InvalidData(_Violation):
    """A file cannot be read or written, or has no usable content."""


class InvalidList(_Violation):
    """A blocklist or a delta cannot be read, or does not fit."""


class Refused(HushcallError):
    """A server refused a request. ``problem`` is the last part of the problem type, ``todo`` the advice to the user."""

    def __init__(self, problem: str, status: int, detail: str, todo: str = "") -> None:
        self.problem, self.status, self.detail, self.todo = problem, status, detail, todo
        super().__init__(f"the server refused ({status}, {problem}): {detail}" + (f" {todo}" if todo else ""))


class WrongServer(Refused):
    """The address belongs to another web server, or to a network's login page."""

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


class Unreachable(HushcallError):
    """There is no network, no server, or no answer in time."""


class UntrustedList(HushcallError):
    """A server's list is forged, mixed up, rolled back, frozen or expired."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"the server's list cannot be trusted: {why}")


class MissingExtra(HushcallError):
    """Optional packages are not installed. ``extra`` is one of hushcall's extras."""

    def __init__(self, part: str, extra: str) -> None:
        self.part, self.extra = part, extra
        super().__init__(f"{part} needs more packages: pip install 'hushcall[{extra}]' (in a clone: '.[{extra}]')")


class MovedCommand(HushcallError):
    """Another command took this one's place, mostly one of the package hushcall-lab."""

    def __init__(
        self, old: str, new: str, remark: str = "pip install hushcall-lab (in a clone: make demo sets it up)"
    ) -> None:
        super().__init__(f"'{old}' is '{new}' now: {remark}")


def _short(value: object) -> str:
    """A value as shown in a message: an enum as its value, a long one cut."""
    try:
        text = repr(value.value if isinstance(value, Enum) else value)
    except ValueError:  # Python prints no integer of more than 4300 digits
        return f"a number of {int(value).bit_length()} bits" if isinstance(value, int) else type(value).__name__
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"
