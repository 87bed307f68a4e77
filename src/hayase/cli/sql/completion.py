"""What the shell offers while a statement is typed: keywords, sources, their columns, functions."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hayase.cli.sql.shell import COMMANDS, Shell
from hayase.client import SqlServerError
from hayase.sql.ast.words import NON_RESERVED, RESERVED

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_AFTER_SOURCE = re.compile(r"\b(from|join|into|describe|drop\s+(?:stream|table)|alter\s+(?:stream|table))\s+\w*$", re.I)


class SqlCompleter(Completer):
    """Completes words.

    Args:
        shell: whose server knows the names.
    """

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._sources: list[str] = []
        self._columns: dict[str, list[str]] = {}
        self._functions: list[str] | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """The words that begin as the one before the cursor does."""
        text = document.text_before_cursor
        found = _WORD.search(text)
        word = found.group() if found else ""
        if not word and not complete_event.completion_requested:
            return
        for each, kind in self.words(text, document.text):
            if each.upper().startswith(word.upper()):
                yield Completion(each, start_position=-len(word), display_meta=kind)

    def words(self, before: str, whole: str) -> Iterator[tuple[str, str]]:
        """Words that may come, with what they are.

        Args:
            before: the text before the cursor.
            whole: the statement as far as it is typed.
        """
        self._refresh()
        if _AFTER_SOURCE.search(before):
            yield from ((name, "source") for name in self._sources)
            return
        mentioned = {name.upper() for name in _NAME.findall(whole)}
        for source in self._sources:
            if source.upper() in mentioned:
                yield from ((column, f"column of {source}") for column in self._columns_of(source))
        yield from ((name, "source") for name in self._sources)
        yield from ((name, "function") for name in self._function_names())
        if " " not in before.strip():
            yield from ((name, "command") for name in COMMANDS)
        yield from ((word, "") for word in sorted(RESERVED | NON_RESERVED))

    def _refresh(self) -> None:
        """Ask for the sources again, if statements were executed since."""
        if not self._shell.changed:
            return
        self._shell.changed = False
        self._columns.clear()
        with contextlib.suppress(SqlServerError):
            answers = self._shell.client.execute("LIST STREAMS; LIST TABLES;")
            self._sources = [str(each["name"]) for answer in answers for each in _listed(answer)]

    def _columns_of(self, source: str) -> list[str]:
        if source not in self._columns:
            self._columns[source] = []
            with contextlib.suppress(SqlServerError, KeyError, IndexError):
                (answer,) = self._shell.client.execute(f"DESCRIBE {_quoted(source)};")
                self._columns[source] = [str(field["name"]) for field in answer["sourceDescription"]["fields"]]
        return self._columns[source]

    def _function_names(self) -> Iterable[str]:
        if self._functions is None:
            self._functions = []
            with contextlib.suppress(SqlServerError):
                for answer in self._shell.client.execute("LIST FUNCTIONS;"):
                    self._functions += [str(each["name"]) for each in answer.get("functions") or ()]
        return self._functions


def _listed(answer: dict[str, object]) -> list[dict[str, object]]:
    listed = answer.get("streams") or answer.get("tables") or []
    return listed if isinstance(listed, list) else []


def _quoted(name: str) -> str:
    return name if name.isupper() else f"`{name}`"
