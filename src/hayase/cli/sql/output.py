"""Where the shell writes, and how: tables, JSON or CSV; also to a file."""

from __future__ import annotations

import csv
import io
import json
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from hayase.cli.sql.tables import answer_lines

if TYPE_CHECKING:  # the client needs an extra
    from hayase.client.protocol import Header, Row

_LEAST_WIDTH = 8
_TOMBSTONE = "<TOMBSTONE>"


class OutputFormat(StrEnum):
    """How answers are shown."""

    TABULAR = "TABULAR"
    JSON = "JSON"
    CSV = "CSV"


class Output:
    """Writes to the terminal, and to the file of SPOOL.

    Args:
        stream: the terminal.
        errors: where errors go.
        format_: how answers are shown.
        width: of a table of rows, in characters; `None`: the terminal's.
    """

    def __init__(
        self, stream: TextIO, errors: TextIO, format_: OutputFormat = OutputFormat.TABULAR, width: int | None = None
    ) -> None:
        self.format = format_
        self._stream = stream
        self._errors = errors
        self._width = width
        self._spool: TextIO | None = None

    def line(self, text: str = "") -> None:
        """Write a line."""
        print(text, file=self._stream, flush=True)
        if self._spool is not None:
            print(text, file=self._spool, flush=True)

    def error(self, text: str) -> None:
        """Write an error."""
        print(text, file=self._errors, flush=True)
        if self._spool is not None:
            print(text, file=self._spool, flush=True)

    def answer(self, answer: Mapping[str, Any]) -> None:
        """Write the answer of a statement."""
        if self.format is OutputFormat.TABULAR:
            for line in answer_lines(answer):
                self.line(line)
        else:
            self.line(json.dumps(answer))

    def rows(self, header: Header) -> RowWriter:
        """Begin to write the rows of a query."""
        width = self._width or shutil.get_terminal_size().columns
        return RowWriter(self, header, width)

    def spool_to(self, path: Path) -> None:
        """Write to a file as well; raises OSError."""
        self.close()
        self._spool = path.open("a", encoding="utf-8")

    def close(self) -> None:
        """Write to no file any more."""
        spool, self._spool = self._spool, None
        if spool is not None:
            spool.close()


class RowWriter:
    """Writes the rows of one query as they come.

    Args:
        output: where.
        header: of the rows.
        width: of a table.
    """

    def __init__(self, output: Output, header: Header, width: int) -> None:
        self._output = output
        self._header = header
        count = max(1, len(header.names))
        self._width = max(_LEAST_WIDTH, (width - 1) // count - 3)
        if output.format is OutputFormat.TABULAR:
            self._rule()
            self._cells(header.names)
            self._rule()
        elif output.format is OutputFormat.CSV:
            output.line(_csv(header.names))

    def row(self, row: Row) -> None:
        """Write a row."""
        if self._output.format is OutputFormat.JSON:
            shown = {name: _exact(value) for name, value in row.to_dict().items()}
            self._output.line(json.dumps({**shown, "@tombstone": True} if row.tombstone else shown, ensure_ascii=False))
        elif self._output.format is OutputFormat.CSV:
            self._output.line(_csv([None if value is None else _text(value) for value in row.values]))
        else:
            self._cells([_TOMBSTONE if row.tombstone and value is None else _text(value) for value in row.values])

    def end(self, message: str | None) -> None:
        """Write why the rows have ended."""
        if self._output.format is OutputFormat.TABULAR and message is not None:
            self._output.line(message)

    def _rule(self) -> None:
        self._output.line("+" + "+".join("-" * (self._width + 2) for _ in self._header.names) + "+")

    def _cells(self, cells: Sequence[str]) -> None:
        wrapped = [textwrap.wrap(cell, self._width, drop_whitespace=False) or [""] for cell in cells]
        for place in range(max(map(len, wrapped), default=1)):
            parts = [lines[place] if place < len(lines) else "" for lines in wrapped]
            self._output.line("|" + "|".join(f" {part.ljust(self._width)} " for part in parts) + "|")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(_exact(value), ensure_ascii=False)


def _exact(value: Any) -> Any:
    """A value for JSON; decimals keep their digits as text."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list):
        return [_exact(item) for item in value]
    if isinstance(value, dict):
        return {name: _exact(item) for name, item in value.items()}
    return value


def _csv(cells: Sequence[str | None]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
