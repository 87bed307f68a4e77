"""`hayase sql run`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from hayase.app.sql_program import SqlProgram, check_script_file
from hayase.app.states import State
from hayase.app.stop_request import StopRequest
from hayase.cli.functions import registry_with
from hayase.cli.lifecycle import run_runtime_to_end
from hayase.cli.options import (
    BootstrapServers,
    Config,
    ConfigFile,
    Functions,
    LogDir,
    log_settings,
    read_settings,
    settings_of_pairs,
)
from hayase.cli.progress import run_text
from hayase.core.logs import configure_logging
from hayase.sql.errors import SqlError
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.grammar.variables import Variables


def run(
    script: Annotated[Path, typer.Argument(metavar="FILE.sql", help="Statements of ksqlDB's SQL.")],
    define: Annotated[
        list[str] | None, typer.Option("--define", "-d", metavar="NAME=VALUE", help="A variable, for ${NAME}.")
    ] = None,
    functions: Functions = None,
    config: Config = None,
    config_file: ConfigFile = None,
    to_end: Annotated[bool, typer.Option("--to-end", help="Process what is in the topics now, then stop.")] = False,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Run a script as a program on Spark (ksqlDB's headless mode): its queries share one runtime.

    A script with an error starts nothing. It goes on where it stopped the last time; queries that are new begin where
    auto.offset.reset says (`latest`, as in ksqlDB). `application.id` is the file's name unless a setting says
    otherwise.

    For example:

        hayase sql run shop.sql

        hayase sql run shop.sql --to-end -c auto.offset.reset=earliest -b localhost:9092
    """
    settings = read_settings(config, config_file, log_settings(log_dir, bootstrap_servers))
    variables = Variables({name: str(value) for name, value in settings_of_pairs(define, "--define").items()})
    run_script(script, settings, registry_with(functions or []), variables, to_end=to_end)


def run_script(
    script: Path,
    settings: Mapping[str, object],
    functions: FunctionRegistry,
    variables: Variables | None = None,
    *,
    to_end: bool = False,
) -> None:
    """Run a script until Ctrl-C, or to the end of its topics, and say what it does.

    Args:
        script: the file.
        settings: of SQL, of the runtime and of Spark, by name.
        functions: that the script may call.
        variables: for `${name}`.
        to_end: process what is in the topics now, then stop.

    Raises:
        HayaseError: the script or a setting is wrong, or a query has failed.
    """
    text = check_script_file(script)
    settings = {"application.id": _id_of(script), **settings}
    try:
        program = SqlProgram(text, settings, variables=variables, functions=functions)
    except SqlError as error:
        error.context = {"file": str(script), **error.context}
        raise
    with program:
        _show(program)
        runtime = program.runtime
        if runtime.config.log_format is None:
            level = runtime.config.log_level or "WARNING"
            configure_logging(form="text", level=level, secrets=runtime.config.secrets)
        with StopRequest() as stop:
            if to_end:
                for name, report in run_runtime_to_end(program.run_to_end, runtime, stop).items():
                    typer.echo(f"{name}: {run_text(report)}")
                if stop.asked:
                    typer.echo("stopped before the end; the next run goes on from there")
                return
            program.start()
            shown: set[str] = set()
            while not stop.asked and runtime.state is State.RUNNING:
                _show_failed(program, shown)
                stop.wait(0.25)
    if runtime.error is not None:
        raise runtime.error
    typer.echo("stopped")


def _show(program: SqlProgram) -> None:
    for warning in program.warnings:
        typer.echo(f"warning: {warning}", err=True)
    reset = program.engine.settings.get("auto.offset.reset", "latest")
    typer.echo(
        f"{len(program.queries)} queries of {program.runtime.config.application_id}; those without a position begin at "
        f"{reset} (auto.offset.reset); Ctrl-C stops them"
    )
    for name, query in program.queries.items():
        typer.echo(f"{name}\t{', '.join(query.source_topics)} -> {query.sink_topic or 'a table'}")


def _show_failed(program: SqlProgram, shown: set[str]) -> None:
    """Say which queries have failed since the last time; they are noted in `shown`."""
    for name, app in sorted(program.runtime.topologies.items()):
        if app.error is None:
            shown.discard(name)
        elif name not in shown:
            shown.add(name)
            line = program.statement(name).location.line
            typer.echo(f"{name} (line {line}) has failed, the others go on: {app.error}", err=True)


def _id_of(script: Path) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in script.stem) or "sql"
