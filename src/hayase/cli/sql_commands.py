"""`hayase sql …`: ksqlDB's SQL: the shell, run, test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from hayase.cli.functions import registry_with
from hayase.cli.migrate.command import migrate
from hayase.cli.options import Config, ConfigFile, Functions, read_settings
from hayase.cli.sql.output import OutputFormat
from hayase.cli.sql_run import run
from hayase.core.errors import ConfigError
from hayase.sql.functions.registry import FunctionRegistry
from hayase.testing.sql.directives import SqlTest, failure_of, files_in, tests_of
from hayase.testing.sql.json_test import problem_of, read_json_test

ServerUrl = Annotated[
    str | None,
    typer.Option(
        "--server",
        "-s",
        envvar="HAYASE_SQL_SERVER",
        metavar="URL",
        help="A server that runs, of Hayase or ksqlDB; default: one of its own, for as long as the shell runs.",
    ),
]
User = Annotated[str | None, typer.Option("--user", "-u", help="For basic authentication.")]
Password = Annotated[
    str | None,
    typer.Option("--password", "-p", envvar="HAYASE_SQL_PASSWORD", help="Of the user; better in the environment."),
]
Execute = Annotated[
    list[str] | None, typer.Option("--execute", "-e", metavar="SQL", help="Statements to execute; may be repeated.")
]
File = Annotated[Path | None, typer.Option("--file", "-f", help="A file of statements to execute.")]
Define = Annotated[
    list[str] | None, typer.Option("--define", "-d", metavar="NAME=VALUE", help="A variable for ${NAME}.")
]
Format = Annotated[OutputFormat, typer.Option("--output", case_sensitive=False, help="How answers are shown.")]

sql = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@sql.callback()
def shell(
    context: typer.Context,
    server: ServerUrl = None,
    user: User = None,
    password: Password = None,
    execute: Execute = None,
    file: File = None,
    define: Define = None,
    output_format: Format = OutputFormat.TABULAR,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """KsqlDB's SQL: a shell, run, test.

    Without a sub-command: at a terminal a shell, else the statements of -e, -f or the standard input.

    Exit codes: 0 all statements were executed, 1 one was refused, 2 wrong arguments.

    For example:

        hayase sql

        hayase sql --server http://127.0.0.1:8088 -e "SHOW STREAMS;"

        echo "SELECT * FROM orders EMIT CHANGES LIMIT 3;" | hayase sql -s http://127.0.0.1:8088 --output json
    """
    if context.invoked_subcommand is None:
        from hayase.cli.sql.command import ShellOptions, run_shell  # needs the extra `server`; run and test do not

        settings = read_settings(config, config_file) if server is None else {}
        run_shell(ShellOptions(server, user, password, execute or [], file, define or [], output_format, settings))


sql.command(short_help="Run a script as a program on Spark.")(run)
sql.add_typer(migrate, name="migrate")


@sql.command("test", short_help="Run the tests of .sql files in this process.")
def run_tests(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR_OR_FILE", help="A .sql file, or a folder of them.")],
    name_filter: Annotated[
        str | None, typer.Option("--filter", metavar="TEXT", help="Only tests with this text in their name.")
    ] = None,
    of_json: Annotated[
        bool,
        typer.Option("--json", help="The paths are ksql-test-runner's: statements, inputs (if any), outputs."),
    ] = False,
    functions: Functions = None,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Run tests that are written in SQL: without Spark, without Kafka, each test by itself.

    A file has tests under `--@test: name`, or is one test. INSERT INTO … VALUES writes a record, which all queries
    process at once; ASSERT VALUES, ASSERT NULL VALUES, ASSERT STREAM and ASSERT TABLE check what came of it.
    `--@expected.error: class` and `--@expected.message: text` name the error that a test must end with. RUN SCRIPT
    'file' runs another file, beside the test's.

    Exit codes: 0 all tests pass, 1 some fail, 2 wrong arguments.

    For example:

        hayase sql test tests/sql

        hayase sql test shop_test.sql --filter refunds -c ksql.persistence.default.format.value=JSON

        hayase sql test shop_test.sql --functions functions.py

        hayase sql test --json shop.sql input.json output.json
    """
    registry = registry_with(functions or [])
    if of_json:
        _run_json(paths, read_settings(config, config_file), registry)
        return
    selected = list(_selected(paths, name_filter))
    if not selected:
        raise ConfigError("NO_TESTS", f"no test has {name_filter!r} in its name; leave --filter out to run all")
    failed = _run(selected, read_settings(config, config_file), registry)
    typer.echo(f"{len(selected) - failed} passed, {failed} failed")
    if failed:
        raise typer.Exit(1)


def _run_json(paths: Sequence[Path], settings: Mapping[str, object], functions: FunctionRegistry) -> None:
    if len(paths) not in (2, 3):
        raise ConfigError(
            "WRONG_ARGUMENTS",
            f"--json takes the files of statements, inputs (if any) and outputs, not {len(paths)} paths",
        )
    statements, *inputs, outputs = paths
    problem = problem_of(read_json_test(statements, inputs[0] if inputs else None, outputs), settings, functions)
    typer.echo("Test passed!" if problem is None else f"FAILED  {problem}")
    if problem is not None:
        raise typer.Exit(1)


def _selected(paths: Sequence[Path], name_filter: str | None) -> Iterator[SqlTest]:
    for path in paths:
        for file in files_in(path):
            for each in tests_of(file):
                if name_filter is None or name_filter.lower() in each.name.lower():
                    yield each


def _run(tests: Sequence[SqlTest], settings: Mapping[str, object], functions: FunctionRegistry) -> int:
    """How many fail; each is printed when it has run."""
    failed = 0
    for each in tests:
        failure = failure_of(each, settings, functions)
        if failure is None:
            typer.echo(f"ok      {each.file}: {each.name}")
        else:
            failed += 1
            indented = "\n".join(f"        {line}" for line in failure.reason.splitlines())
            typer.echo(f"FAILED  {each.file}:{failure.line}: {each.name}\n{indented}")
    return failed
