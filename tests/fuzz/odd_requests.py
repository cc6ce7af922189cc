"""Requests that announce or report, right, wrong and odd ones, drawn from dice: what the fast path is fuzzed with."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

MAX_BODY = 300
"""Bytes that the servers of the fuzz take: few, so that some requests have more."""
AREAS = (202, 303)


@dataclass(frozen=True)
class Asked:
    """A request as ASGI has it; ``pieces`` are the messages of its body, None is a client that hangs up."""

    method: str
    path: str
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    pieces: tuple[bytes | None, ...]


@dataclass
class Phone:
    """What a slot knows about one of its two phones."""

    token: str
    tickets: list[str] = field(default_factory=list)
    reports: list[bytes] = field(default_factory=list)


def number_of(dice: random.Random, newest_round: int) -> str:
    """How a round is named in an address."""
    plain = str(max(newest_round, 1))
    if dice.random() < 0.85:
        return plain
    odd = ("0", "01", "-1", "+1", "1.0", "1e0", "", "x", " 1", "1 ", "\u0661", "\uff11", "1_0", "0x1", "true", "1\n")
    far = ("2", "7", "999999999", "1000000000", "2147483648", "2147483649", "9" * 30, plain + "0", "00" + plain)
    return dice.choice(odd + far)


def ticket_in(dice: random.Random, phone: Phone, other: Phone) -> str:
    """A ticket: mostly the phone's own, as it was or in another notation."""
    own = phone.tickets[-1] if phone.tickets else "0f" * 16
    chance = dice.random()
    if chance < 0.7:
        return own
    if chance < 0.8:
        return dice.choice((own.upper(), own.capitalize(), own.swapcase()))
    odd = (
        *(dice.choice(other.tickets or ["00" * 16]), (phone.tickets or ["aa" * 16])[0], "00" * 16, own[:-1], own + "0"),
        *(
            own[:-1] + "g",
            own + "/",
            own[:-1] + "\uff10",
            own[:16],
            "",
            "%" + own[1:],
            own + "\n",
            " " + own,
            own + own,
        ),
        dice.randbytes(16).hex(),
    )
    return dice.choice(odd)


def authorization_of(dice: random.Random, phone: Phone) -> list[tuple[bytes, bytes]]:
    """The header that names the caller: right, odd, wrong, twice or not at all."""
    name, good = b"authorization", f"Bearer {phone.token}".encode()
    if dice.random() < 0.8:
        return [(name, good)]
    token = phone.token.encode()
    odd = (
        *(b"bearer " + token, b"BEARER " + token, b"Bearer  " + token, b"Bearer\t" + token, b" Bearer " + token),
        *(
            good + b" ",
            token,
            b"Bearer",
            b"Bearer ",
            b"",
            b"Basic " + token,
            b"Bearer " + token[:-1],
            b"Bearer \xff\xfe",
        ),
        *(b"Bearer " + b"x" * 201, b"Bearer " + token.upper(), good + b"," + good, b"Bearer " + dice.randbytes(8)),
        *(b"PrivateToken token=AAAA", b'privatetoken token="AAAA="', b"PrivateToken " + token, b"PrivateToken"),
        *(b"PrivateToken token=" + b"A" * 472, b"PrivateToken token=\xe9\xe9", b"DPoP " + token),
    )
    chosen = dice.choice(odd)
    several: tuple[list[tuple[bytes, bytes]], ...] = (
        *([], [(name, chosen)], [(name, chosen)], [(name, chosen)], [(name, good), (name, chosen)]),
        *([(name, chosen), (name, good)], [(b"Authorization", good)], [(b"x-authorization", good)]),
    )
    return dice.choice(several)


def announcement_body(dice: random.Random, bucket: int) -> bytes:
    """Which bucket: mostly the phone's own."""
    if dice.random() < 0.75:
        return json.dumps({"bucket": bucket}).encode()
    plain = (
        *(b"", b"{", b"[]", b"null", b"7", b'"bucket"', b"{}", b'{"bucket"}', b"\xff\xfe", b"NaN", b"[" * 290, b"\0"),
        *(b'{"bucket": 202, "bucket": 303}', b'\xef\xbb\xbf{"bucket": 202}', b'{"bucket": 202}x', b'{"Bucket": 202}'),
        '{"bucket": 202}'.encode("utf-16"),
    )
    values = ("-1", "0", "999", "1000", "1e2", "202.0", "true", "null", '"202"', "[202]", "9" * 250, "-0", "NaN", "007")
    odd = (*plain, *(b'{"bucket": %s}' % value.encode() for value in values))
    return damaged(dice, json.dumps({"bucket": bucket}).encode()) if dice.random() < 0.2 else dice.choice(odd)


def report_body(dice: random.Random, phone: Phone) -> bytes:
    """A report: mostly the phone's own."""
    own = phone.reports[-1] if phone.reports else dice.randbytes(4)
    if dice.random() < 0.6:
        return own
    odd = (b"", own[:-1], own + b"\0", own[::-1], bytes(len(own)), b"\xff" * len(own), dice.randbytes(len(own)))
    return damaged(dice, own) if dice.random() < 0.3 else dice.choice(odd)


def damaged(dice: random.Random, data: bytes) -> bytes:
    """One byte of it is another."""
    if not data:
        return data
    at = dice.randrange(len(data))
    return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]


def pieces_of(dice: random.Random, body: bytes) -> tuple[bytes | None, ...]:
    """The body as it arrives: mostly at once."""
    chance = dice.random()
    if chance < 0.85:
        return (body,)
    cuts = sorted(dice.randint(0, len(body)) for _ in range(dice.randint(1, 3)))
    parts = tuple(body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True))
    if chance < 0.95:
        return parts
    return (*parts[: dice.randint(0, len(parts) - 1)], None)


def headers_of(dice: random.Random, body: bytes) -> list[tuple[bytes, bytes]]:
    """Lengths, types and what else comes along; not always what is true."""
    length, true = b"content-length", str(len(body)).encode()
    lies = (b"0", b"-1", b"+5", b"99999", b"1" * 20, b"", b"x", b"3, 3", b" 4", "\u0664".encode(), b"301", b"300")
    headers = [(length, true if dice.random() < 0.9 else dice.choice(lies))] if dice.random() < 0.9 else []
    if dice.random() < 0.03:
        headers.append((length, dice.choice(lies)))
    if dice.random() < 0.7:
        media = (b"application/json", b"application/octet-stream", b"text/plain", b"", b"\xff", b"multipart/form-data")
        headers.append(
            (b"content-type", dice.choice((*media, b"application/json; charset=utf-16", b"a/b; boundary=x")))
        )
    if dice.random() < 0.15:
        more = (
            *((b"accept", b"text/html"), (b"accept", b"\xff"), (b"expect", b"100-continue"), (b"host", b"a.example")),
            *((b"transfer-encoding", b"chunked"), (b"content-encoding", b"gzip"), (b"range", b"bytes=0-1")),
            *((b"if-none-match", b"*"), (b"x-forwarded-for", b"1.2.3.4"), (b"x-http-method-override", b"GET")),
            *((b"origin", b"http://elsewhere.example"), (b"upgrade", b"websocket"), (b"", b""), (b"cookie", b"a=\xe9")),
        )
        headers.append(dice.choice(more))
    return headers


def asked(dice: random.Random, newest_round: int, phones: tuple[Phone, Phone], reports: float) -> Asked:
    """One request of a slot; ``reports`` is the share of reports among them."""
    phone, other = phones if dice.random() < 0.8 else phones[::-1]
    number, bucket = number_of(dice, newest_round), dice.choice(AREAS) if dice.random() < 0.05 else AREAS[0]
    if dice.random() < reports:
        method, path, body = "PUT", f"reports/{ticket_in(dice, phone, other)}", report_body(dice, phone)
    else:
        method, path, body = "POST", "announcements", announcement_body(dice, bucket)
    if dice.random() < 0.04:
        method = dice.choice(
            ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "put", "post", "PROPFIND", "")
        )
    path = f"/v1/rounds/{number}/{path}"
    if dice.random() < 0.03:
        odd = (
            path + "/",
            path + "\n",
            path.upper(),
            "/" + path,
            path.replace("v1", "v2"),
            path + "/x",
            path[1:],
            path + " ",
        )
        path = dice.choice(
            (*odd, path.replace("rounds", "rounds/"), path + ";a=1", path.replace("/", "//"), "/v1/rounds")
        )
    if dice.random() < 0.03:
        body += b"x" * dice.choice((MAX_BODY - len(body), MAX_BODY + 1 - len(body), 2 * MAX_BODY))
    query = dice.choice((b"", b"a=1", b"number=7", b"ticket=00", b"%ff", b"?")) if dice.random() < 0.05 else b""
    headers = [*authorization_of(dice, phone), *headers_of(dice, body)]
    dice.shuffle(headers)
    return Asked(method, path, query, tuple(headers), pieces_of(dice, body))
