"""Contacts of every kind become numbers, and what cannot be one is counted."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lists import sample

from hushcall.errors import HushcallError, InvalidData
from hushcall.formats.blocklists import WRITERS
from hushcall.formats.calls.call import clean_name
from hushcall.formats.calls.contacts import read_contacts
from hushcall.formats.calls.text import MAX_BYTES

SAMPLES = Path(__file__).parent / "samples"
EXPECTED = {
    "contacts.vcf": (
        {"+1 202 555-0143", "(202) 555-0144", "+1-202-555-0145", "202,5550146", "+12025550147"},
        1,
        "entry 5: number must begin like a number",
    ),
    "termux-contact-list.json": (
        {"+1 202-555-0143", "2025550144"},
        2,
        "entry 3: number must be a text in an object",
    ),
    "phonebook.xml": ({"+1 202 555 0143", "2025550144", "2025550145"}, 1, "entry 4: number must begin like a number"),
    "contacts.txt": ({"+1 202 555 0143", "2025550144"}, 1, "entry 3: number must begin like a number"),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_is_known_and_read(name: str) -> None:
    numbers, malformed, problem = EXPECTED[name]
    data = (SAMPLES / name).read_bytes()
    found = read_contacts(data)
    assert (set(found.numbers), found.malformed) == (numbers, malformed)
    assert found.first_problem.startswith(problem)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings_and_line_ends(encoding: str, end: str) -> None:
    card = ["begin:vcard", "VERSION:3.0", "FN:Zoë", "TEL:202555", " 0143", "END:VCARD", ""]
    assert read_contacts(end.join(card).encode(encoding)).numbers == {"2025550143"}


@pytest.mark.parametrize("nothing", [b"", b"\r\n", b"[]", b"BEGIN:VCARD\nFN:Jane\nEND:VCARD\n", b"# nobody\n"])
def test_no_numbers_is_no_error(nothing: bytes) -> None:
    assert read_contacts(nothing).numbers == frozenset()


@pytest.mark.parametrize(
    "rubbish", [b"\x89PNG\r\n\x1a\n\x00", b"[" * 100_000, b'{"a": 1}', b"Name,Phone\nJane,2025550143\n"]
)
def test_something_else_is_an_error(rubbish: bytes) -> None:
    with pytest.raises(InvalidData, match="must be"):
        read_contacts(rubbish)


def test_the_size_is_limited() -> None:
    with pytest.raises(InvalidData, match="contacts must have at most"):
        read_contacts(bytes(MAX_BYTES + 1))


@given(st.lists(st.from_regex(r"\+1 202-55501[0-9]{2}", fullmatch=True)), st.integers(5, 40))
def test_folded_cards_give_their_numbers(numbers: list[str], width: int) -> None:
    card = "BEGIN:VCARD\r\n"
    for number in numbers:
        line = f'item7.TEL;TYPE=cell,voice;X-NOTE="a:b;c":{number}'
        card += "\r\n ".join(line[at : at + width] for at in range(0, len(line), width)) + "\r\n"
    assert read_contacts(card.encode()).numbers == set(numbers)


@given(st.binary(max_size=200), st.sampled_from([b"", b"BEGIN:VCARD\n", b"["]))
def test_random_bytes_raise_only_our_errors(data: bytes, head: bytes) -> None:
    try:
        found = read_contacts(head + data)
    except HushcallError:
        return
    assert all(number.isprintable() for number in found.numbers)


def test_an_exported_list_in_an_address_book_makes_nobody_a_contact() -> None:
    """A phone that took our vCards in shows them among its contacts, as Termux does."""
    family = "BEGIN:VCARD\r\nVERSION:3.0\r\nFN:Ada\r\nTEL:2025550199\r\nEND:VCARD\r\n"
    listed = WRITERS["vcard"].write(sample())
    assert b"TEL" in listed
    assert read_contacts(listed + family.encode()).numbers == {"2025550199"}
    box = (
        WRITERS["fritzbox"]
        .write(sample())
        .replace(b"</phonebook>", b"<contact><number>2025550199</number></contact></phonebook>")
    )
    assert read_contacts(box).numbers == {"2025550199"}
    rows = [{"name": "hushcall 1", "number": "2025550143"}, {"name": "Ada", "number": "2025550199"}]
    assert read_contacts(json.dumps(rows).encode()).numbers == {"2025550199"}
    assert clean_name("hushcall 12") == ""
