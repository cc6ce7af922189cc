"""The owner's languages. Facts are stored in English and translated where they are shown.

A catalog in ``locale`` has whole sentences. A sentence with values is a template: its ``{values}`` are translated too.

>>> Language.of("de").sentence("Version 7: 1,200 numbers.")
'Version 7: 1.200 Nummern.'
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cache
from pathlib import Path

from babel import Locale, dates, negotiate_locale, numbers
from babel.messages.pofile import read_po

LANGUAGES = {"en": "English", "de": "Deutsch", "es": "Español", "fr": "Français", "it": "Italiano"}
FOLDER = Path(__file__).with_name("locale")
_VALUE = re.compile(r"\\{(\w+)\\}")
_NUMBER = re.compile(r"[0-9]{1,3}(,[0-9]{3})+|[0-9]+(\.[0-9]+)?")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z")
_SENTENCES = re.compile(r"(?<=[.?!])\s+")


@dataclass(frozen=True)
class Language:
    code: str
    catalog: Mapping[str, str]
    templates: tuple[tuple[re.Pattern[str], str], ...]

    @classmethod
    @cache
    def of(cls, code: str) -> Language:
        if code == "en":
            return cls(code, {}, ())
        with (FOLDER / f"{code}.po").open("rb") as file:
            catalog = {str(message.id): str(message.string) for message in read_po(file) if message.id}
        longest_first = sorted((text for text in catalog if "{" in text), key=len, reverse=True)
        return cls(code, catalog, tuple((_pattern(text), catalog[text]) for text in longest_first))

    @classmethod
    def accepted(cls, header: str) -> Language:
        """The first known language of an ``Accept-Language`` header, or English."""
        wanted = [part.partition(";")[0].strip() for part in header.split(",")]
        return cls.of((negotiate_locale(wanted, LANGUAGES, sep="-") or "en")[:2])

    @classmethod
    def of_machine(cls) -> Language:
        """The language of the terminal, by the usual variables."""
        names = (os.environ.get(name, "") for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
        code = next((name for name in names if name), "")[:2]
        return cls.of(code if code in LANGUAGES else "en")

    def say(self, text: str, **values: object) -> str:
        """Translate a text of the program, with values that are translated already."""
        return self.catalog.get(text, text).format(**values)

    def sentence(self, text: str) -> str:
        """Translate what was stored in English, sentence by sentence. What the catalog does not know stays."""
        if text in self.catalog:
            return self.catalog[text]
        return " ".join(self._said(part) or part for part in _SENTENCES.split(text))

    def unknown(self, text: str) -> list[str]:
        """The sentences that the catalog does not know."""
        return [] if text in self.catalog else [part for part in _SENTENCES.split(text) if self._said(part) is None]

    def moment(self, at: int, zone: tzinfo) -> str:
        return dates.format_datetime(datetime.fromtimestamp(at, zone), "short", zone, self.code)

    def day(self, at: int, zone: tzinfo) -> str:
        return dates.format_date(datetime.fromtimestamp(at, zone), "full", self.code)

    def _said(self, text: str) -> str | None:
        """What the catalog knows, also behind the name of the server whose list says it."""
        name, colon, rest = text.partition(": ")
        if colon and " " not in name and "." in name and (known := self._known(rest)) is not None:
            return f"{name}: {known}"
        return self._known(text)

    def _known(self, text: str) -> str | None:
        if not text or self.code == "en":
            return text
        if text in self.catalog:
            return self.catalog[text]
        if _NUMBER.fullmatch(text):
            return numbers.format_decimal(text.replace(",", ""), locale=self.code)
        if _MOMENT.fullmatch(text):
            return dates.format_datetime(datetime.fromisoformat(text), "short", locale=Locale(self.code))
        for pattern, translation in self.templates:
            if match := pattern.fullmatch(text):
                values = {name: self._known(value) or value for name, value in match.groupdict().items()}
                return translation.format(**values)
        return None


def _pattern(template: str) -> re.Pattern[str]:
    """A template as a pattern whose groups are its values. ``{n}`` is a number."""
    text = re.escape(template).replace(r"\ ", " ")
    return re.compile(_VALUE.sub(lambda match: f"(?P<{match[1]}>{'[0-9,.]+' if match[1] == 'n' else '.+?'})", text))
