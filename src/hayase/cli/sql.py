"""`hayase sql …`: ksqlDB's SQL."""

from __future__ import annotations

import typer

from hayase.cli.sql_run import run

_HELP = "ksqlDB's SQL: run a script as a program."

sql = typer.Typer(no_args_is_help=True, help=_HELP, rich_markup_mode=None)


@sql.callback(help=_HELP)
def _group() -> None:
    """See `_HELP`."""


sql.command(short_help="Run a script as a program on Spark.")(run)
