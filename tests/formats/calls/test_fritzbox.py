"""The call list of a FRITZ!Box: languages, separators, and the 3 that changed its meaning."""

import pytest

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import CallKind
from hushcall.formats.calls.fritzbox import FRITZBOX_CSV
from hushcall.formats.calls.reading import read_calls

HEADER = "sep=;\nTyp;Datum;Name;Rufnummer;Landes-/Ortsnetzbereich;Nebenstelle;Eigene Rufnummer;Dauer\n"


def row(kind: int) -> str:
    return f"{kind};01.03.24 10:11;;2025550143;;Telefon;5550100;0:00\n"


def test_a_three_is_rejected_only_beside_a_four() -> None:
    old = FRITZBOX_CSV.read((HEADER + row(1) + row(3)).encode())
    new = FRITZBOX_CSV.read((HEADER + row(4) + row(3)).encode())
    assert [call.kind for call in old.calls] == [CallKind.INCOMING, CallKind.OUTGOING]
    assert [call.kind for call in new.calls] == [CallKind.OUTGOING, CallKind.REJECTED]


@pytest.mark.parametrize(
    "text",
    [
        "sep=;\nType;Date;Name;Telephone number;Extension;Own;Duration\n2;01.03.24 10:11;;2025550143;a;b;0:00\n",
        "sep=\t\nTyp\tDatum\tName\tRufnummer\tA\tB\tC\tD\n2\t01.03.24 10:11\t\t2025550143\t\ta\tb\t0:00\n",
        "Typ;Datum;Name;Rufnummer;A;B;C\n2;01.03.24 10:11;;2025550143;a;b;0:00;\n",
        "Typ;Datum;Name;Rufnummer;A;B;C;\n2;01.03.24 10:11;;2025550143;a;b;0:00;\n",
        "\r\nsep=;\r\n\r\nTyp;Datum;Name;Rufnummer;A;B;C\r\n\r\n2;01.03.24 10:11;;2025550143;a;b;0:00\r\n\r\n",
        "sep=;\nTyp;Datum;Rufnummer;Nebenstelle;Eigene Rufnummer;Dauer\n2;01.03.24 10:11;2025550143;a;b;0:00\n",
        "sep=;\nTyp;Datum;Rufnummer;A;B;C;D\n2;01.03.24 10:11;2025550143;a;b;c;0:00\n",
        "Typ ; Datum ; Name ; Rufnummer ; A ; B ; C\n2 ; 01.03.24 10:11 ; ; 2025550143 ; a ; b ; 0:00\n",
    ],
    ids=[
        *("English", "tabs", "a separator at the end", "and in the header too", "blank lines"),
        *("no names", "no names but an area", "blanks around titles"),
    ],
)
def test_layouts(text: str) -> None:
    result = read_calls(text.encode())
    assert (result.format, result.malformed) == ("fritzbox-csv", 0)
    assert [(call.number, call.name, call.kind) for call in result.calls] == [("2025550143", "", CallKind.MISSED)]


def test_a_file_without_its_header_is_an_error() -> None:
    with pytest.raises(InvalidData, match="have a header Typ;Datum;Name;Rufnummer;… on top"):
        FRITZBOX_CSV.read(row(1).encode())


def test_an_empty_list_is_one() -> None:
    assert FRITZBOX_CSV.read(HEADER.encode()).calls == ()
