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
        """Have the operator force the newest round on until it is in a state; each time it is looked at first."""
        number, state = self.newest()
        target = number + (wanted == ANNOUNCING and state == PUBLISHED), wanted

        def there() -> bool:
            return self.has_ended(number) if wanted == PUBLISHED else self.newest() == target

        def ask() -> None:
            if not there():
                self.advance(target[0], self.operator)

        while not there():
            insist([self.keeper], ask)

    def advance(self, wanted: int, operator: Operator) -> None:
        """One step from the state that is seen now, by way of ``operator``; behind a newer round a moment's wait.

        Who forces a closed round may open the next one while it is still decoded: its end is then the scheduler's.
        """
        number, state = self.newest()
        if number > wanted:
            time.sleep(GLANCE)
            return
        if state == HELD:
            raise InvalidParameter("round", "not be held: nobody was refused", number)
        seen = f"&round={number}&state={state}" if number else ""
        try:
            operator.ask("POST", f"/v1/admin/rounds/advance?force=true{seen}")
        except (urllib3.exceptions.HTTPError, InvalidParameter) as error:
            raise Unreachable(str(error)) from None  # killed meanwhile, or in trouble: it is asked again

    def has_ended(self, number: int) -> bool:
        """Whether a round is published."""
        table = schema.rounds.c
        return bool(self.store.rows(sa.select(table.id).where(table.id == number, table.state == PUBLISHED)))
