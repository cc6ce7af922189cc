"""The program behind ``hushcall home``: fetches calls, reports, syncs and writes the list to places that block.

Each part has a next moment and a state in the store, so a restart goes on where it stopped. The list is synced at a
random moment of its own: a sync after every report would tell a server which anonymous report is whose.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import Empty, Queue

from hushcall.client.calls import candidates
from hushcall.client.calls.ingest import stamp, zone_of_logs
from hushcall.client.client import Client
from hushcall.client.screening import subscriptions
from hushcall.client.screening.agi import tell_systemd
from hushcall.client.screening.lookup import LIST_FILE
from hushcall.client.screening.screen import Screen
from hushcall.client.storage.folder import HOME_FILE
from hushcall.client.storage.personal import Action
from hushcall.client.storage.store import DAY_SECONDS
from hushcall.errors import HushcallError, InvalidParameter, Refused
from hushcall.protocol.randomness import WORD_BYTES, read, uniform, words
from hushcall.wording import counted
from hushcall_home import history
from hushcall_home.config import Config, Page
from hushcall_home.parts import MAX_RETRY_SECONDS, RETRY_SECONDS, RINGING, Part, Place, Source, Trouble

FETCH_SECONDS = 900
LOOK_SECONDS = 60
"""The longest sleep. A change of the configuration or of the owner's list is noticed within it."""
HOUR_SECONDS = 3600
PAGE, REPORT, SYNC, OTHERS = "page", "report", "sync", "other lists"
"""Names of parts, beside those of the sources and places."""


@dataclass(frozen=True)
class _Done:
    words: str
    next: int
    memory: str = ""


_Step = Callable[[Part], _Done | None]
Serve = Callable[[Path, Page, Callable[[], None]], Callable[[], None]]
"""Serves the owner's page, and calls its last argument when the owner changed something. Returns what ends it."""


class Daemon:
    """Runs the parts of one household's folder. ``say`` gets a line for the log, never with a phone number."""

    def __init__(self, client: Client, say: Callable[[str], None] = lambda _: None, serve: Serve | None = None) -> None:
        if client.store.folder is None:
            raise InvalidParameter("home", "be in a folder", "a store in memory")
        self.client, self.store, self.folder, self._say = client, client.store, client.store.folder, say
        self.events: Queue[str | None] = Queue()
        """Numbers that ring. None wakes the loop: a call has ended, or the owner changed something."""
        self._screen = Screen(self.store, client.plan)
        self._sources: list[Source] = []
        self._places: list[Place] = []
        self._config_stamp: tuple[int, ...] | None = None
        self._parts: dict[str, Part] = {}
        self._wanted: tuple[object, list[str]] = ((), [])
        self._serve, self._page = serve, Page(listen="")
        self._end_page: Callable[[], None] | None = None
        self._stopped = False
        self._open_config(Config.load(self.folder))

    def close(self) -> None:
        for source in self._sources:
            source.close()
        self._close_page()
        self.client.close()

    def stop(self) -> None:
        """End :meth:`run` after the step under way. May be called by a signal handler or another thread."""
        self._stopped = True
        self.events.put(None)

    def run(self, wait: Callable[[float], None] | None = None) -> None:
        """Run until stopped. ``wait`` is given the seconds to the next step."""
        tell_systemd("READY=1")
        while not self._stopped:
            tell_systemd("WATCHDOG=1")
            pause = min(max(self.run_due() - self.client.clock(), 0), LOOK_SECONDS)
            (wait or self._wait)(pause)

    def run_due(self) -> int:
        """Run every part that is due. Returns when the next one is."""
        self._reload()
        for name, step in self._steps():
            self._run_part(name, step)
        return min(self._part(name).next for name, _ in self._steps())

    def _wait(self, seconds: float) -> None:
        try:
            self._handle(self.events.get(timeout=seconds))
        except Empty:
            return

    def _handle(self, number: str | None) -> None:
        """A caller that rings, or the end of a call: the call list has it now."""
        now = int(self.client.clock())
        if number is None:
            for source in self._sources:
                part = self._part(source.name)
                if not part.failures:
                    self._parts[source.name] = replace(part, next=min(part.next, now))
            return
        verdict = self._screen.verdict(number, now)
        if verdict.action is not Action.ALLOW:
            self._say(f"a listed caller rings ({verdict.action.value}): {verdict.why}")
        memory = json.dumps({"number": number, "action": verdict.action.value, "why": verdict.why})
        self._save(Part(RINGING, words=verdict.why, done=now, tried=now, memory=memory))

    def _steps(self) -> Iterator[tuple[str, _Step]]:
        if self._serve and self._page.listen:
            yield PAGE, partial(self._open_page, self._serve)
        for source in self._sources:
            yield source.name, partial(self._fetch, source)
        yield REPORT, self._report
        yield SYNC, self._sync
        if self.client.relayed and subscriptions.in_order(self.store)[1:]:
            yield OTHERS, self._sync_others
        for place in self._places:
            yield place.name, partial(self._write, place)

    def _run_part(self, name: str, step: _Step) -> None:
        part, now = self._part(name), int(self.client.clock())
        if now < part.next:
            return
        try:
            done = step(part)
            if done is None:
                self._parts[name] = replace(part, next=now + LOOK_SECONDS)
                return
            after = Part(name, True, done.words, "", now, now, 0, done.next, done.memory)
            after.save(self.store)
        except Exception as error:  # a program that runs for years must survive what nobody thought of
            self._failed(part, now, error)
        else:
            if part.failures:
                self._say(f"{name} works again")
            self._parts[name] = after

    def _failed(self, part: Part, now: int, error: Exception) -> None:
        failures = part.failures + 1
        text, todo, wait = str(error), str(getattr(error, "todo", "")), RETRY_SECONDS
        if isinstance(error, Trouble):
            text, wait = error.words, error.wait
        elif not isinstance(error, HushcallError):
            text = f"an error of this program ({type(error).__name__}: {error})"
        wait = max(wait, min(MAX_RETRY_SECONDS, RETRY_SECONDS << min(part.failures, 10)))
        if part.name == SYNC:  # at a moment that no report has
            wait = HOUR_SECONDS + self._drawn(HOUR_SECONDS)
        if text != part.words:
            self._say(f"{part.name}: {text}")
        self._save(replace(part, ok=False, words=text, todo=todo, tried=now, failures=failures, next=now + wait))

    def _save(self, part: Part) -> None:
        """Keep a part's state, in memory only while the store cannot be written."""
        self._parts[part.name] = part
        try:
            part.save(self.store)
        except HushcallError as error:
            if part.failures <= 1:
                self._say(str(error))

    def _part(self, name: str) -> Part:
        if name not in self._parts:
            self._parts[name] = Part.load(self.store, name)
        return self._parts[name]

    def _reload(self) -> None:
        if stamp(self.folder / HOME_FILE) == self._config_stamp:
            return
        try:
            self._open_config(Config.load(self.folder))
        except HushcallError as error:
            self._config_stamp = stamp(self.folder / HOME_FILE)
            self._say(f"the old settings stay in use: {error}")

    def _open_config(self, settings: Config) -> None:
        """Takes these settings. Sources, places and the page are due at once. Report and sync keep their moments."""
        sources, places = settings.opened(zone_of_logs(self.store))
        for source in self._sources:
            source.close()
        self._sources, self._places = sources, places
        if settings.page != self._page:
            self._close_page()
            self._page = settings.page
        self._config_stamp = stamp(self.folder / HOME_FILE)
        names = {name for name, _ in self._steps()}
        for part in Part.all(self.store):
            if part.name not in {*names, RINGING}:
                self.store.run("DELETE FROM parts WHERE name = ?", part.name)
            elif part.name not in (REPORT, SYNC, OTHERS):
                done = 0 if part.name in {place.name for place in self._places} else part.done
                self._parts[part.name] = replace(part, next=0, done=done)

    def _open_page(self, serve: Serve, _: Part) -> _Done:
        address = f"http://{self._page.listen}/"
        if self._end_page is None:
            self._end_page = serve(self.folder, self._page, lambda: self.events.put(None))
            self._say(f"the owner's page is at {address}")
        return _Done(f"at {address}", int(self.client.clock()) + HOUR_SECONDS)

    def _close_page(self) -> None:
        if self._end_page is not None:
            self._end_page()
            self._end_page = None

    def _fetch(self, source: Source, part: Part) -> _Done:
        """Contacts first: a caller who was saved meanwhile is no candidate. The same calls may come twice."""
        contacts, fetched = list(source.contacts()), source.calls(part.memory)
        source.listen(self.events.put)
        now = int(self.client.clock())
        with self.store.transaction():
            candidates.add_contacts(self.store, contacts, self.client.plan)
            self._screen.refresh()
            history.record(self.store, self._screen, source.name, fetched, now)
        unread = f" {counted(fetched.malformed, 'entry')} could not be read." if fetched.malformed else ""
        text = f"{counted(len(fetched.calls), 'new call')}; {counted(len(contacts), 'contact')}.{unread}"
        return _Done(f"{text} {fetched.words}".strip(), now + FETCH_SECONDS, fetched.position)

    def _report(self, _: Part) -> _Done:
        with self.client.alone():
            outcome = self.client.report()
        return _Done(outcome.words, outcome.next_at or int(self.client.clock()) + FETCH_SECONDS)

    def _sync(self, part: Part) -> _Done:
        """At its own moment. A missed one (the machine was off) is drawn again: reports are then sent at once."""
        from hushcall.client.screening.list_sync import NO_LIST

        now = int(self.client.clock())
        if not part.next or now - part.next > FETCH_SECONDS:
            has_list = (self.store.lists / LIST_FILE).exists()
            late = HOUR_SECONDS + self._drawn(6 * HOUR_SECONDS) if has_list else LOOK_SECONDS + self._drawn(1800)
            return _Done(part.words or "The list was not fetched yet.", now + late)
        try:
            with self.client.alone():
                others = [] if self.client.relayed else self.client.sync_others()
                result = self.client.sync()
            text = f"Version {result.version}: {counted(result.entries, 'number')}."
        except Refused as refusal:
            if refusal.problem != NO_LIST:
                raise
            text = "The server has no list yet."
        text = " ".join([text, *(f"{row.name}: {error}." for row, error in others if isinstance(error, HushcallError))])
        tomorrow = now - now % DAY_SECONDS + DAY_SECONDS
        latest = now + 34 * HOUR_SECONDS  # signatures hold for 36 hours at least, and without them nothing is reported
        return _Done(text, min(tomorrow + self._drawn(DAY_SECONDS), latest))

    def _sync_others(self, _: Part) -> _Done:
        """With a relay, each list of another server at its own moment, one a run."""
        with self.client.alone():
            results = self.client.sync_others()
        words = [f"{row.name}: {result}." for row, result in results if isinstance(result, HushcallError)]
        return _Done(" ".join(words) or "Done.", int(self.client.clock()) + FETCH_SECONDS)

    def _write(self, place: Place, part: Part) -> _Done | None:
        """Write where something changed, and once a day in any case: the place may have been reset."""
        now, numbers = int(self.client.clock()), self._blocked_numbers()
        digest = hashlib.sha256("\n".join(numbers).encode()).hexdigest()
        if part.ok and digest == part.memory and now < part.done + DAY_SECONDS:
            return None
        return _Done(place.write(numbers), now + LOOK_SECONDS, digest)

    def _blocked_numbers(self) -> list[str]:
        self._screen.refresh()
        now = int(self.client.clock())
        if self._wanted[0] != (current := self._screen.stamp(now)):
            self._wanted = current, self._screen.blocked(now)
        return self._wanted[1]

    def _drawn(self, seconds: int) -> int:
        (word,) = words(read(self.client.rand, WORD_BYTES))
        return uniform(word, seconds)
