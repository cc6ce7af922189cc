"""The pages: those for everybody, those for operators with a session, and the forms that act.

No page needs a script. Scripts fetch parts of the same pages.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, Depends, Query, Request
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from hushcall.formats.blocklists import WRITERS
from hushcall.server.auth.operators import COOKIE, SESSION_SECONDS, Session, from_here, safe_path
from hushcall.server.http.context import RoundId, context_of, parsed_number, service_of
from hushcall.server.http.public_cache import answer
from hushcall.server.problems import Problem
from hushcall.server.publishing import exclusions
from hushcall.server.rounds.round_status import one_round
from hushcall.server.web import findings
from hushcall.server.web.actions import ACTIONS, checked, perform
from hushcall.server.web.budget import OFFERED, Plan, plan, sets_of_newest_round
from hushcall.server.web.findings import Slice, search
from hushcall.server.web.health import settings_by_section
from hushcall.server.web.rendering import HTML, heat_map, render, sightings, static_files
from hushcall.server.web.site import Site

router = APIRouter(include_in_schema=False)
FLASH = "hushcall_flash"
_MAX_FORM_BYTES = 8192
Page = Annotated[int, Query(ge=1, le=1_000_000)]
Text = Annotated[str, Query(max_length=100)]


def site_of(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


async def read_form(request: Request) -> dict[str, str]:
    body = await request.body()
    if len(body) > _MAX_FORM_BYTES:
        raise Problem("oversized", f"A form may have {_MAX_FORM_BYTES} bytes.")
    if b"\0" in body or b"%00" in body:  # PostgreSQL keeps no NUL in a text
        raise Problem("bad-request", "A form may hold no NUL.")
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20))
    except ValueError:
        raise Problem("bad-request", "A form may have 20 fields.") from None


Form = Annotated[dict[str, str], Depends(read_form)]


def visitor(request: Request) -> Session | None:
    """The operator who looks. None for everybody else."""
    return site_of(request).sessions.read(request.cookies.get(COOKIE, ""), service_of(request).now)


def signed_in(request: Request) -> Session:
    """The operator who looks. Others are sent to the login."""
    session = visitor(request)
    if session is None:
        login = f"/login?next={quote(safe_path(request.url.path), safe='/+')}"
        raise HTTPException(303, headers={"location": login})
    return session


def shown(request: Request, session: Session | None, template: str, status: int = 200, **values: object) -> Response:
    """A whole page for this visitor only, which no cache may keep."""
    flash = request.cookies.get(FLASH, "")
    common = {"session": session, "flash": flash, "path": request.url.path, "now": service_of(request).now}
    answer = Response(render(template, **common, **values), status, media_type=HTML)
    answer.headers["cache-control"] = "no-store"
    if flash:
        answer.delete_cookie(FLASH, path="/")
    return answer


def public_page(request: Request, session: Session | None, name: str) -> Response:
    """A page, rendered once for all but those with a session, or with a message to see.

    A browser asks each time whether it has changed: an operator sees another page at the same address.
    """
    site = site_of(request)
    if COOKIE in request.cookies or FLASH in request.cookies:
        return shown(request, session, name, **site.values[name]())
    return answer(request, site.pages[name].get(), "no-cache", vary="cookie")


def part(request: Request, name: str) -> Response:
    return answer(request, site_of(request).pages[name].get(), "private, no-cache", vary="cookie")


@router.get("/static/{name}")
async def static(request: Request, name: str) -> Response:
    file = static_files().get(name)
    if file is None:
        raise Problem("not-found")
    return answer(request, file, "public, no-cache")


@router.get("/owner")
def owner(request: Request) -> Response:
    return answer(request, site_of(request).pages["owner.html"].get(), "no-cache")


@router.get("/leave")
def leave_page(request: Request) -> Response:
    return shown(request, visitor(request), "leave.html", deleted=False, problem="")


@router.post("/leave")
def leave(request: Request, form: Form) -> Response:
    """An owner has a device deleted: who has its token may."""
    problem = None
    try:
        context_of(request).login_limit.check((request.client.host if request.client else "").encode())
        service_of(request).devices.delete_own(form.get("token", "").strip()[:200])
    except Problem as error:
        problem = error
    status = 200 if problem is None else problem.kind.status
    words = problem and (problem.detail or problem.kind.title)
    return shown(request, visitor(request), "leave.html", status, deleted=problem is None, problem=words)


@router.get("/docs")
def docs(request: Request) -> Response:
    """The API in words, drawn from OpenAPI here: no script from elsewhere."""
    return public_page(request, visitor(request), "docs.html")


@router.get("/")
def home(request: Request) -> Response:
    site, session = site_of(request), visitor(request)
    if session is None:
        return public_page(request, None, "welcome.html")
    parts: dict[str, Any] = {name: site.pages[f"parts/{name}.html"].get().data.decode() for name in ("live", "decided")}
    budget = site.budget()
    sets = sets_of_newest_round(site.service.store, budget)
    connect: dict[str, Any] = {"connect": None} if site.overview.get().devices else _connect(request)
    return shown(request, session, "overview.html", budget=budget, sets=sets, **parts, **connect)


@router.get("/live")
def live(request: Request) -> Response:
    return part(request, "parts/live_public.html" if visitor(request) is None else "parts/live.html")


@router.get("/live/decided")
def live_decided(request: Request) -> Response:
    if visitor(request) is None:
        raise Problem("unknown-token", "This part is for operators: log in at /login.")
    return part(request, "parts/decided.html")


@router.get("/list")
def published_list(request: Request, q: Text = "", page: Page = 1) -> Response:
    newest = site_of(request).lists.newest()
    result = None if newest is None else search(newest, q, page)
    values: dict[str, Any] = {"list": newest, "search": result, "asked": q, "exports": WRITERS.values()}
    lists, named = site_of(request).lists, None
    with suppress(Problem):
        named = lists.named_by_others(parsed_number(request, q), service_of(request).now)
    published = lists.imported()
    values |= {"imported": named, "sources": published.sources if published else []}
    return shown(request, visitor(request), "list.html", **values)


@router.get("/numbers")
def find_number(request: Request, number: Text = "") -> Response:
    signed_in(request)
    return RedirectResponse(f"/numbers/{quote(number.strip() or '-', safe='+')}", 303)


@router.get("/numbers/{number}")
def number_page(request: Request, number: str) -> Response:
    site, session = site_of(request), signed_in(request)
    try:
        text = parsed_number(request, number[:40])
    except Problem as problem:
        return _refused(request, session, problem)
    service = site.service
    named = site.lists.named_by_others(text, service.now)
    story = findings.story(service.store, service.settings, site.lists.newest(), text, named)
    bars = sightings([(row.estimate, row.low, row.high) for row in story.sightings])
    return shown(request, session, "number.html", story=story, bars=bars)


@router.get("/rounds/{number}")
def round_page(request: Request, round_id: RoundId, page: Page = 1) -> Response:
    site, session = site_of(request), signed_in(request)
    store, newest = site.service.store, site.service.rounds.newest()
    round_ = one_round(store, round_id)
    if round_ is None or newest is None:
        return _refused(request, session, Problem("unknown-round"))
    _, buckets = findings.buckets(store, round_id)
    return shown(
        request,
        session,
        "round.html",
        round=round_,
        newest=newest.id,
        oldest=findings.oldest_round(store),
        bucket_round=round_id,
        buckets=buckets,
        map=heat_map(buckets),
        found=findings.hitters(store, site.service.settings, site.lists.newest(), round_id, page, 50),
    )


@router.get("/appeals")
def appeals_page(request: Request, page: Page = 1, allowed: Page = 1) -> Response:
    session, store = signed_in(request), service_of(request).store
    log = Slice.read(exclusions.count_appeals(store), partial(exclusions.appeals, store, None), page)
    allowlist = Slice.of(exclusions.allowlist(store), allowed)
    return shown(request, session, "appeals.html", log=log, allowed=allowlist)


@router.get("/access")
def access_page(request: Request, page: Page = 1) -> Response:
    session = signed_in(request)
    return shown(request, session, "access.html", **_connect(request), **site_of(request).access_values(page))


@router.get("/log")
def log_page(request: Request, page: Page = 1) -> Response:
    session = signed_in(request)
    return shown(request, session, "log.html", log=Slice.of(service_of(request).audit.entries(), page))


@router.get("/system")
def system_page(request: Request) -> Response:
    site, session = site_of(request), signed_in(request)
    site.health.forget()
    values: dict[str, Any] = {"health": site.health.get(), "machine": site.machine.get()}
    values |= {"sections": settings_by_section(site.service.settings), "devices": site.overview.get().devices}
    return shown(request, session, "system.html", **values)


@router.get("/plan")
def plan_page(request: Request) -> Response:
    session = signed_in(request)
    return shown(request, session, "plan.html", plan=_plan(request), mechanisms=OFFERED)


@router.get("/plan/answer")
def plan_answer(request: Request) -> Response:
    if visitor(request) is None:
        raise Problem("unknown-token", "This part is for operators: log in at /login.")
    return Response(render("parts/plan.html", plan=_plan(request)), media_type=HTML)


def _plan(request: Request) -> Plan:
    form = {key: value[:40] for key, value in request.query_params.items()}
    return plan(form, site_of(request).budget().profile, service_of(request).plan)


@router.get("/login")
def login_page(request: Request, next: Text = "/") -> Response:  # noqa: A002
    session = visitor(request)
    if session is not None:
        return RedirectResponse(safe_path(next), 303)
    return shown(request, None, "login.html", next=safe_path(next), problem=None)


@router.post("/login")
def login(request: Request, form: Form) -> Response:
    """An operator's token opens a session of twelve hours."""
    site, service = site_of(request), service_of(request)
    target = safe_path(form.get("next", "/"))
    try:
        if not from_here(request.headers):
            raise Problem("forbidden", "This form was sent by another site.")
        try:
            admin = service.devices.admin(form.get("token", "").strip()[:200])
        except Problem:  # only failures count: behind a proxy a stranger shares the operators' address
            context_of(request).login_limit.check((request.client.host if request.client else "").encode())
            raise
        cookie = site.sessions.open(admin, service.now, service.rand)
    except Problem as problem:
        answer = shown(request, None, "login.html", problem.kind.status, next=target, problem=problem)
        if problem.retry_after is not None:
            answer.headers["retry-after"] = str(problem.retry_after)
        return answer
    answer = _flashed(request, target, "in")
    answer.set_cookie(
        COOKIE, cookie, SESSION_SECONDS, path="/", secure=_is_https(request), httponly=True, samesite="strict"
    )
    return answer


@router.post("/logout")
def logout(request: Request, form: Form) -> Response:
    session = visitor(request)
    if session is not None and (refusal := _forged(request, session, form)):
        return refusal
    site_of(request).sessions.end(request.cookies.get(COOKIE, ""), service_of(request).now)
    answer = _flashed(request, "/", "out")
    answer.delete_cookie(COOKIE, path="/")
    return answer


@router.post("/actions/{name}")
def act(request: Request, name: str, form: Form) -> Response:
    """Ask for confirmation, then act."""
    site, session = site_of(request), visitor(request)
    if session is None:
        return _refused(request, None, Problem("unknown-token", "Log in first, then send the form again."))
    if refusal := _forged(request, session, form):
        return refusal
    try:
        action = ACTIONS.get(name)
        if action is None:
            raise Problem("not-found")
        values = checked(action, form, session.admin, service_of(request).plan)
        back = safe_path(form.get("back", "/"))
        if form.get("confirmed") != "yes":
            fields = {field: form[field] for field in action.fields if field in form}
            newest = site.service.rounds.newest()
            if "seen" in action.fields:  # a confirmed step is for this round in this state only
                fields["seen"] = f"{newest.id} {newest.state}" if newest else ""
            asked: dict[str, Any] = {"action": action, "form": values, "newest": newest, "fields": fields, "back": back}
            return shown(request, session, "confirm.html", **asked)
        done = perform(action, site.service, values)
    except Problem as problem:
        return _refused(request, session, problem)
    site.forget()
    if done.secret:
        return shown(request, session, "secret.html", action=action, secret=done.secret, back=done.path)
    return _flashed(request, done.path, done.flash, BackgroundTask(done.later) if done.later else None)


def _forged(request: Request, session: Session, form: dict[str, str]) -> Response | None:
    """A refusal, where a form did not come from a page of this session."""
    if from_here(request.headers) and session.owns(form.get("csrf", "")):
        return None
    return _refused(request, session, Problem("forbidden", "This form did not come from a page of your session."))


def _refused(request: Request, session: Session | None, problem: Problem) -> Response:
    return shown(request, session, "refused.html", problem.kind.status, problem=problem)


def missing(request: Request) -> Response:
    return shown(request, visitor(request), "missing.html", 404)


def _connect(request: Request) -> dict[str, Any]:
    """How a client connects, at the address that this page has."""
    service, https = service_of(request), _is_https(request)
    mode = service.settings.enrol.mode
    origin = f"{'https' if https else request.url.scheme}://{request.headers.get('host', '127.0.0.1')}"
    return {"mode": mode, "connect": site_of(request).connect(origin, mode)}


def _is_https(request: Request) -> bool:
    """Whether the browser speaks TLS, to us or to a proxy. A false claim harms only its own cookie."""
    forwarded_as = request.headers.get("x-forwarded-proto", "") or request.headers.get("forwarded", "").lower()
    return request.url.scheme == "https" or forwarded_as == "https" or "proto=https" in forwarded_as


def _flashed(request: Request, path: str, flash: str, task: BackgroundTask | None = None) -> Response:
    """Go there, and say so."""
    answer = RedirectResponse(path, 303, background=task)
    answer.set_cookie(FLASH, flash, 60, path="/", secure=_is_https(request), httponly=True, samesite="strict")
    return answer
