"""Statements and commands of the shell, one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from hayase.cli.sql.output import Output, OutputFormat
from hayase.client import SqlClient, SqlServerError
from hayase.core.errors import ConfigError, HayaseError
from hayase.sql.ast import statements as ast
from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar.parser import parse_statement
from hayase.sql.grammar.script_files import script_text
from hayase.sql.grammar.tokens import RawStatement, raw_statements, tokens_of
from hayase.sql.grammar.variables import Variables

_POSITION = re.compile(r"\bline (\d+):(\d+)\b|\(line (\d+), column (\d+)\)|\bLine: (\d+), Col: (\d+)\b")
_SCRIPTS_DEPTH_MAX = 20
_HELP = """Statements end with a semicolon and may have several lines: CREATE STREAM …, SELECT …, SHOW STREAMS, ….
Commands stand alone on a line:
  HELP                        this text
  EXIT, QUIT                  leave
  OUTPUT [TABULAR|JSON|CSV]   how answers are shown
  SPOOL FILE, SPOOL OFF       write what is shown to a file as well
  RUN SCRIPT FILE             execute the statements of a file
  SERVER [URL]                which server is asked; another one
  VERSION                     of the server
  HISTORY                     statements of before
  CLEAR                       clear the screen
Settings and variables are those of the shell: SET 'auto.offset.reset'='earliest'; DEFINE name = 'value';
Ctrl-C ends a query, Ctrl-D the shell."""


class LeaveShell(Exception):  # noqa: N818  # it is no error
    """Ends the shell."""


class Shell:
    """Executes what is typed.

    Args:
        client: of the server; its settings and variables are those of the shell.
        output: where answers go.
        connect: makes a client of another server.
        history: statements of before, the oldest first.
        clear: clears the screen.
    """

    def __init__(
        self,
        client: SqlClient,
        output: Output,
        connect: Callable[[str], SqlClient],
        history: Callable[[], Iterator[str]] = lambda: iter(()),
        clear: Callable[[], None] = lambda: None,
    ) -> None:
        self.client = client
        self.output = output
        self._connect = connect
        self._history = history
        self._clear = clear
        self._depth = 0
        self._folder = Path()
        self._scripts_in = Path()
        """The folder of the script that was asked for: those that it runs lie in it."""
        self.changed = True
        """Whether sources may have changed since this was set to `False`."""

    def close(self) -> None:
        """Close the connections to the server that is asked now."""
        self.client.close()

    def run(self, text: str) -> bool:
        """Execute commands and statements; the first that fails is shown, and ends it.

        Returns:
            Whether all went well.

        Raises:
            LeaveShell: EXIT.
        """
        try:
            for statement in _statements(text):
                self._execute(statement)
        except ParseFailedError as error:
            self._show(error.message, text)
        except SqlServerError as error:
            self._show(error.message, error.statement or text)
        except (HayaseError, OSError) as error:
            self.output.error(str(error))
        else:
            return True
        return False

    def command(self, line: str) -> bool:
        """Execute a command of the shell, of which `is_command` is true; one that fails is shown.

        Returns:
            Whether all went well.

        Raises:
            LeaveShell: EXIT.
        """
        words = line.strip().rstrip(";").split()
        name, rest = words[0].upper(), words[1:]
        if name in ("EXIT", "QUIT"):
            raise LeaveShell
        try:
            self._command(name, rest)
        except SqlServerError as error:
            self.output.error(error.message)
        except (HayaseError, OSError, ValueError) as error:
            self.output.error(str(error))
        else:
            return True
        return False

    def run_typed(self, text: str) -> bool:
        """Execute what is typed, or comes from a pipe: statements, and commands on lines of their own.

        The first that fails is shown, and ends it.

        Returns:
            Whether all went well.

        Raises:
            LeaveShell: EXIT.
        """
        return all(self.command(each) if is_command(each) else self.run(each) for each in _parts(text))

    def run_file(self, file: Path, text: str) -> bool:
        """As `run_typed`, for the text of a script: the scripts that it runs lie in its folder, as for RUN SCRIPT."""
        self._folder, self._scripts_in, self._depth = file.parent, file.parent.resolve(), 1
        try:
            return self.run_typed(text)
        finally:
            self._folder, self._depth = Path(), 0

    def _command(self, name: str, rest: list[str]) -> None:
        match name:
            case "HELP":
                self.output.line(_HELP)
            case "CLEAR":
                self._clear()
            case "HISTORY":
                for number, statement in enumerate(self._history(), 1):
                    self.output.line(f"{number}: {statement}")
            case "VERSION":
                self.output.line(f"Version: {self.client.info().get('version')}")
            case "SERVER":
                self._server(rest)
            case "OUTPUT":
                if rest:
                    self.output.format = OutputFormat(rest[0].upper())
                self.output.line(f"Output format: {self.output.format}")
            case "SPOOL":
                self._spool(rest)
            case "RUN":
                self._run_script(_unquoted(" ".join(rest[1:])))

    def _server(self, rest: list[str]) -> None:
        if rest:
            client = self._connect(rest[0])
            client.info()
            client.properties.update(self.client.properties)
            client.variables.update(self.client.variables)
            self.client.close()
            self.client, self.changed = client, True
        self.output.line(self.client.url)

    def _spool(self, rest: list[str]) -> None:
        if not rest or rest[0].upper() == "OFF":
            self.output.close()
            self.output.line("Nothing is written to a file")
        else:
            path = Path(_unquoted(" ".join(rest)))
            self.output.spool_to(path)
            self.output.line(f"Everything shown is written to {path} as well")

    def _execute(self, raw: RawStatement) -> None:
        first = raw.tokens[0].upper()
        if first == "SELECT":
            self._query(raw.text)
        elif first == "PRINT":
            self._print(raw.text)
        elif first in ("SET", "UNSET", "DEFINE", "UNDEFINE"):
            self._local(raw.text)
        elif first == "RUN":
            self._run_script(_unquoted(str(raw.tokens[-1])))
        else:
            for answer in self.client.execute(raw.text):
                self.output.answer(answer)
            self.changed = True

    def _query(self, text: str) -> None:
        with self.client.query(text) as rows:
            writer = self.output.rows(rows.header)
            try:
                for row in rows:
                    writer.row(row)
                writer.end(rows.final_message)
            except KeyboardInterrupt:
                writer.end("Query terminated")

    def _print(self, text: str) -> None:
        try:
            for line in self.client.print_topic(text):
                self.output.line(line)
        except KeyboardInterrupt:
            self.output.line("Topic printing ceased")

    def _local(self, text: str) -> None:
        variables = Variables(self.client.variables)
        match parse_statement(text, variables).statement:
            case ast.SetProperty(name, value):
                self.client.is_valid_property(name)
                before = self.client.properties.get(name)
                self.client.properties[name] = value
                changed = "" if before is None else f" from '{before}'"
                self.output.line(f"Successfully changed local property '{name}'{changed} to '{value}'.")
            case ast.UnsetProperty(name):
                if self.client.properties.pop(name, None) is None:
                    self.output.error(f"'{name}' was not set: SET gives it a value")
                else:
                    self.output.line(f"Successfully unset local property '{name}'.")
            case ast.DefineVariable(name, value):
                self.client.variables[name] = value
            case ast.UndefineVariable(name):
                self.client.variables.pop(name, None)

    def _run_script(self, path: str) -> None:
        file = self._folder / path
        if self._depth >= _SCRIPTS_DEPTH_MAX:
            raise ParseFailedError("TOO_DEEP", f"RUN SCRIPT {path!r}: scripts run each other over {self._depth} levels")
        if self._depth == 0:
            self._scripts_in = file.parent.resolve()
        elif not file.resolve().is_relative_to(self._scripts_in):
            raise ConfigError(
                "SCRIPT_ELSEWHERE",
                f"RUN SCRIPT {path!r}: a script runs scripts in its own folder, {self._scripts_in}, and below it. Run "
                "that one by itself, or put it there",
            )
        try:
            text = script_text(file)
        except OSError as error:
            raise ConfigError("SCRIPT_NOT_FOUND", f"RUN SCRIPT {path!r}: {file} cannot be read: {error}") from error
        folder, self._folder = self._folder, file.parent
        self._depth += 1
        try:
            for statement in _statements(text):
                self._execute(statement)
        finally:
            self._depth -= 1
            self._folder = folder

    def _show(self, message: str, text: str) -> None:
        """An error, under the line of the statement that it is about."""
        found = _POSITION.search(message)
        lines = text.splitlines()
        if found is not None:
            line, column = (int(each) for each in found.groups() if each is not None)
            if 1 <= line <= len(lines):
                self.output.error(lines[line - 1])
                self.output.error(" " * (column - 1) + "^")
        self.output.error(message)


COMMANDS = ("HELP", "EXIT", "QUIT", "OUTPUT", "SPOOL", "RUN", "SERVER", "VERSION", "HISTORY", "CLEAR")


def is_command(text: str) -> bool:
    """Whether a text is a command of the shell: one line that begins with a command's word, and nothing behind it."""
    words = text.strip().rstrip(";").split()
    if not words or words[0].upper() not in COMMANDS or "\n" in text.strip():
        return False
    # RUN SCRIPT is a statement as well, which others may follow.
    return words[0].upper() != "RUN" or (len(words) > 2 and words[1].upper() == "SCRIPT" and ";" not in "".join(words))


def is_complete(text: str) -> bool:
    """Whether a text can be executed: a command, or statements of which the last one has its semicolon."""
    if not text.strip() or is_command(text):
        return True
    try:
        tokens = list(tokens_of(text))
    except ParseFailedError as error:
        return "has no end" not in error.message  # what is wrong otherwise does not get better by more lines
    return not tokens or tokens[-1].type == "SEMICOLON"


def _parts(text: str) -> Iterator[str]:
    """The commands of a text, and the statements before, between and behind them.

    A part has as many empty lines before it as make its lines count as in the text.
    """
    lines = text.splitlines()
    begin = 0
    for number, line in enumerate(lines):
        if not is_command(line):
            continue
        before = "\n".join(lines[begin:number])
        if _ends_a_statement(before):
            if before.strip():
                yield "\n" * begin + before
            yield line
            begin = number + 1
    rest = "\n".join(lines[begin:])
    if rest.strip():
        yield "\n" * begin + rest


def _ends_a_statement(text: str) -> bool:
    """Whether what comes behind a text begins a statement."""
    try:
        tokens = list(tokens_of(text))
    except ParseFailedError:
        return False
    return not tokens or tokens[-1].type == "SEMICOLON"


def _statements(text: str) -> Iterator[RawStatement]:
    for raw in raw_statements(text):
        if raw.end is None:
            yield from (each for each in raw_statements(f"{raw.text};") if each.tokens)
        elif raw.tokens:
            yield raw


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text
