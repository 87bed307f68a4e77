"""`hayase sql`: the shell, statements of the command line, of a file, of a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import typer

from hayase.cli.sql.output import Output, OutputFormat
from hayase.cli.sql.shell import LeaveShell, Shell
from hayase.client import SqlClient
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError
from hayase.sql.grammar.script_files import script_text


@dataclass(frozen=True)
class ShellOptions:
    """What the command line says.

    Attributes:
        server: the address of a server; `None`: one of its own.
        user: for basic authentication.
        password: of the user.
        execute: statements.
        file: of statements.
        define: variables, as NAME=VALUE.
        output_format: how answers are shown.
        settings: of the shell's own server.
    """

    server: str | None
    user: str | None
    password: str | None
    execute: Sequence[str]
    file: Path | None
    define: Sequence[str]
    output_format: OutputFormat
    settings: Mapping[str, object]


def run_shell(options: ShellOptions) -> None:
    """Ask a SQL server: at a terminal a shell, else the statements given.

    Raises:
        HayaseError: the server cannot be used, or an option is wrong.
        typer.Exit: a statement was refused.
    """
    texts = _texts(options.execute, options.file)
    variables = read_variables(options.define)
    with ExitStack() as open_things:
        server = options.server
        if server is None:
            from hayase.cli.sql.embedded import EmbeddedServer  # slow to import

            embedded = EmbeddedServer(options.settings)
            open_things.callback(embedded.close)
            server = embedded.url

        def connect(url: str) -> SqlClient:
            return SqlClient(url, user=options.user, password=options.password, variables=variables)

        output = Output(sys.stdout, sys.stderr, options.output_format)
        open_things.callback(output.close)
        shell, interact = _shell(connect(server), output, connect, is_interactive=texts is None)
        open_things.callback(shell.close)
        if interact is None:
            _run_all(shell, texts or [], options.file)
        else:
            output.line(f"Hayase SQL on {server}. HELP shows commands; statements end with a semicolon.")
            interact()


def _texts(execute: Sequence[str], file: Path | None) -> list[str] | None:
    """What to execute, the text of the file last; `None`: what is typed at the terminal."""
    texts = list(execute)
    if file is not None:
        try:
            texts.append(script_text(file))
        except OSError as error:
            raise ConfigError("SCRIPT_NOT_FOUND", f"{file} cannot be read as a script: {error}") from error
    if not texts and sys.stdin.isatty():
        return None
    return texts or [sys.stdin.read()]


def read_variables(define: Sequence[str]) -> dict[str, str]:
    """Variables of `--define NAME=VALUE`; raises ConfigError for another form."""
    variables = {}
    for each in define:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise ConfigError("INVALID_SETTING", f"--define {each!r} is no variable; give NAME=VALUE")
        variables[name] = value
    return variables


def _shell(
    client: SqlClient, output: Output, connect: Callable[[str], SqlClient], *, is_interactive: bool
) -> tuple[Shell, Callable[[], None] | None]:
    """The shell, and what reads from the terminal."""
    if not is_interactive:
        return Shell(client, output, connect), None
    from hayase.cli.sql.prompt import clear_screen, history_of, interact, statements_of  # slow to import

    history = history_of(StreamsConfig({"application.id": "sql"}).log_dir.parent / "sql_history")

    def of_before() -> Iterator[str]:
        return statements_of(history)

    shell = Shell(client, output, connect, of_before, clear_screen)
    return shell, lambda: interact(shell, history)


def _run_all(shell: Shell, texts: list[str], file: Path | None) -> None:
    """Execute texts, of which the last is that of a file if there is one; raises typer.Exit at the first that fails."""
    for place, text in enumerate(texts, 1):
        of_file = file if place == len(texts) else None
        try:
            if not (shell.run_typed(text) if of_file is None else shell.run_file(of_file, text)):
                raise typer.Exit(1)
        except LeaveShell:
            return
