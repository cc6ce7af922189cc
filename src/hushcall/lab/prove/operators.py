"""What operators do to a simulated server, at any moment: a service and dice come in, and something happens to it."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from hushcall.lab.prove.world import SPAMMERS
from hushcall.server.publishing import appeals
from hushcall.server.signing import ceremony


def _round_act(service: Any, dice: random.Random, name: str) -> None:
    newest = service.rounds.newest()
    if newest is not None:
        number = max(1, newest.id - dice.randrange(2))
        act = getattr(service.rounds, name)
        act(number) if name == "release" else act(number, "a look")


def _appeal(service: Any, _: random.Random) -> None:
    for number in SPAMMERS:
        service.corrections.appeal(number, "mine", "its owner", service.now)


def _hold_and_discard(service: Any, dice: random.Random) -> None:
    state = dice.getstate()
    _round_act(service, dice, "hold")
    dice.setstate(state)
    _round_act(service, dice, "discard")


def _withdraw(service: Any, dice: random.Random) -> None:
    for row in appeals.appeals(service.store):
        if row.closed is None and dice.random() < 0.7:
            service.corrections.close(row.id, "withdrawn", service.now)


def _allow(service: Any, dice: random.Random) -> None:
    service.corrections.allow(dice.choice(SPAMMERS), "a school", "operator", service.now)


def _rotate(service: Any, dice: random.Random) -> None:
    role, moment = dice.choice(("timestamp", "snapshot", "targets")), datetime.fromtimestamp(service.now, UTC)
    ceremony.rotate(service.store, service.settings.keys, role, moment, lambda _: b"")


ACTS: dict[str, Callable[[Any, random.Random], None]] = {
    "hold": partial(_round_act, name="hold"),
    "release": partial(_round_act, name="release"),
    "discard": partial(_round_act, name="discard"),
    "hold and discard": _hold_and_discard,
    "appeal": _appeal,
    "withdraw": _withdraw,
    "allow": _allow,
    "rotate a key": _rotate,
    "force": lambda service, _: service.rounds.advance(service.now, force=True),
}
"""By name. What cannot be done is refused: an operator is told."""
SUDDEN = ("hold", "hold and discard", "appeal", "allow", "rotate a key", "force")
"""What an operator may do in the middle of something."""
