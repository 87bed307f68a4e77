"""Lines of separated columns, quoted where they have to be: Commons CSV's default with minimal quotes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

_SPECIAL = {"SPACE": " ", "TAB": "\t"}


def delimiter_of(property_: str | None) -> str:
    """The character that a property says; a comma if it says nothing."""
    return "," if property_ is None else _SPECIAL.get(property_.upper(), property_)


def joined(columns: Sequence[str | None], delimiter: str) -> str:
    """The line of some columns; `None` is nothing, an empty text too unless it is the first."""
    return delimiter.join(
        "" if text is None else _quoted(text, delimiter, first=not index) for index, text in enumerate(columns)
    )


def _quoted(text: str, delimiter: str, *, first: bool) -> str:
    if not text:
        return '""' if first else ""  # a line of one empty column would be no line
    begins_oddly = first and not (text[0].isascii() and text[0].isalnum())  # so that no line begins like a comment
    if begins_oddly or _special(delimiter).search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


@cache
def _special(delimiter: str) -> re.Pattern[str]:
    """What makes quotes necessary: at the beginning, anywhere, at the end."""
    return re.compile(rf'\A[\x00-#]|[\n\r"{re.escape(delimiter)}]|[\x00- ]\Z')


def split(text: str, delimiter: str) -> list[str]:
    """The columns of the first line that is not empty.

    Raises:
        ValueError: there is none, or quotes are not closed or stand inside a column.
    """
    if '"' not in text and "\n" not in text and "\r" not in text:
        if not text:
            raise ValueError("there is no line")
        return text.split(delimiter)
    return _Lines(text, delimiter).first()


class _Lines:
    """Reads token after token; a line end inside quotes belongs to the column."""

    def __init__(self, text: str, delimiter: str) -> None:
        self._text, self._delimiter = text, delimiter
        self._at = 0

    def first(self) -> list[str]:
        while self._at < len(self._text) and self._text[self._at] in "\r\n":
            self._at += 1
        if self._at == len(self._text):
            raise ValueError("there is no line")
        columns = [self._token()]
        while self._at < len(self._text) and self._text[self._at] == self._delimiter:
            self._at += 1
            columns.append(self._token())
        return columns

    def _token(self) -> str:
        if self._text[self._at : self._at + 1] == '"':
            return self._encapsulated()
        begin = self._at
        while self._at < len(self._text) and self._text[self._at] not in ("\r", "\n", self._delimiter):
            self._at += 1
        return self._text[begin : self._at]

    def _encapsulated(self) -> str:
        parts: list[str] = []
        begin = self._at + 1
        while True:
            end = self._text.find('"', begin)
            if end < 0:
                raise ValueError("a quote is not closed")
            parts.append(self._text[begin:end])
            begin = end + 1
            if self._text[begin : begin + 1] != '"':
                break
            parts.append('"')
            begin += 1
        self._at = begin
        while self._at < len(self._text) and self._text[self._at] not in ("\r", "\n", self._delimiter):
            if not self._text[self._at].isspace():
                raise ValueError(f"{self._text[self._at]!r} stands between a quoted column and the delimiter")
            self._at += 1
        return "".join(parts)
