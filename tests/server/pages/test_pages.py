"""The pages without a browser: files, searches, parts that the script asks for, and every action with its scope."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.testclient import TestClient
from tests.server.conftest import Postgres
from tests.server.pages.conftest import LogIn, csrf_in
from tests.server.pages.seeded import (
    ALLOWED,
    LISTED,
    NOW,
    UNLISTED,
    Seeded,
    big_list,
    bucket_rows,
    hitter_rows,
    open_seeded,
    round_row,
)

from hushcall.profiles import DEFAULT
from hushcall.server import appeals, schema
from hushcall.server.app import make_app
from hushcall.server.pages.actions import ACTIONS
from hushcall.server.pages.charts import heat_map, nice, participation
from hushcall.server.pages.found import Bucket
from hushcall.server.pages.listed import Lists, search
from hushcall.server.pages.overview import Kept, overview
from hushcall.server.pages.planner import plan
from hushcall.server.pages.rendering import static_files
from hushcall.server.pages.words import bound, figure, from_now, number, percent, size, span
from hushcall.server.problems import PROBLEMS
from hushcall.server.standing import one_round

Act = Callable[..., Any]


def published(seeded: Seeded) -> set[str]:
    """The numbers on the list that phones download."""
    found = Lists(seeded.service.store).newest()
    assert found is not None
    return {entry.number for entry in found.entries(range(len(found)))}


def queries(seeded: Seeded) -> list[str]:
    """What the database is asked from now on."""
    asked: list[str] = []

    def note(*given: Any) -> None:
        if given[2] != "BEGIN":
            asked.append(given[2])

    sa.event.listen(seeded.service.store.engine, "before_cursor_execute", note)
    return asked


# Files


def test_static_files_have_their_types_and_are_asked_for_once(visitor: TestClient) -> None:
    for name, media in (("live.js", "text/javascript"), ("dashboard.css", "text/css"), ("icon.svg", "image/svg+xml")):
        answer = visitor.get(f"/static/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(media)
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = visitor.get(f"/static/{name}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["nothing.js", "..%2F__init__.py", "%2e%2e/rendering.py", "", "owner.html"])
def test_nothing_else_is_served_as_a_static_file(visitor: TestClient, name: str) -> None:
    assert visitor.get(f"/static/{name}").status_code == 404


def test_every_file_of_the_folder_is_served() -> None:
    folder = Path(__file__).parents[3] / "src" / "hushcall" / "server" / "pages" / "static"
    assert set(static_files()) == {path.name for path in folder.iterdir()}


def test_the_owners_page_is_given_the_servers_settings(visitor: TestClient) -> None:
    page = visitor.get("/owner").text
    for given in ('"profile": "balanced"', '"epsilon": 4.0', '"bits_example": 5', '"window": 7', '"tau": 10'):
        assert given in page, given
    assert 'data-list-url="/v1/lists/current/blocklist.jsonl"' in page


# The API's page


def test_the_api_page_tells_of_every_operation_and_problem(app: FastAPI, visitor: TestClient) -> None:
    page = visitor.get("/docs").text
    document = app.openapi()
    for path, methods in document["paths"].items():
        assert f"<code>{path}</code>" in page
        for given in methods.values():
            assert given["summary"].replace("'", "&#39;") in page
    for kind in PROBLEMS.values():
        assert f'id="problem-{kind.name}"' in page
        assert kind.todo.split("'")[0] in page
    assert "&#34;bucket&#34;: 202" in page  # an example of a request
    assert "Needs a device&#39;s token." in page
    assert not any(path.startswith(("/login", "/actions", "/live")) for path in document["paths"])


# Search


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seeded]:
    """A hundred thousand entries."""
    made = open_seeded(tmp_path_factory.mktemp("many"))
    big_list(made.service, 100_000)
    yield made
    made.service.close()


@pytest.mark.parametrize(
    ("asked", "total"),
    [("", 100_000), ("202", 214), ("+1 (202)", 214), ("1202", 214), ("20", 1926), ("2027", 0), ("+1", 100_000)],
)
def test_a_prefix_finds_all_that_begin_so(many: Seeded, asked: str, total: int) -> None:
    found = Lists(many.service.store).newest()
    assert found is not None
    result = search(found, asked)
    digits = re.sub(r"\D", "", asked).removeprefix("1")
    expected = [line for line in found.lines if line.startswith(b'{"number":"+1' + digits.encode())]
    assert result.total == len(expected) == total
    assert [entry.line().rstrip() for entry in result.entries] == expected[:50]


@pytest.mark.parametrize("asked", ["2012000000", "+1 201 200 0000", "1-201-200-0000", "(201) 200.0000"])
def test_a_number_is_found_in_any_notation(many: Seeded, asked: str) -> None:
    found = Lists(many.service.store).newest()
    assert found is not None
    result = search(found, asked)
    assert result.number == "+12012000000"
    assert [entry.number for entry in result.entries] == ["+12012000000"]


@pytest.mark.parametrize(
    "asked", ["hello", "+44 20 7946 0958", "20255501430", "000 000 0000", "+1 202 055 0143", "<b>"]
)
def test_what_is_no_number_is_said(many: Seeded, asked: str) -> None:
    found = Lists(many.service.store).newest()
    assert found is not None
    result = search(found, asked)
    assert result.problem
    assert not result.entries


def test_pages_of_a_search_end(many: Seeded) -> None:
    found = Lists(many.service.store).newest()
    assert found is not None
    last = search(found, "", 10**6)
    assert (last.page, last.pages, len(last.entries)) == (2000, 2000, 50)
    assert search(found, "", 2).entries[0] > search(found, "", 1).entries[-1]


def test_the_list_is_read_once_a_version(many: Seeded) -> None:
    lists, read = Lists(many.service.store), queries(many)
    for _ in range(5):
        lists.newest()
    assert len([one for one in read if "versions.data" in one]) == 1


def test_overview_and_search_answer_at_once_with_a_hundred_thousand_entries(many: Seeded) -> None:
    app = make_app(many.service)
    client = TestClient(app, follow_redirects=False)
    client.post("/login", data={"token": many.token})

    def median(path: str) -> float:
        taken = []
        for _ in range(7):
            app.state.site.forget()
            start = time.perf_counter()
            assert client.get(path).status_code == 200
            taken.append(time.perf_counter() - start)
        return sorted(taken)[3]

    for path in ("/", "/list", "/list?q=202", "/list?q=2012000000", "/rounds/13"):
        client.get(path)
        assert median(path) < 0.3, path


# Live parts


def test_a_part_that_did_not_change_is_not_sent_again(operator: TestClient, visitor: TestClient) -> None:
    for client, path in ((operator, "/live"), (visitor, "/live"), (operator, "/live/decided")):
        first = client.get(path)
        again = client.get(path, headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_fifty_viewers_cost_what_one_costs(app: FastAPI, operator: TestClient, seeded: Seeded) -> None:
    operator.get("/live")
    asked = queries(seeded)
    app.state.site._live._until = float("inf")  # a long second
    for _ in range(50):
        operator.get("/live")
    assert len(asked) == 50  # whose session it is, and nothing else
    assert all("admins" in one for one in asked)


def test_the_overview_takes_few_queries_however_many_rounds_there_are(seeded: Seeded) -> None:
    asked = queries(seeded)
    overview(seeded.service.store)
    assert len(asked) <= 12


def test_what_is_kept_is_made_once_a_while() -> None:
    now, made = [0.0], itertools.count(1)
    kept = Kept(lambda: next(made), 1.0, lambda: now[0])
    assert [kept.get(), kept.get()] == [1, 1]
    now[0] = 1.0
    assert kept.get() == 2
    kept.forget()
    assert kept.get() == 3


def test_the_live_part_follows_the_round(app: FastAPI, operator: TestClient, seeded: Seeded) -> None:
    assert "Round 14 is collecting" in operator.get("/live").text
    assert "900 of 934,229" in operator.get("/live").text
    seeded.service.rounds.hold(14, "looked at")
    app.state.site.forget()
    assert "Round 14 is held" in operator.get("/live").text


# Actions


def test_each_action_asks_before_it_does(operator: TestClient, seeded: Seeded) -> None:
    before = published(seeded)
    form = {"csrf": csrf_in(operator.get("/").text), "number": "(202) 555-0143", "why": "a <b>school</b>", "who": "me"}
    asked = operator.post("/actions/appeal", data=form)
    assert asked.status_code == 200
    assert "+1 202 555 0143 leaves the list at once" in asked.text
    assert "a &lt;b&gt;school" in asked.text
    assert published(seeded) == before
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', asked.text.split('id="confirm"')[1]))
    assert fields["confirmed"] == "yes"


def test_an_appeal_takes_the_number_off_and_its_end_brings_it_back(
    operator: TestClient, seeded: Seeded, act: Act
) -> None:
    assert LISTED in published(seeded)
    done = act(operator, "appeal", number="202 555 0143", why="a school", who="the school")
    assert (done.status_code, done.headers["location"]) == (303, f"/numbers/{LISTED}")
    assert LISTED not in published(seeded)
    page = operator.get(f"/numbers/{LISTED}").text
    assert "A list without the number is published." in page
    assert "off: appealed" in page
    assert "A list without the number is published." not in operator.get(f"/numbers/{LISTED}").text  # said once
    entry = appeals.appeals(seeded.service.store)[0]
    assert (entry.why, entry.who) == ("a school", "the school")
    assert act(operator, "close", entry=entry.id, why="withdrawn").status_code == 303
    assert LISTED in published(seeded)
    assert act(operator, "close", entry=entry.id, why="again").status_code == 400


def test_the_allowlist_from_a_page(operator: TestClient, seeded: Seeded, act: Act) -> None:
    act(operator, "allow", number=LISTED, why="a pharmacy")
    assert LISTED not in published(seeded)
    assert [row.who for row in appeals.allowlist(seeded.service.store) if row.number == LISTED] == ["the operator"]
    assert "Never listed: a pharmacy" in operator.get(f"/numbers/{LISTED}").text
    act(operator, "disallow", number=LISTED)
    assert LISTED in published(seeded)
    assert act(operator, "disallow", number=LISTED).status_code == 400


def test_a_round_is_held_and_released_from_its_page(operator: TestClient, seeded: Seeded, act: Act) -> None:
    assert act(operator, "hold", round=14, why="odd numbers").headers["location"] == "/rounds/14"
    page = operator.get("/rounds/14").text
    assert "Held while collecting: odd numbers" in page
    assert "Round 14 is held" in operator.get("/").text  # at once, though the overview is kept for a second
    assert "/actions/release" in page
    assert act(operator, "release", round=14).status_code == 303
    assert seeded.service.rounds.newest().state == "collecting"
    assert act(operator, "release", round=14).status_code == 400
    assert act(operator, "hold", round=99, why="x").status_code == 400


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("announcing", "starts to collect now"),
        ("collecting", "closes now and is decoded"),
        ("published", "The next round opens now"),
    ],
)
def test_moving_on_says_what_it_means(operator: TestClient, seeded: Seeded, state: str, words: str) -> None:
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == 14).values(state=state))
    form = {"csrf": csrf_in(operator.get("/").text)}
    assert words in operator.post("/actions/advance", data=form).text


def test_moving_on_moves_on(operator: TestClient, seeded: Seeded, act: Act) -> None:
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == 14).values(state="published"))
    assert act(operator, "advance").headers["location"] == "/"
    assert seeded.service.rounds.newest().id == 15


@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_each_action_needs_its_scope(log_in: LogIn, seeded: Seeded, act: Act, name: str) -> None:
    scopes = {"read", "lists", "rounds", "devices"} - {ACTIONS[name].scope}
    before = published(seeded), seeded.service.rounds.newest(), appeals.appeals(seeded.service.store)
    refused = act(log_in(*scopes), name, number=LISTED, round=14, entry=1, why="x")
    assert refused.status_code == 403
    assert f"scope &#39;{ACTIONS[name].scope}&#39;" in refused.text
    assert before == (published(seeded), seeded.service.rounds.newest(), appeals.appeals(seeded.service.store))


def test_buttons_are_shown_to_those_who_may_press_them(log_in: LogIn) -> None:
    reader = log_in("read")
    for path in ("/", "/rounds/14", "/appeals", f"/numbers/{UNLISTED}", f"/numbers/{ALLOWED}"):
        assert "/actions/" not in reader.get(path).text, path


@pytest.mark.parametrize(
    ("name", "form", "status"),
    [
        ("appeal", {"number": "911", "why": "x"}, 422),
        ("appeal", {"number": LISTED, "why": " "}, 400),
        ("appeal", {"number": LISTED, "why": "x" * 1001}, 400),
        ("allow", {"why": "x"}, 422),
        ("close", {"entry": "x", "why": "x"}, 400),
        ("close", {"entry": "9" * 30, "why": "x"}, 400),
        ("hold", {"round": "-1", "why": "x"}, 400),
        ("nothing", {}, 404),
        ("appeal", {"number": LISTED, "why": "x\0"}, 400),
        ("appeal", {"number": LISTED, "why": "x" * 9000}, 413),
    ],
)
def test_a_wrong_form_is_refused_in_words(
    operator: TestClient, act: Act, name: str, form: dict[str, str], status: int
) -> None:
    assert act(operator, name, **form).status_code == status


def test_long_logs_come_by_the_page(operator: TestClient, seeded: Seeded) -> None:
    rows = [{"number": f"+1415555{2000 + n}", "why": f"reason {n}", "who": "x", "at": NOW} for n in range(120)]
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.insert(schema.allowed), rows)
        connection.execute(sa.insert(schema.appeals), rows)
    first, last = operator.get("/appeals").text, operator.get("/appeals?page=3&allowed=99").text
    assert "415 555 2119" in first
    assert "reason 119" in first
    assert "Page 1 of 3" in first
    assert "MARKER a school" not in first
    assert "MARKER a school" in last
    assert last.count("Page 3 of 3") == 2


def test_a_form_of_too_many_fields_is_refused(operator: TestClient) -> None:
    assert operator.post("/actions/hold", data={str(n): "x" for n in range(30)}).status_code == 400


# Numbers, rounds, words


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (LISTED, "listed"),
        (UNLISTED, "off: appealed"),
        (ALLOWED, "off: on the allowlist"),
        ("+12025550199", "never found by any round"),
    ],
)
def test_a_number_s_page_says_whether_it_is_listed_and_why(operator: TestClient, text: str, verdict: str) -> None:
    page = operator.get(f"/numbers/{text}").text
    assert f">{verdict}</span>" in page


def test_a_number_seen_too_long_ago_and_one_not_yet_published(operator: TestClient, seeded: Seeded) -> None:
    rows = [
        {**hitter_rows(1, 0)[0], "round": where, "number": text}
        for where, text in ((1, "+14155550101"), (14, "+14155550102"))
    ]
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.insert(schema.hitters), rows)
    assert "off: not seen within the window" in operator.get("/numbers/+14155550101").text
    assert "not yet: its round is not published" in operator.get("/numbers/+14155550102").text


def test_what_is_no_number_has_no_page(operator: TestClient) -> None:
    assert operator.get("/numbers/911").status_code == 422
    assert operator.get("/rounds/99").status_code == 404
    assert operator.get("/numbers", params={"number": "(202) 555 0143"}).headers["location"].startswith("/numbers/")


def test_pages_of_a_server_where_nothing_has_happened_yet(tmp_path: Path) -> None:
    empty = open_seeded(tmp_path, story=False)
    client = TestClient(make_app(empty.service))
    assert "none yet" in client.get("/").text
    assert "No list has been published yet" in client.get("/list").text
    assert client.get("/owner").status_code == 200
    client.post("/login", data={"token": empty.token})
    for path in ("/", "/live/decided", "/list", "/appeals", "/system", f"/numbers/{LISTED}"):
        assert client.get(path).status_code == 200, path
    empty.service.close()


def test_pages_over_postgresql(tmp_path: Path, postgres: Postgres) -> None:
    made = open_seeded(tmp_path, url=postgres.fresh())
    client = TestClient(make_app(made.service))
    client.post("/login", data={"token": made.token})
    for path in ("/", "/live/decided", "/list?q=202", "/appeals", "/rounds/13", f"/numbers/{UNLISTED}"):
        assert client.get(path).status_code == 200, path
    system = client.get("/system").text
    assert "PostgreSQL 1" in system
    assert "0001" in system
    made.service.close()


def test_a_round_without_buckets_is_told_in_words(operator: TestClient, seeded: Seeded) -> None:
    row = {"round": 12, "bucket": 0, "users": 23_188, "runs": True, "parameters": "{}"}
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.insert(schema.buckets), [row])
    assert "23,188 phones" in operator.get("/rounds/12").text


def test_a_signature_that_runs_out_soon_is_a_worry_for_operators(
    operator: TestClient, visitor: TestClient, seeded: Seeded
) -> None:
    seeded.clock.now = NOW + 29 * 3600 * 2  # of the 72 hours of a timestamp
    fresh = operator.post("/login", data={"token": seeded.token})
    assert fresh.status_code == 303
    assert "the signature of timestamp runs out soon" in operator.get("/").text
    assert "runs out soon" not in visitor.get("/").text


def test_expired_signatures_are_a_worry_for_everybody(visitor: TestClient, seeded: Seeded) -> None:
    seeded.clock.now = NOW + 4 * 86_400
    assert "the signature of timestamp has expired" in visitor.get("/").text


def test_reports_are_counted_while_buckets_are_sealed(seeded: Seeded) -> None:
    tally = {"round": 14, "bucket": 203, "count": 50, "checksum": bytes(32), "data": b""}
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.insert(schema.tallies), [tally])
    round_ = one_round(seeded.service.store, 14)
    assert round_ is not None
    assert (round_.reports, round_.expected) == (950, sum(r["users"] for r in bucket_rows(14, 430) if r["runs"]))
    assert round_.share(NOW) == pytest.approx(950 / round_.expected)


def test_a_discarded_round_says_so_to_operators_only(operator: TestClient, visitor: TestClient, seeded: Seeded) -> None:
    seeded.service.rounds.hold(14, "odd")
    seeded.service.rounds.discard(14, "flooded by one address")
    for path in ("/", "/rounds/14"):
        assert "This round was discarded: flooded by one address" in operator.get(path).text, path
    for path in ("/", "/live", "/list"):
        assert "flooded" not in visitor.get(path).text, path


def test_the_window_is_the_one_that_the_list_was_made_with(operator: TestClient, seeded: Seeded) -> None:
    row = {**hitter_rows(1, 0)[0], "round": 4, "number": "+14155550101"}
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.update(schema.rounds).values(window=10))  # the setting says 7
        connection.execute(sa.insert(schema.hitters), [row])
    assert "off: not seen within the window" in operator.get("/numbers/+14155550101").text
    seeded.service.publisher.republish(NOW)
    assert "+14155550101" in published(seeded)
    assert ">listed</span>" in operator.get("/numbers/+14155550101").text
    with seeded.service.store.write("test") as connection:  # found, within those ten rounds, and yet not on the list
        connection.execute(sa.insert(schema.hitters), [{**row, "number": "+14155550102"}])
    assert "off: not in the published version" in operator.get("/numbers/+14155550102").text


def test_a_held_round_shows_the_phase_it_goes_back_to(seeded: Seeded) -> None:
    row = round_row(15, "held", NOW, held_from="closed", reason="odd")
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.insert(schema.rounds), [row])
    newest = overview(seeded.service.store).rounds[0]
    assert (newest.id, newest.phase, newest.held, newest.reason) == (15, "closed", True, "odd")


# The planner


def test_the_planner_reckons_as_the_command_does(operator: TestClient) -> None:
    from hushcall.learn.planning import outlook

    expected = outlook(DEFAULT, 1000, 150, 400)
    page = operator.get("/plan", params={"users": 1000, "epsilon": 4, "tau": 10, "spam": 150, "buckets": 400}).text
    assert f"{expected.detectable} reports" in page
    assert f"{expected.smallest_bucket} phones" in page
    answer = operator.get("/plan/answer", params={"users": "1,000"})
    assert f"{expected.detectable} reports" in answer.text
    assert "<html" not in answer.text


def test_wrong_listings_stay_below_the_level() -> None:
    made = plan({"users": "5000"}, DEFAULT)
    assert made.row is not None
    assert all(row.wrong is not None and 0 < row.wrong <= DEFAULT.level for row in made.rows)
    finds = [row.detectable or 0 for row in made.rows]
    assert finds == sorted(finds, reverse=True)  # more budget, smaller numbers found


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"users": "0"}, "users"),
        ({"users": "-5"}, "users"),
        ({"users": "9" * 30}, "users"),
        ({"epsilon": "nan"}, "epsilon"),
        ({"epsilon": "99"}, "epsilon"),
        ({"epsilon": "x"}, "epsilon"),
        ({"tau": "1.5"}, "tau"),
        ({"mechanism": "rappor"}, "mechanism"),
        ({"users": "10", "spam": "11"}, "spam"),
        ({"users": "²"}, "users"),
    ],
)
def test_a_wrong_wish_is_named(form: dict[str, str], field: str) -> None:
    assert set(plan(form, DEFAULT).problems) == {field}


# Words and shapes


def test_words() -> None:
    assert (figure(54.598), figure(0.000593), figure(2.5e-9), figure(12345), figure(0)) == (
        "54.6",
        "0.000593",
        "2.5 × 10⁻⁹",
        "12,345",
        "0",
    )
    assert (percent(0.99999), percent(1), percent(0.5), percent(1e-7)) == (
        "99.99\u00a0%",
        "100\u00a0%",
        "50\u00a0%",
        "under\u00a00.01\u00a0%",
    )
    assert [span(s) for s in (-5, 44, 119, 120, 7199, 7200, 200_000)] == [
        "0 s",
        "40 s",
        "115 s",
        "2 min",
        "119 min",
        "2 h",
        "2 days",
    ]
    assert (from_now(NOW + 7200, NOW), from_now(NOW - 300, NOW)) == ("in 2 h", "5 min ago")
    assert (size(999), size(12_345_678), number(LISTED), number("x")) == (
        "999 bytes",
        "12.3 MB",
        "+1 202 555 0143",
        "x",
    )


def test_a_bound_is_never_rounded_down() -> None:
    assert [bound(value) for value in (54.598, 148.413, 7.3891, 100, 0.001234, 0)] == [
        "54.6",
        "149",
        "7.39",
        "100",
        "0.00124",
        "0",
    ]


def test_every_bucket_has_its_own_place_and_larger_ones_are_deeper() -> None:
    made = heat_map([Bucket(code, code * code, code > 210, 0) for code in range(200, 640)])
    assert len({(cell.x, cell.y) for cell in made.cells}) == 440
    assert all(0 <= cell.x < made.width and 0 <= cell.y < made.height for cell in made.cells)
    levels = [cell.level for cell in made.cells]
    assert levels[:11] == [0] * 11
    assert levels[11:] == sorted(levels[11:])
    assert {*levels} == {0, 1, 2, 3, 4, 5}
    assert made.steps[-1] == 639 * 639


def test_bars_stay_in_their_box(seeded: Seeded) -> None:
    chart = participation(overview(seeded.service.store).took)
    assert len(chart.bars) == 14
    for bar in chart.bars:
        assert 0 <= bar.y - bar.refused <= bar.y + bar.height <= chart.height + 0.01
        assert bar.x + bar.width <= chart.width
    assert [nice(value) for value in (0, 1, 2, 3, 7, 99, 101, 9380)] == [1, 1, 2, 5, 10, 100, 200, 10_000]
