"""What machines that watch the service are told: alive, ready or why not, and metrics that Prometheus can read."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families
from tests.postgres import Postgres
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Handset, Village, bearer, operator_token, serving

from hushcall import __version__
from hushcall.errors import InvalidParameter
from hushcall.protocol.problems import URN
from hushcall.server import metrics
from hushcall.server.db import schema
from hushcall.server.http import readiness
from hushcall.server.service import Service
from hushcall.server.settings import load_settings

DAY = 86_400


@pytest.fixture(autouse=True)
def looked_at_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe is answered from what was found a second ago; here the world changes faster."""
    monkeypatch.setattr(readiness, "CACHE_SECONDS", 0.0)


def samples(client: httpx.Client, token: str) -> dict[str, float]:
    """Every sample of /metrics, by name and labels."""
    answer = client.get("/metrics", headers=bearer(token))
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/plain")
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert key not in found
            found[key] = sample.value
    return found


def test_a_server_that_answers_is_alive(client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "alive", "version": __version__}


def test_who_hears_of_a_vulnerability_is_told_where_it_is_set(make_service: MakeService, client: httpx.Client) -> None:
    assert client.get("/.well-known/security.txt").status_code == 404
    service = make_service("", server={"security_contact": "mailto:security@calls.example.org"})
    with serving(service) as other:
        answer = other.get("/.well-known/security.txt")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    fields = dict(line.split(": ", 1) for line in answer.text.splitlines())
    assert fields["Contact"] == "mailto:security@calls.example.org"
    ahead = datetime.fromisoformat(fields["Expires"]).timestamp() - service.now
    assert 150 * DAY < ahead < 365 * DAY  # RFC 9116, 2.5.5: less than a year
    with pytest.raises(InvalidParameter, match="must start with mailto:"):
        load_settings(server={"security_contact": "mailto:a@b.example\nContact: tel:+1"})


def test_a_server_whose_disk_is_all_but_full_is_not_ready_though_a_heartbeat_fits(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service("")
    with serving(service) as client:
        usage = shutil.disk_usage(service.settings.data)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=readiness.LEAST_BYTES - 1))
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["missing"]) == (503, {"database": "disk full"})
        monkeypatch.undo()
        monkeypatch.setattr(readiness, "CACHE_SECONDS", 0.0)
        assert client.get("/readyz").status_code == 200


def test_a_server_is_ready_until_its_database_is_gone(
    service: Service, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    token = operator_token(service, "read")
    with serving(service) as client:
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ready", "missing": {}, "late": {}})
        assert samples(client, token)["hushcall_database_up"] == 1
        if service.store.postgres:
            server: Postgres = request.getfixturevalue("postgres")
            server.drop(service.settings.url)
        else:
            # In one step, since whoever brings the log home may open it at any moment. Then no connection is left.
            (tmp_path / "data").rename(tmp_path / "gone")
            service.store.engine.dispose()
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["status"] == "not ready"
        said = "database does not answer" if service.store.postgres else "database cannot be opened"
        assert answer.json()["missing"]["database"] == said
        assert samples(client, token)["hushcall_database_up"] == 0, "who was let in before is told what is in memory"
        stranger = client.get("/metrics", headers=bearer("hca_" + "5e" * 32))
        assert (stranger.status_code, stranger.headers["retry-after"]) == (503, "10")
        assert client.get("/healthz").status_code == 200
        answer = client.get("/v1/rounds/current")
        assert (answer.status_code, answer.json()["type"]) == (500, URN + "internal")


def test_a_server_whose_signatures_have_expired_is_not_ready(service: Service, clock: Clock) -> None:
    with serving(service) as client:
        clock.now += 4 * DAY
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["missing"]) == (503, {"timestamp": "its signature has expired"})
        assert service.publisher.refresh(service.now)
        assert client.get("/readyz").status_code == 200


def test_a_server_without_signed_metadata_is_not_ready(service: Service) -> None:
    with service.store.write("lose") as connection:
        connection.execute(sa.delete(schema.files))
    with serving(service) as client:
        answer = client.get("/readyz")
        assert (answer.status_code, list(answer.json()["missing"])) == (503, ["lists"])


def test_metrics_need_a_token_that_may_read(lite: Service, client: httpx.Client) -> None:
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers=bearer(Handset.enrolled(client).token)).status_code == 401
    assert client.get("/metrics", headers=bearer(operator_token(lite, "lists"))).status_code == 403
    assert client.get("/metrics", headers=bearer(operator_token(lite, "read"))).status_code == 200


def test_metrics_tell_how_many_and_how_full(village: Village) -> None:
    service = village.service
    token = operator_token(service, "read")
    with serving(service) as client:
        before = samples(client, token)
        assert before["hushcall_list_version"] == 0
        assert "hushcall_round_round" not in before
        village.to("published", [SPAM] * 6)
        village.to("announcing")
        phones = [Handset.enrolled(client) for _ in range(3)]
        assert [phone.announce(number=2).status_code for phone in phones] == [201] * 3
        assert phones[0].announce(999, number=2).status_code == 409
        after = samples(client, token)
    assert (after["hushcall_list_version"], after["hushcall_list_entries"], after["hushcall_devices"]) == (1, 1, 9)
    assert (after["hushcall_round_round"], after["hushcall_round_announced"]) == (2, 3)
    states = {name: value for name, value in after.items() if name.startswith("hushcall_round_is_")}
    assert [name for name, value in states.items() if value] == ["hushcall_round_is_announcing"]
    assert len(states) == 6

    def grown(name: str) -> float:
        return after[name] - before.get(name, 0)

    route = "route=/v1/rounds/{number}/announcements"
    assert grown("hushcall_uploads_accepted_total{kind=announcement}") == 3
    assert grown("hushcall_refused_total{problem=already-announced}") == 1
    assert grown(f"hushcall_requests_total{{{route},status=201}}") == 3
    assert grown(f"hushcall_requests_total{{{route},status=409}}") == 1
    assert grown("hushcall_commit_uploads_sum") == 4
    assert 1 <= grown("hushcall_commit_seconds_count") <= 4


def test_a_commit_is_observed_with_its_size_and_time(lite: Service, client: httpx.Client) -> None:
    token = operator_token(lite, "read")
    before = samples(client, token)
    metrics.observe_commit(7, 0.5)
    after = samples(client, token)
    for name, growth in (("uploads_sum", 7), ("uploads_count", 1), ("seconds_sum", 0.5), ("seconds_count", 1)):
        assert after[f"hushcall_commit_{name}"] - before[f"hushcall_commit_{name}"] == pytest.approx(growth)


def test_metrics_name_routes_never_addresses(lite: Service, client: httpx.Client) -> None:
    phone = Handset.enrolled(client)
    phone.report("5e" * 16, b"x", number=77777)
    client.get(f"/v1/nothing/{SPAM}")
    client.get("/v1/lists/targets/12025550143.jsonl")
    text = client.get("/metrics", headers=bearer(operator_token(lite, "read"))).text
    names = "\n".join(line.rpartition(" ")[0] for line in text.splitlines())  # values are times, too, with any digits
    assert "/v1/rounds/{number}/reports/{ticket}" in names
    assert not any(word in names for word in ("5e5e", "77777", "2025550143", phone.token, "127.0.0.1"))


def test_lists_are_served_with_an_etag_and_caches_are_told_how_long(village: Village) -> None:
    village.to("published", [SPAM] * 6)
    with serving(village.service) as client:
        first = client.get("/v1/lists/metadata/timestamp.json")
        assert (first.status_code, first.headers["cache-control"]) == (200, "no-cache")
        again = client.get("/v1/lists/metadata/timestamp.json", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        root = client.get("/v1/lists/root.json")
        assert root.json() == client.get("/v1/lists/metadata/1.root.json").json()
        assert "immutable" in client.get("/v1/lists/metadata/1.root.json").headers["cache-control"]
        current = client.get("/v1/lists/current/blocklist.jsonl")
        assert SPAM in current.text
        path = f"/v1/lists/targets/{current.headers['etag'].strip(chr(34))}.blocklist.jsonl"
        assert client.get(path).content == current.content


def test_the_round_has_an_etag_that_changes_with_its_phase(village: Village) -> None:
    village.to("announcing", [SPAM] * 4)
    with serving(village.service) as client:
        first = client.get("/v1/rounds/current")
        known = {"if-none-match": first.headers["etag"]}
        assert client.get("/v1/rounds/current", headers=known).status_code == 304
        assert (first.json()["state"], first.json()["buckets"]) == ("announcing", None)
        village.to("collecting")
        after = client.get("/v1/rounds/current", headers=known)
        assert (after.status_code, after.json()["state"]) == (200, "collecting")
        assert after.json()["buckets"]["202"]["runs"]
        told = set(after.text.replace(chr(34), " ").split())
        assert not {"announced", "users", "reports"} & told  # nothing says how many phones there are
