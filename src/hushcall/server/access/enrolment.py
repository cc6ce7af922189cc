"""Who may become a device: a request for enrolment comes in, a device's number and token leave, or a refusal.

What a fake costs decides what a listing is worth. A service that only this machine can reach lets anybody in, for
trying out; one that others reach asks for an invite code unless its operator says otherwise, and where the operator
says ``open``, for a proof of work or the consent of a command of the operator's own.
"""

from __future__ import annotations

import hmac
import ipaddress
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from hushcall.protocol.work import NONCE_BYTES, proves
from hushcall.server.access.devices import Devices
from hushcall.server.problems import Problem
from hushcall.server.settings import EnrolSettings

SLOT_SECONDS = 600
"""How long a challenge is given out; it is taken for as long again."""
WORK_BITS = 20
"""Of an open service that others can reach: about a second of a phone's time, and of a fake's."""


@dataclass(frozen=True)
class Challenge:
    """What a phone has to solve: 0 bits where nothing is asked."""

    text: str
    bits: int


@dataclass(frozen=True)
class Enrolments:
    """The rules over :class:`Devices`. ``host`` is where the service listens, ``secret`` what challenges come from."""

    devices: Devices
    settings: EnrolSettings
    host: str
    secret: Callable[[], bytes]

    def is_public(self, forwarded: bool) -> bool:
        """Whether others reach this service: it listens beyond loopback, or a proxy handed the request on."""
        return forwarded or not is_loopback(self.host)

    def mode(self, *, public: bool) -> str:
        """What the operator chose; otherwise ``invite`` where others reach the service, and ``open`` where not."""
        return self.settings.mode or ("invite" if public else "open")

    def challenge(self, now: int, *, public: bool) -> Challenge:
        """What has to be solved just now."""
        asks = self.mode(public=public) == "open" and not self.settings.command
        bits = (WORK_BITS if public else 0) if self.settings.work is None else self.settings.work
        return Challenge(self._text(now // SLOT_SECONDS), bits if asks else 0)

    def enrol(self, invite: str, work: str, now: int, *, public: bool) -> tuple[int, str]:
        """A new device, if it may be one. Whoever is refused has used up nothing."""
        mode = self.mode(public=public)
        if mode == "open" and self.settings.command and not consents(self.settings, invite):
            raise Problem("enrolment-closed", "The operator's rule does not let this device in.")
        proof = self._checked(work, now, self.challenge(now, public=public).bits)
        return self.devices.enrol(mode, now, invite=invite, per_minute=self.settings.per_minute, proof=proof)

    def _checked(self, work: str, now: int, bits: int) -> bytes | None:
        """The proof, to be taken once; None where none is asked."""
        if bits == 0:
            return None
        challenge, _, nonce = work.partition(":")
        slot = now // SLOT_SECONDS
        known = challenge in (self._text(slot), self._text(slot - 1))
        try:
            found = bytes.fromhex(nonce) if len(nonce) == 2 * NONCE_BYTES else b""
        except ValueError:
            found = b""
        if not known or not proves(challenge.encode(), found, bits):
            raise Problem("work-needed")
        return work.encode()

    def _text(self, slot: int) -> str:
        return hmac.digest(self.secret(), b"hushcall: enrolment %d" % slot, "sha256")[:16].hex()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def consents(settings: EnrolSettings, invite: str) -> bool:
    """Ask the operator's command: it reads what the phone sent as its code, and lets it in by ending with 0."""
    try:
        done = subprocess.run(  # noqa: S603 - the operator's own command
            settings.command, input=f"{invite}\n", text=True, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False  # a rule that cannot be asked lets nobody in
    return done.returncode == 0
