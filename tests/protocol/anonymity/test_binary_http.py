"""RFC 9292: its examples read and written, both framings, padding, and what is no message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.anonymity.published import vectors

from hushcall.errors import InvalidMessage
from hushcall.protocol.anonymity.binary_http import Request, Response, padded, read_request, read_response, varint

EXAMPLES = {
    example["what"]: bytes.fromhex(example["bytes"]) for example in vectors("rfc9292-examples.json")["examples"]
}
KNOWN_REQUEST = EXAMPLES["Known-Length Binary Encoding of Request"]
OPEN_REQUEST = EXAMPLES["Indeterminate-Length Binary Encoding of Request"]
INFORMATIONAL = EXAMPLES["Binary Response, including Informational Responses"]
KNOWN_RESPONSE = EXAMPLES["Known-Length Encoding of Response"]

NAMES = st.text("abcdefghijklmnopqrstuvwxyz-0123456789", min_size=1, max_size=80)
FIELDS = st.lists(st.tuples(NAMES, st.binary(max_size=80)), max_size=3).map(tuple)
TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=100)
REQUESTS = st.builds(Request, TEXT, TEXT, TEXT, TEXT, FIELDS, st.binary(max_size=300), FIELDS)
EARLY = st.lists(st.tuples(st.integers(100, 199), FIELDS), max_size=2).map(tuple)
RESPONSES = st.builds(Response, st.integers(200, 599), FIELDS, st.binary(max_size=300), FIELDS, EARLY)


def test_the_request_of_the_rfc_is_read_in_both_framings_and_written() -> None:
    request = read_request(KNOWN_REQUEST)
    assert (request.method, request.scheme, request.authority, request.path) == ("GET", "https", "", "/hello.txt")
    assert dict(request.fields)["host"] == b"www.example.com"
    assert dict(request.fields)["accept-language"] == b"en, mi"
    assert request.to_bytes() == KNOWN_REQUEST
    assert read_request(OPEN_REQUEST) == request


def test_the_responses_of_the_rfc_are_read_and_written() -> None:
    response = read_response(KNOWN_RESPONSE)
    assert response == Response(200, (), b"This content contains CRLF.\r\n", (("trailer", b"text"),))
    assert response.to_bytes() == KNOWN_RESPONSE
    early = read_response(INFORMATIONAL)
    assert [status for status, _ in early.informational] == [102, 103]
    assert early.informational[0][1] == (("running", b'"sleep 15"'),)
    assert early.status == 200
    assert early.content == b"Hello World! My content includes a trailing CRLF.\r\n"
    assert read_response(early.to_bytes()) == early


@given(REQUESTS)
def test_requests_come_back(request: Request) -> None:
    assert read_request(request.to_bytes()) == request


@given(RESPONSES, st.sampled_from([1, 64, 256, 1024]))
def test_responses_come_back_through_padding_of_one_size(response: Response, size: int) -> None:
    message = padded(response.to_bytes(), size)
    assert len(message) % size == 0
    assert read_response(message) == response


@pytest.mark.parametrize(
    ("value", "bytes_"),
    [
        (0, "00"),
        (37, "25"),
        (63, "3f"),
        (64, "4040"),
        (15293, "7bbd"),
        (494878333, "9d7f3e7d"),
        (151288809941952652, "c2197c5eff14e88c"),
    ],
)
def test_lengths_are_written_as_rfc_9000_shows(value: int, bytes_: str) -> None:
    assert varint(value).hex() == bytes_


def test_empty_parts_at_the_end_may_be_missing() -> None:
    whole = Request("GET", "https", "example.com", "/").to_bytes()
    for left_out in range(4):
        assert read_request(whole[: len(whole) - left_out]) == read_request(whole)


@pytest.mark.parametrize("message", [KNOWN_REQUEST, OPEN_REQUEST.rstrip(b"\0")], ids=["known", "open"])
def test_a_message_cut_anywhere_else_is_refused_or_the_same(message: bytes) -> None:
    whole = read_request(message)
    refused = 0
    for length in range(len(message)):
        try:
            fields = read_request(message[:length]).fields
            assert fields == whole.fields[: len(fields)]
        except InvalidMessage:
            refused += 1
    assert refused > len(message) // 2


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x05",
        KNOWN_RESPONSE,
        KNOWN_REQUEST + b"\0\0x",
        KNOWN_REQUEST.replace(b"host", b"Host"),
        KNOWN_REQUEST.replace(b"host", b":ost"),
        KNOWN_REQUEST.replace(b"GET", b"G\xffT"),
    ],
    ids=["empty", "unknown framing", "a response", "padding", "upper case", "pseudo-field", "not ASCII"],
)
def test_what_is_no_request_is_refused(message: bytes) -> None:
    with pytest.raises(InvalidMessage):
        read_request(message)


@pytest.mark.parametrize("status", [0, 99, 600, 16383])
def test_statuses_that_are_none_are_refused(status: int) -> None:
    with pytest.raises(InvalidMessage):
        read_response(Response(status).to_bytes())


def test_lengths_beyond_the_format_are_refused() -> None:
    with pytest.raises(InvalidMessage):
        varint(1 << 62)
