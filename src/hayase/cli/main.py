"""The `hayase` command: its sub-commands, and how errors are shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import click
import typer

from hayase.cli.demo.command import demo
from hayase.core.errors import HayaseError

app = typer.Typer(
    name="hayase",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    """Kafka Streams and ksqlDB for Python, on Apache Spark.

    Begin with `hayase demo`. Every command has --help with examples.
    """


app.command()(demo)


def run_cli(arguments: Sequence[str]) -> int:
    """Run the command with these arguments; its exit code.

    Codes: 0 done, 1 an error, 2 wrong arguments, 130 interrupted; `hayase run` also 3. An error is one line on standard
    error; `--debug` shows its trace as well.
    """
    try:
        code = app(list(arguments), standalone_mode=False, prog_name="hayase")
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        typer.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        return 1
    except Exception as error:  # the last place where a failure can be put into words
        if "--debug" in arguments:
            raise
        typer.echo(f"error: {_one_line(error)}", err=True)
        return 1
    return code if isinstance(code, int) else 0


def _one_line(error: Exception) -> str:
    if isinstance(error, HayaseError):
        where = ", ".join(f"{name} {value}" for name, value in error.context.items())
        text = f"{error.message}{f' ({where})' if where else ''} [{error.condition}]"
    else:
        text = f"{type(error).__name__}: {error} (`hayase --debug …` shows where)"
    return " ".join(text.split())


def main() -> None:
    """Entry point of the command."""
    sys.exit(run_cli(sys.argv[1:]))
