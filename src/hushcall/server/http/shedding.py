"""An upload that cannot be taken is refused while it is a few hundred bytes and nothing else: no request is made of it.

Through the framework a refusal costs as much as an upload, so at twice of what it takes a server would refuse for half
of its time. Here it costs a third. Only what is an upload to the letter, whole and alone in what has arrived, is
refused here; whatever else comes goes its usual way and is told the same in the end (``GroupCommit.refuse_if_full``).
"""

from __future__ import annotations

import re
import time
from functools import cache
from typing import Any

from hushcall.server import metrics
from hushcall.server.http.fast_path import ANNOUNCEMENTS, METHOD, PATH, REPORTS
from hushcall.server.http.middleware import HEADERS
from hushcall.server.intake.group_commit import GroupCommit
from hushcall.server.logs import log
from hushcall.server.problems import Problem

_LINE = re.compile(rb"(?P<method>PUT|POST) %b HTTP/1\.1\r\n" % PATH.pattern.encode())
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]{1,9})\r\n")
_FIELDS = re.compile(rb"\r\n(?:[!#$%&'*+.^_`|~0-9a-z-]+:[\t -~]*\r\n)+")
_ODD = re.compile(rb"\r\n(?:transfer-encoding|expect|upgrade|connection(?!: *keep-alive\r\n))")
"""What makes a message longer than it says, or ends its connection. The framework knows what to do about it."""
_END = b"\r\n\r\n"


class Shedding:
    """Refuses for one process, and counts whom it refused; ``state`` is told when somebody came."""

    def __init__(self, commits: GroupCommit, max_body: int, state: Any, access_log: bool = False) -> None:
        self.commits, self.max_body, self.state, self.access_log = commits, max_body, state, access_log
        self._counted = {put: _counters(route) for put, route in ((True, REPORTS), (False, ANNOUNCEMENTS))}

    def refusal(self, data: bytes) -> bytes | None:
        """The answer to what has arrived between two requests, where it is an upload and no more are taken."""
        if not self.commits.crowded or (is_put := whole_upload(data, self.max_body)) is None:
            return None
        self.state.last_upload = time.monotonic()
        for counter in self._counted[is_put]:
            counter.inc()
        if self.access_log:
            route = REPORTS if is_put else ANNOUNCEMENTS
            log("request", method=METHOD[is_put], route=route, status=503)
        return _answer(self.commits.turnstile.busy().retry_after or 1)

    def no_room(self) -> bytes:
        """The answer to whoever comes when there are as many connections as there may be; it is the last on its own."""
        _REFUSED.inc()
        return _answer(self.commits.turnstile.busy().retry_after or 1, b"connection: close\r\n")


def whole_upload(data: bytes, most: int) -> bool | None:
    """Whether this is one whole upload and nothing else: True a report, False an announcement, None neither."""
    line, end = _LINE.match(data), data.find(_END)
    if line is None or end < 0:
        return None
    is_put = line[3] is not None  # it names a ticket
    if line["method"].decode() != METHOD[is_put]:
        return None
    head = data[line.end() - 2 : end + 2].lower()
    lengths = _LENGTH.findall(head)
    if len(lengths) != 1 or head.count(b"content-length") != 1 or _ODD.search(head) or not _FIELDS.fullmatch(head):
        return None
    length = int(lengths[0])
    return is_put if length <= most and len(data) == end + len(_END) + length else None


_REFUSED = metrics.REFUSED.labels("busy")


def _counters(route: str) -> tuple[Any, Any]:
    return _REFUSED, metrics.REQUESTS.labels(route, 503)


@cache
def _answer(retry_after: int, more: bytes = b"") -> bytes:
    """What the framework would answer to such a problem, but for the date; there are 300 times to come back at most."""
    problem = Problem("busy", retry_after=retry_after)
    body = problem.body()
    fields = [(key.encode(), value.encode()) for key, value in problem.headers().items()]
    fields += [(b"content-length", str(len(body)).encode()), *HEADERS]
    head = b"".join(b"%b: %b\r\n" % field for field in fields)
    return b"HTTP/1.1 503 Service Unavailable\r\n" + head + more + b"\r\n" + body
