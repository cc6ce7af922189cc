"""Adding a mechanism is one row and two classes: a toy goes through tour, plan, audit, lab and server."""

import pytest
import sqlalchemy as sa
from tests.mechanisms.toy_mechanism import EXAMPLE, ROW
from tests.server.conftest import MakeService
from tests.server.serving import Clock, Village

from hushcall.cli.options import chosen_profile
from hushcall.decoding import planning
from hushcall.mechanisms import parameters
from hushcall.mechanisms.profiles import PROFILES, Profile
from hushcall.mechanisms.registry import MECHANISMS
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.round import run_round
from hushcall.server.db import schema
from hushcall_lab.audit import examples
from hushcall_lab.audit.examples import EXAMPLES

SPAM = "+12025550143"
EPSILON = 16.0  # over 2²⁴ values the truth is then one report in three
HOLDERS, OTHERS = 60, 40


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> Profile:
    """The whole of adding it."""
    monkeypatch.setitem(MECHANISMS, ROW.name, ROW)
    profile = Profile("toy", "a mechanism that is not in the library", ROW.name, EPSILON, tau=20)
    monkeypatch.setitem(PROFILES, "toy", profile)
    monkeypatch.setitem(EXAMPLES, ROW.name, lambda _budget: [EXAMPLE])
    return profile


def callers() -> list[str]:
    return [SPAM] * HOLDERS + [f"+1202{3_000_000 + 7919 * i}" for i in range(OTHERS)]


def test_without_its_row_nothing_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(MECHANISMS, ROW.name)
    with pytest.raises(Exception, match="mechanism must be one of subspace, whole-number"):
        Profile("toy", "", ROW.name, EPSILON, 20)


def test_in_the_tour(toy: Profile) -> None:
    result = run_round([NANP.parse(number) for number in callers()], seeded(b"toy"), toy)
    assert [str(entry.number) for entry in result.listed] == [SPAM]
    assert set(result.spent) == {EPSILON}
    quiet = run_round([NANP.parse(number) for number in callers()[:20]], seeded(b"toy"), toy)
    assert (quiet.listed, set(quiet.spent)) == ((), {0.0})


def test_in_a_plan(toy: Profile) -> None:
    outlook = planning.outlook(toy, users=100, spam=HOLDERS)
    assert (outlook.runs, outlook.smallest_bucket, outlook.parameters) == (True, 21, "direct")
    assert outlook.found > 0.99
    assert outlook.detectable is not None
    assert 20 < outlook.detectable < HOLDERS
    assert chosen_profile(None, "toy", EPSILON, None).tau == 143  # what everybody but ours is held to


@pytest.mark.slow
def test_in_the_audit() -> None:
    rows = {row.randomiser: row for row in examples.findings((2.0,))}
    assert len(rows) == examples.rows_per_budget()
    assert rows["toy"].ok
    assert rows["toy"].exact == pytest.approx(2.0, abs=1e-9)


def test_on_its_way_to_a_phone() -> None:
    assert parameters.to_plain(EXAMPLE.mechanism) == {"mechanism": "toy", "epsilon": 2.0, "item_bits": 6}
    assert parameters.from_plain(parameters.to_plain(EXAMPLE.mechanism)) == EXAMPLE.mechanism


def test_on_a_server(make_service: MakeService, clock: Clock) -> None:
    service = make_service(rand=seeded(b"toy server"), round={"profile": "toy"})
    village = Village(service, clock)
    number = village.to("published", callers())
    found = service.store.rows(sa.select(schema.hitters).where(schema.hitters.c.round == number))
    assert [row.number for row in found] == [SPAM]
    assert found[0].low <= HOLDERS <= found[0].high
