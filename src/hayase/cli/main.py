"""The `hayase` command: its sub-commands, and how errors are shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from hayase.cli.deferred import Deferred, group_of
from hayase.cli.extras import how_to_install
from hayase.core.errors import HayaseError

COMMANDS = (
    Deferred("demo", "hayase.cli.demo.command", "demo", "Run the e-commerce example and show its result."),
    Deferred("run", "hayase.cli.run", "run", "Run an application on Spark, here or on a cluster."),
    Deferred("describe", "hayase.cli.describe", "describe", "Show a topology and the form each part runs in."),
    Deferred("follow", "hayase.cli.follow", "follow", "Keep a copy of an application's stores up to date."),
    Deferred("connect", "hayase.cli.connect", "connect", "Run connectors, with the REST interface of Kafka Connect."),
    Deferred(
        "app", "hayase.cli.app_commands", "app_commands", "Look after applications: list, status, pause, resume, reset."
    ),
    Deferred(
        "connectors",
        "hayase.cli.connectors",
        "connectors",
        "Connectors of a worker: list, create, pause, restart, offsets.",
    ),
    Deferred("events", "hayase.cli.events", "events", "Aggregates: list, show, replay, verify, rebuild, erase."),
    Deferred("read-models", "hayase.cli.read_models", "read_models", "Read models: run, status, switch, verify, drop."),
    Deferred("runtime", "hayase.cli.runtime", "runtime_commands", "Run many topologies in one Spark application."),
    Deferred("saga", "hayase.cli.sagas", "sagas", "Sagas: list, show, retry, cancel."),
    Deferred("server", "hayase.cli.server", "server", "KsqlDB's server: REST, pull and push queries."),
    Deferred("sql", "hayase.cli.sql_commands", "sql", "KsqlDB's SQL: a shell, run, test."),
    Deferred("state", "hayase.cli.state", "state", "Stores: list, get, scan, epochs, followers, migrate."),
    Deferred("topics", "hayase.cli.topics", "topics", "Topics: create, list, alter, delete; produce and consume."),
    Deferred("trace", "hayase.cli.trace", "trace", "Everything that a correlation id caused, as a tree."),
    Deferred("dev", "hayase.cli.dev", "dev", "For development: kafka, warm-up."),
)

app = typer.Typer(
    name="hayase",
    cls=group_of(*COMMANDS),
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_ERROR_CHARACTERS = 1_000


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hayase {version('hayase')}")
        raise typer.Exit


@app.callback()
def hayase(
    debug: Annotated[bool, typer.Option("--debug", help="Show where errors come from.")] = False,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Kafka Streams and ksqlDB's SQL for Python, on Apache Spark.

    Begin with `hayase demo`. Every command has --help with examples.
    """


def run_cli(arguments: Sequence[str]) -> int:
    """Run the command with these arguments; its exit code.

    Codes: 0 done, 1 an error, 2 wrong arguments, 130 interrupted; `hayase run` also 3. An error is one line on standard
    error; `--debug` shows its trace as well.
    """
    try:
        code = app(list(arguments), standalone_mode=False, prog_name="hayase")
    except TyperException as error:
        message = error.format_message()
        asked_for_nothing = message.startswith("Usage:")  # a group without a sub-command: its help
        typer.echo(message if asked_for_nothing else f"error: {message}{_help_hint(error)}", err=True)
        return error.exit_code
    except Abort:
        typer.echo("not confirmed; nothing was changed", err=True)
        return 1
    except BrokenPipeError:
        return 1
    except Exception as error:  # the last place where a failure can be put into words
        if "--debug" in arguments:
            raise
        typer.echo(f"error: {_one_line(error)}", err=True)
        return 1
    return code if isinstance(code, int) else 0


def _help_hint(error: TyperException) -> str:
    """Where to read on, for wrong arguments."""
    context = getattr(error, "ctx", None)
    return f" (`{context.command_path} --help` shows what is allowed)" if context is not None else ""


def _one_line(error: Exception) -> str:
    if isinstance(error, HayaseError):
        text = f"{error.message}{f' ({error.where})' if error.where else ''} [{error.condition}]"
    elif isinstance(error, ModuleNotFoundError) and (missing := how_to_install(error)) is not None:
        text = f"{missing} [PACKAGE_MISSING]"
    else:
        text = f"{type(error).__name__}: {error} (`hayase --debug …` shows where)"
    text = " ".join(text.split())
    return text if len(text) <= _ERROR_CHARACTERS else f"{text[:_ERROR_CHARACTERS]} … (`hayase --debug …` shows it all)"


def main() -> None:
    """Entry point of the command."""
    sys.exit(run_cli(sys.argv[1:]))
