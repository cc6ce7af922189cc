"""Binary HTTP (RFC 9292): a request or a response as one string of bytes.

Written with known lengths, read in both framings. Zero bytes after a message are padding, so that all sealed messages
of a kind have one length.

>>> Request("GET", "https", "example.com", "/").to_bytes().hex()
'00034745540568747470730b6578616d706c652e636f6d012f000000'
"""

from __future__ import annotations

from dataclasses import dataclass

from hushcall.errors import InvalidMessage

Fields = tuple[tuple[str, bytes], ...]
_KNOWN_REQUEST, _KNOWN_RESPONSE, _OPEN_REQUEST, _OPEN_RESPONSE = range(4)
_FIRST_FINAL, _LAST_STATUS = 200, 599
_PSEUDO = b":"


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    scheme: str
    authority: str
    path: str
    fields: Fields = ()
    content: bytes = b""
    trailers: Fields = ()

    def to_bytes(self) -> bytes:
        control = b"".join(_string(part.encode()) for part in (self.method, self.scheme, self.authority, self.path))
        return varint(_KNOWN_REQUEST) + control + _body(self.fields, self.content, self.trailers)


@dataclass(frozen=True, slots=True)
class Response:
    """One response: its final status, and the informational ones (status, fields) before it."""

    status: int
    fields: Fields = ()
    content: bytes = b""
    trailers: Fields = ()
    informational: tuple[tuple[int, Fields], ...] = ()

    def to_bytes(self) -> bytes:
        before = b"".join(varint(status) + _string(_fields(fields)) for status, fields in self.informational)
        return varint(_KNOWN_RESPONSE) + before + varint(self.status) + _body(self.fields, self.content, self.trailers)


def read_request(data: bytes) -> Request:
    reader = _Reader(data)
    known_lengths = reader.framing(_KNOWN_REQUEST, _OPEN_REQUEST)
    try:
        method, scheme, authority, path = (reader.string().decode("ascii") for _ in range(4))
    except UnicodeDecodeError:
        raise InvalidMessage("request", "have control data in ASCII", "others") from None
    return Request(method, scheme, authority, path, *reader.body(known_lengths))


def read_response(data: bytes) -> Response:
    reader = _Reader(data)
    known_lengths = reader.framing(_KNOWN_RESPONSE, _OPEN_RESPONSE)
    informational = []
    while (status := reader.varint()) < _FIRST_FINAL:
        if status < 100:
            raise InvalidMessage("status", "be from 100 to 599", status)
        informational.append((status, reader.fields(known_lengths)))
    if status > _LAST_STATUS:
        raise InvalidMessage("status", "be from 100 to 599", status)
    return Response(status, *reader.body(known_lengths), tuple(informational))


def padded(message: bytes, size: int) -> bytes:
    """The message with zero bytes up to a multiple of ``size`` (section 3.8)."""
    return message + bytes(-len(message) % size)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    @property
    def over(self) -> bool:
        return self.place >= len(self.data)

    def take(self, count: int) -> bytes:
        part = self.data[self.place : self.place + count]
        if len(part) != count:
            raise InvalidMessage("message", "be as long as it says", f"{len(self.data)} bytes")
        self.place += count
        return part

    def varint(self) -> int:
        """QUIC's variable-length integers (RFC 9000, section 16): two bits say how many bytes."""
        first = self.take(1)
        more = self.take((1 << (first[0] >> 6)) - 1)
        return int.from_bytes(bytes([first[0] & 0x3F]) + more, "big")

    def string(self) -> bytes:
        return self.take(self.varint())

    def framing(self, known: int, open_ended: int) -> bool:
        indicator = self.varint()
        if indicator not in (known, open_ended):
            raise InvalidMessage("framing indicator", f"be {known} or {open_ended}", indicator)
        return indicator == known

    def body(self, known: bool) -> tuple[Fields, bytes, Fields]:
        """Fields, content and trailers. Empty ones at the end may be absent (section 3.7)."""
        fields = self.fields(known) if not self.over else ()
        content = self.content(known) if not self.over else b""
        trailers = self.fields(known) if not self.over else ()
        if self.data[self.place :].strip(b"\x00"):
            raise InvalidMessage("padding", "be zero bytes", f"{len(self.data) - self.place} bytes")
        return fields, content, trailers

    def content(self, known: bool) -> bytes:
        if known:
            return self.string()
        chunks = []
        while not self.over and (length := self.varint()):
            chunks.append(self.take(length))
        return b"".join(chunks)

    def fields(self, known: bool) -> Fields:
        section = _Reader(self.string()) if known else self
        pairs = []
        while not section.over:
            name = section.string()
            if not name and not known:
                break
            pairs.append((_name(name), section.string()))
        return tuple(pairs)


def _name(name: bytes) -> str:
    if not name or name != name.lower() or not name.isascii() or name.startswith(_PSEUDO):
        raise InvalidMessage("field name", "be a name in lower case", name)
    return name.decode("ascii")


def varint(value: int) -> bytes:
    """The shortest encoding of a value below 2⁶²."""
    for prefix, size in enumerate((1, 2, 4, 8)):
        if value < 1 << (8 * size - 2):
            return (value | prefix << (8 * size - 2)).to_bytes(size, "big")
    raise InvalidMessage("length", "be below 2^62", value)


def _string(data: bytes) -> bytes:
    return varint(len(data)) + data


def _fields(fields: Fields) -> bytes:
    return b"".join(_string(name.encode("ascii")) + _string(value) for name, value in fields)


def _body(fields: Fields, content: bytes, trailers: Fields) -> bytes:
    return _string(_fields(fields)) + _string(content) + _string(_fields(trailers))
