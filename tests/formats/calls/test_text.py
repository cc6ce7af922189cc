"""Documents that attack their reader: entities, outside references, depth, wrong encodings."""

from pathlib import Path

import pytest

from hushcall.errors import InvalidData
from hushcall.formats.calls.reading import READERS
from hushcall.formats.calls.text import xml_records

XML = pytest.mark.parametrize("name", ["sms-backup", "fritzbox-xml"])
ROOTS = {"sms-backup": "calls", "fritzbox-xml": "root"}


def read(name: str, prologue: str, body: str = "") -> None:
    root = ROOTS[name]
    READERS[name].read(f'<?xml version="1.0"?>{prologue}<{root}>{body}</{root}>'.encode())


@XML
def test_billion_laughs(name: str) -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    with pytest.raises(InvalidData, match="have no DTD and no entities"):
        read(name, f'<!DOCTYPE x [<!ENTITY l0 "lol">{laughs}]>', "<call>&l9;</call>")


@XML
def test_a_file_on_this_machine_is_not_read(name: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("TOP-SECRET")
    with pytest.raises(InvalidData, match="have no DTD and no entities") as caught:
        read(name, f'<!DOCTYPE x [<!ENTITY e SYSTEM "{secret.as_uri()}">]>', "<call>&e;</call>")
    assert "TOP-SECRET" not in str(caught.value)


@XML
@pytest.mark.parametrize(
    "prologue",
    [
        '<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd">',
        '<!DOCTYPE x PUBLIC "a" "http://127.0.0.1:9/x.dtd">',
        '<!DOCTYPE x [<!ENTITY % p SYSTEM "http://127.0.0.1:9/p"> %p;]>',
        "<!DOCTYPE x>",
    ],
)
def test_no_dtd_of_any_kind(name: str, prologue: str) -> None:
    with pytest.raises(InvalidData, match="have no DTD and no entities"):
        read(name, prologue)


@XML
def test_unknown_entities_depth_and_encodings(name: str) -> None:
    with pytest.raises(InvalidData, match="one complete XML document"):
        read(name, "", "<call>&unknown;</call>")
    with pytest.raises(InvalidData, match="nest at most 16 elements"):
        read(name, "", "<a>" * 100_000)
    for encoding in ("nonsense", "utf-7", "rot13", "utf-32"):
        with pytest.raises(InvalidData, match="one complete XML document"):
            READERS[name].read(f'<?xml version="1.0" encoding="{encoding}"?><{ROOTS[name]}/>'.encode())


def test_another_document_is_refused_by_its_outermost_element() -> None:
    with pytest.raises(InvalidData, match="have <calls> as its outermost element, got '<smses>'"):
        READERS["sms-backup"].read(b"<smses count='0'></smses>")


def test_only_records_right_under_the_root_count() -> None:
    document = b"<calls><call a='1'><b>2</b><c/></call><other><call a='3'/></other><call/></calls>"
    assert list(xml_records("x", document, "calls", "call")) == [{"a": "1", "b": "2", "c": ""}, {}]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("&#55357;&#56836;", "\N{SMILING FACE WITH OPEN MOUTH AND SMILING EYES}"),  # as Android's apps write it
        ("&#xD83D;&#xde04;", "\N{SMILING FACE WITH OPEN MOUTH AND SMILING EYES}"),
        ("&#128516;", "\N{SMILING FACE WITH OPEN MOUTH AND SMILING EYES}"),
        ("&#55357;", "\ufffd"),
        ("&#55357;x", "\ufffdx"),
        ("&#65;&#56836;", "A\ufffd"),
        ("&#55357;&#55357;&#56836;", "\ufffd\N{SMILING FACE WITH OPEN MOUTH AND SMILING EYES}"),
        ("&#0;&#x1f;&#1114112;&#99999999;", "\ufffd" * 4),
        ("&#10;&#38;&#60;", "\n&<"),
    ],
)
def test_references_to_halves_of_characters_lose_nothing(encoding: str, written: str, meant: str) -> None:
    document = f'<?xml version="1.0" encoding="{encoding}"?><calls><call n="{written}"/><call n="2"/></calls>'
    found = [record["n"] for record in xml_records("x", document.encode(encoding), "calls", "call")]
    assert found == [meant, "2"]


def test_a_backup_with_emoji_is_read_whole() -> None:
    call = '<call number="+12025550143" date="1709287872345" type="3" presentation="1" contact_name="{}" />'
    document = f"<calls count='2'>{call.format('Zo&#55357;&#56836;')}{call.format('(Unknown)')}</calls>"
    result = READERS["sms-backup"].read(document.encode())
    assert [call.name for call in result.calls] == ["Zo\U0001f604", ""]
    assert result.malformed == 0
