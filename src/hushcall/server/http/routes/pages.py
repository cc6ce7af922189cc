"""The pages: what anybody may see, what an operator sees with a session, and the forms that act.

Public: the list and its search, the round's phase, the privacy budget, health in words, ``/owner``, ``/docs``. All the
rest asks for a session. No page needs script; where there is some, it fetches parts of the same pages.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from starlette.background import BackgroundTask
from starlette.responses import RedirectResponse, Response

from hushcall.formats.blocklists import WRITERS
from hushcall.protocol.problems import PROBLEMS
from hushcall.server.access.sessions import COOKIE, HOURS, Session, from_here, safe_path
from hushcall.server.http.rate_limit import RateLimit
from hushcall.server.http.rendered import answer
from hushcall.server.http.requests import RoundId, parsed_number, service_of
from hushcall.server.http.routes.phones import forwarded
from hushcall.server.pages import access, charts, findings
from hushcall.server.pages.actions import ACTIONS, FLASHES, checked, perform
from hushcall.server.pages.api import groups
from hushcall.server.pages.health import settings_in_force
from hushcall.server.pages.listed import Slice, search
from hushcall.server.pages.planner import MECHANISMS, Plan, plan
from hushcall.server.pages.rendering import HTML, Served, render, static_files
from hushcall.server.pages.site import Site
from hushcall.server.problems import Problem
from hushcall.server.publishing import appeals
from hushcall.server.rounds.round_status import one_round

router = APIRouter(include_in_schema=False)
FLASH = "hushcall_flash"
LOGINS = 10
"""Failed attempts to log in that one address may make in a minute."""
_LONGEST = 8192
Page = Annotated[int, Query(ge=1, le=1_000_000)]
Text = Annotated[str, Query(max_length=100)]


def site_of(request: Request) -> Site:
    """What this process keeps for its pages; made when the first page is asked for."""
    state = request.app.state
    if not hasattr(state, "site"):
        state.logins = RateLimit(LOGINS)
        made = Site(service_of(request))
        made.values["docs.html"] = lambda: docs_values(request.app)
        state.site = made  # last: it says that all is there
    site: Site = state.site
    return site


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form."""
    body = await request.body()
    if len(body) > _LONGEST:
        raise Problem("oversized", f"A form may have {_LONGEST} bytes.")
    if b"\0" in body or b"%00" in body:  # PostgreSQL keeps no NUL in a text
        raise Problem("bad-request", "A form may hold no NUL.")
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20))
    except ValueError:
        raise Problem("bad-request", "A form may have 20 fields.") from None


Form = Annotated[dict[str, str], Depends(read_form)]


def visitor(request: Request) -> Session | None:
    """Who looks, if it is an operator."""
    return site_of(request).sessions.read(request.cookies.get(COOKIE, ""), service_of(request).now)


def shown(request: Request, session: Session | None, template: str, status: int = 200, **values: Any) -> Response:
    """A whole page, for this visitor only: nobody on the way may keep it."""
    flash = FLASHES.get(request.cookies.get(FLASH, ""), "")
    common = {"session": session, "flash": flash, "path": request.url.path, "now": service_of(request).now}
    answer = Response(render(template, **common, **values), status, media_type=HTML)
    answer.headers["cache-control"] = "no-store"
    if flash:
        answer.delete_cookie(FLASH, path="/")
    return answer


def public_page(request: Request, name: str) -> Response | None:
    """A page as everybody sees it, rendered once for all; None for who has a session, or is to be told something.

    A browser asks each time whether it has changed: what an operator sees at the same address is another page.
    """
    if COOKIE in request.cookies or FLASH in request.cookies:
        return None
    return answer(request, site_of(request).pages[name].get(), "no-cache", vary="cookie")


def docs_values(app: FastAPI) -> dict[str, Any]:
    """What the page about the API shows."""
    return {"groups": groups(app.openapi()), "problems": PROBLEMS.values()}


def to_login(request: Request) -> Response:
    """Where a page that needs a session sends those without one."""
    return RedirectResponse(f"/login?next={quote(safe_path(request.url.path), safe='/+')}", 303)


def part(request: Request, made: Served) -> Response:
    """A part of a page, or 304 where the script has it already."""
    return answer(request, made, "private, no-cache", vary="cookie")


@router.get("/static/{name}")
async def static(request: Request, name: str) -> Response:
    """A style sheet, a script, the icon."""
    file = static_files().get(name)
    if file is None:
        raise Problem("not-found")
    return answer(request, file, "public, no-cache")


@router.get("/owner")
def owner(request: Request) -> Response:
    """What leaves a phone, for its owner."""
    return answer(request, site_of(request).pages["owner.html"].get(), "no-cache")


@router.get("/docs")
def docs(request: Request) -> Response:
    """The API in words, drawn from OpenAPI here: no script from elsewhere."""
    return public_page(request, "docs.html") or shown(
        request, visitor(request), "docs.html", **site_of(request).values["docs.html"]()
    )


@router.get("/")
def home(request: Request) -> Response:
    """The overview: a little for everybody, everything for an operator."""
    if answer := public_page(request, "welcome.html"):
        return answer
    site, session = site_of(request), visitor(request)
    if session is None:
        return shown(request, None, "welcome.html", **site.welcome_values())
    values: dict[str, Any] = {"budget": site.budget(), "live": site.live(operator=True).data.decode()}
    decided = site.decided().data.decode()
    values |= {"connect": None} if site.overview.get().devices else _connect(request)
    return shown(request, session, "overview.html", decided=decided, crowds=site.crowds(), **values)


@router.get("/live")
def live(request: Request) -> Response:
    """The part of the overview that changes all the time."""
    return part(request, site_of(request).live(operator=visitor(request) is not None))


@router.get("/live/decided")
def live_decided(request: Request) -> Response:
    """The part that changes once a round."""
    if visitor(request) is None:
        raise Problem("unknown-token", "This part is for operators: log in at /login.")
    return part(request, site_of(request).decided())


@router.get("/list")
def published_list(request: Request, q: Text = "", page: Page = 1) -> Response:
    """Search the published list by digits, without a token."""
    newest = site_of(request).lists.newest()
    result = search(newest, q, page) if newest else None
    return shown(request, visitor(request), "list.html", list=newest, search=result, asked=q, exports=WRITERS.values())


@router.get("/numbers")
def find_number(request: Request, number: Text = "") -> Response:
    """The form that leads to a number's page."""
    if visitor(request) is None:
        return to_login(request)
    return RedirectResponse(f"/numbers/{quote(number.strip() or '-', safe='+')}", 303)


@router.get("/numbers/{number}")
def number_page(request: Request, number: str) -> Response:
    """The history of a number, and what can be done about it."""
    site, session = site_of(request), visitor(request)
    if session is None:
        return to_login(request)
    try:
        text = parsed_number(request, number[:40])
    except Problem as problem:
        return _refused(request, session, problem)
    told = findings.story(site.service, site.lists.newest(), text)
    bars = charts.sightings([(one.estimate, one.low, one.high) for one in told.seen])
    return shown(request, session, "number.html", story=told, bars=bars)


@router.get("/rounds/{number}")
def round_page(request: Request, round_id: RoundId, page: Page = 1) -> Response:
    """One round: what it found, its buckets, and what can be done about it."""
    site, session = site_of(request), visitor(request)
    if session is None:
        return to_login(request)
    store, newest = site.service.store, site.service.rounds.newest()
    seen = one_round(store, round_id)
    if seen is None or newest is None:
        return _refused(request, session, Problem("unknown-round"))
    _, buckets = findings.buckets(store, round_id)
    return shown(
        request,
        session,
        "round.html",
        round=seen,
        newest=newest.id,
        oldest=findings.oldest_round(store),
        bucket_round=round_id,
        buckets=buckets,
        map=charts.heat_map(buckets),
        found=findings.hitters(site.service, site.lists.newest(), round_id, page, 50),
        paged=True,
    )


@router.get("/appeals")
def appeals_page(request: Request, page: Page = 1, allowed: Page = 1) -> Response:
    """The log of appeals and the allowlist, each by the page."""
    session, store = visitor(request), service_of(request).store
    if session is None:
        return to_login(request)
    log, kept = Slice.of(appeals.appeals(store), page), Slice.of(appeals.allowlist(store), allowed)
    return shown(request, session, "appeals.html", log=log, allowed=kept)


@router.get("/access")
def access_page(request: Request, page: Page = 1) -> Response:
    """Devices, invite codes, operators' tokens, and how a phone connects."""
    session = visitor(request)
    if session is None:
        return to_login(request)
    return shown(request, session, "access.html", **_connect(request), **access.values(service_of(request), page))


@router.get("/log")
def log_page(request: Request, page: Page = 1) -> Response:
    """What operators did."""
    session = visitor(request)
    if session is None:
        return to_login(request)
    return shown(request, session, "log.html", log=Slice.of(service_of(request).audit.entries(), page))


@router.get("/system")
def system_page(request: Request) -> Response:
    """Signatures, storage, versions, settings in words."""
    site, session = site_of(request), visitor(request)
    if session is None:
        return to_login(request)
    site.health.forget()
    settings = site.service.settings
    values: dict[str, Any] = {"health": site.health.get(), "machine": site.machine.get(), "settings": settings}
    values["in_force"] = settings_in_force(settings)
    return shown(request, session, "system.html", devices=site.overview.get().devices, **values)


@router.get("/plan")
def plan_page(request: Request) -> Response:
    """What other figures would buy."""
    session = visitor(request)
    if session is None:
        return to_login(request)
    return shown(request, session, "plan.html", plan=_plan(request), mechanisms=MECHANISMS)


@router.get("/plan/answer")
def plan_answer(request: Request) -> Response:
    """Its table alone, for the script."""
    if visitor(request) is None:
        raise Problem("unknown-token", "This part is for operators: log in at /login.")
    return Response(render("parts/plan.html", plan=_plan(request)), media_type=HTML)


def _plan(request: Request) -> Plan:
    form = {key: value[:40] for key, value in request.query_params.items()}
    return plan(form, site_of(request).budget().profile, service_of(request).plan)


@router.get("/login")
def login_page(request: Request, next: Text = "/") -> Response:  # noqa: A002
    """The form; whoever is signed in already is sent on."""
    session = visitor(request)
    if session is not None:
        return RedirectResponse(safe_path(next), 303)
    return shown(request, None, "login.html", next=safe_path(next), error="")


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
            request.app.state.logins.check((request.client.host if request.client else "").encode())
            raise
        cookie = site.sessions.open(admin, service.now, service.coins)
    except Problem as problem:
        words = "No operator has this token." if problem.name == "unknown-token" else f"{problem.kind.title}."
        if problem.name in ("forbidden", "too-many"):
            words = f"{words} {problem.detail if problem.name == 'forbidden' else problem.kind.todo}"
        answer = shown(request, None, "login.html", problem.kind.status, next=target, error=words)
        if problem.retry_after is not None:
            answer.headers["retry-after"] = str(problem.retry_after)
        return answer
    answer = _flashed(request, target, "in")
    answer.set_cookie(
        COOKIE, cookie, HOURS * 3600, path="/", secure=_is_https(request), httponly=True, samesite="strict"
    )
    return answer


@router.post("/logout")
def logout(request: Request, form: Form) -> Response:
    """End the session, wherever its cookie is."""
    session = visitor(request)
    if session is not None and (refusal := _forged(request, session, form)):
        return refusal
    site_of(request).sessions.end(request.cookies.get(COOKIE, ""), service_of(request).now)
    answer = _flashed(request, "/", "out")
    answer.delete_cookie(COOKIE, path="/")
    return answer


@router.post("/actions/{name}")
def act(request: Request, name: str, form: Form) -> Response:
    """Ask first; do it when the answer comes back confirmed."""
    site, session = site_of(request), visitor(request)
    if session is None:
        return _refused(request, None, Problem("unknown-token", "Log in first, then send the form again."))
    if refusal := _forged(request, session, form):
        return refusal
    try:
        action = ACTIONS.get(name) or access.ACTIONS.get(name)
        if action is None:
            raise Problem("not-found")
        asked = checked(action, form, session.admin, service_of(request).plan)
        back = safe_path(form.get("back", "/"))
        if form.get("confirmed") != "yes":
            fields = {field: form[field] for field in action.fields if field in form}
            if seen := action.seen(site.service):
                fields["seen"] = seen
            question = action.question(site.service, asked)
            return shown(request, session, "confirm.html", action=action, question=question, fields=fields, back=back)
        done = perform(action, site.service, asked)
    except Problem as problem:
        return _refused(request, session, problem)
    site.forget()
    if done.made:
        return shown(request, session, "made.html", action=action, made=done.made, back=done.path)
    return _flashed(request, done.path, done.flash, BackgroundTask(done.later) if done.later else None)


def _forged(request: Request, session: Session, form: dict[str, str]) -> Response | None:
    """A refusal, where a form did not come from a page of this session."""
    if from_here(request.headers) and session.owns(form.get("csrf", "")):
        return None
    return _refused(request, session, Problem("forbidden", "This form did not come from a page of your session."))


def _refused(request: Request, session: Session | None, problem: Problem) -> Response:
    """A problem as a page."""
    return shown(request, session, "refused.html", problem.kind.status, problem=problem)


def missing(request: Request) -> Response:
    """The page for an address that names nothing, for whoever asks for pages."""
    return shown(request, visitor(request), "missing.html", 404)


def _connect(request: Request) -> dict[str, Any]:
    """How a phone connects that comes the same way as this operator: the address is the one that this page has."""
    service, https = service_of(request), _is_https(request)
    mode = service.enrolments.mode(public=service.enrolments.is_public(forwarded(request)))
    origin = f"{'https' if https else request.url.scheme}://{request.headers.get('host', '127.0.0.1')}"
    return {"mode": mode, "connect": access.connect(service, origin, mode)}


def _is_https(request: Request) -> bool:
    """Whether the browser speaks TLS, to us or to a proxy: who lies about it harms nobody's cookie but their own."""
    said = request.headers.get("x-forwarded-proto", "") or request.headers.get("forwarded", "").lower()
    return request.url.scheme == "https" or said == "https" or "proto=https" in said


def _flashed(request: Request, path: str, flash: str, task: BackgroundTask | None = None) -> Response:
    """Go there, and say so."""
    answer = RedirectResponse(path, 303, background=task)
    answer.set_cookie(FLASH, flash, 60, path="/", secure=_is_https(request), httponly=True, samesite="strict")
    return answer
