"""An operator who forces rounds on, whoever dies meanwhile: a wanted state comes in; the round is in it at the end."""

from __future__ import annotations

import time
from dataclasses import dataclass

import sqlalchemy as sa
import urllib3

from hushcall.errors import InvalidParameter, Unreachable
from hushcall.lab.live.fleet import Operator
from hushcall.lab.prove.keeper import GLANCE, Keeper, insist
from hushcall.protocol.states import ANNOUNCING, HELD, PUBLISHED
from hushcall.server.db import schema
from hushcall.server.db.store import Store

PATIENCE = 300.0
"""Seconds that a state is waited for, however busy the machine is."""


@dataclass
class Mover:
    """The operator of a server that is kept alive."""

    store: Store
    keeper: Keeper
    operator: Operator

    def newest(self) -> tuple[int, str]:
        """The newest round and its state, from the database."""
        table = schema.rounds.c
        rows = self.store.rows(sa.select(table.id, table.state).order_by(table.id.desc()).limit(1))
        return (int(rows[0].id), str(rows[0].state)) if rows else (0, PUBLISHED)

    def move(self, wanted: str) -> None:
        """Have the operator force the newest round on until it is in a state; each time it is looked at first.

        One that is to announce may be a later one: schedulers open rounds, too.
        """
        number, state = self.newest()
        number += wanted == ANNOUNCING and state == PUBLISHED

        def there() -> bool:
            if wanted == PUBLISHED:
                return self.has_ended(number)
            newest, found = self.newest()
            return found == wanted and (newest == number or (wanted == ANNOUNCING and newest > number))

        def ask() -> None:
            if not there():
                self.advance(number, self.operator)

        deadline = time.monotonic() + PATIENCE
        while not there():
            if time.monotonic() > deadline:
                raise InvalidParameter("round", f"come to be {wanted}", self.newest())
            insist([self.keeper], ask)

    def advance(self, wanted: int, operator: Operator) -> None:
        """One step from the state that is seen now, by way of ``operator``; a moment's wait where it is another's.

        The first round is the scheduler's to open. And who forces a closed round may open the next one while it is
        still decoded: its end is then the scheduler's.
        """
        number, state = self.newest()
        if number > wanted or number == 0:
            time.sleep(GLANCE)
            return
        if state == HELD:
            raise InvalidParameter("round", "not be held: nobody was refused", number)
        try:
            operator.ask("POST", f"/v1/admin/rounds/advance?force=true&round={number}&state={state}")
        except (urllib3.exceptions.HTTPError, InvalidParameter) as error:
            raise Unreachable(str(error)) from None  # killed meanwhile, or in trouble: it is asked again

    def has_ended(self, number: int) -> bool:
        """Whether a round is published."""
        table = schema.rounds.c
        return bool(self.store.rows(sa.select(table.id).where(table.id == number, table.state == PUBLISHED)))
