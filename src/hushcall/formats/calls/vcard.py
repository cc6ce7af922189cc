r"""Contacts come in as vCard text (3.0 and 4.0, and 2.1 as phones still write it), telephone numbers leave.

>>> list(phone_numbers("item1.TEL;TYPE=cell:+1 202 \n 555-0143\nTEL;VALUE=uri:tel:+1-202-555-0199;ext=7\n"))
['+1 202 555-0143', '+1-202-555-0199']
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushcall.formats.calls.texts import lines

# A group before the name, parameters after it, and a value after the first colon that is not in quotes.
_TEL = re.compile(r"(?:[\w-]+\.)?TEL((?:;(?:\"[^\"]*\"|[^\":;])*)*):(.*)", re.IGNORECASE | re.DOTALL)
_ESCAPED = re.compile(r"\\([,;:\\])")


def phone_numbers(text: str) -> Iterator[str]:
    """The value of every TEL property that has one."""
    for line in _unfold(lines(text)):
        if (found := _TEL.fullmatch(line)) and (value := _value(found[1].upper(), found[2]).strip()):
            yield value


def _unfold(text: list[str]) -> Iterator[str]:
    """Whole properties. A line that begins with a blank goes on with the one before; in 2.1, so does one after a =."""
    whole: list[str] = []
    quoted = False
    for line in text:
        if whole and line[:1] in (" ", "\t") and line.strip():
            whole.append(line[1:])
        elif quoted and whole[-1].endswith("="):
            whole[-1] = whole[-1][:-1]
            whole.append(line)
        else:
            yield "".join(whole)
            whole, quoted = [line], "QUOTED-PRINTABLE" in line.upper()
    yield "".join(whole)


def _value(parameters: str, value: str) -> str:
    if "QUOTED-PRINTABLE" in parameters:
        import quopri

        value = quopri.decodestring(value.encode()).decode("utf-8", "replace")
    value = _ESCAPED.sub(r"\1", value.strip())
    if value[:4].lower() == "tel:":
        return value[4:].partition(";")[0]  # what follows is an extension or a context
    return value
