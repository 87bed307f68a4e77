"""`hayase saga …`: the sagas of an application."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import msgspec
import typer

from hayase.cli.load import load
from hayase.cli.options import BootstrapServers, Config, ConfigFile, LogDir
from hayase.cli.run import Target, program_settings
from hayase.cli.state_output import Output, lines_of
from hayase.core.time import to_iso
from hayase.patterns.app import PatternsApp, saga_named
from hayase.patterns.saga.rows import OPEN, SagaRow
from hayase.patterns.saga.saga import CancelSaga, RetrySaga, Saga

sagas = typer.Typer(no_args_is_help=True, help="Sagas: list, show, retry, cancel.", rich_markup_mode=None)

_STUCK_TRIES = 5

SagaName = Annotated[str, typer.Argument(metavar="SAGA")]
SagaId = Annotated[str, typer.Argument(metavar="ID")]
Format = Annotated[Output, typer.Option("--format", help="A table, or one JSON object a line.")]
Timeout = Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How long the reply is waited for.")]


@sagas.callback()
def _group() -> None:
    """Look at the sagas of an application, while it runs or not: list, show; and order: retry, cancel.

    Use the settings the application runs with (application.id, state.dir, where the topics are).
    """


@sagas.command("list", short_help="The open sagas: what they wait for.")
def list_sagas(
    target: Target,
    saga: Annotated[str | None, typer.Argument(metavar="SAGA")] = None,
    stuck: Annotated[
        bool,
        typer.Option(
            "--stuck",
            help=f"Only those that have sent one command more than {_STUCK_TRIES} times, or whose action was accepted "
            "with other events than its step waits for.",
        ),
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Also those that have ended and are still remembered.")] = False,
    output: Format = Output.TABLE,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Print the open sagas with the steps that are under way, and how often their commands were sent.

    For example:

        hayase saga list shop.py:topology

        hayase saga list shop.py:topology checkout --stuck
    """
    app = _app(target, config, config_file, log_dir, bootstrap_servers)
    chosen = [saga_named(app.sagas, saga)] if saga is not None else [app.sagas[name] for name in sorted(app.sagas)]
    rows = []
    for each in chosen:
        for found in app.store(each.state_store).all().rows:
            row: SagaRow = found.value
            if (row.status in OPEN or (every and not stuck)) and (not stuck or row.stuck or row.tries > _STUCK_TRIES):
                rows.append(_summary(each, row))
    _print(rows, output)


@sagas.command(short_help="The steps of one saga.")
def show(
    target: Target,
    saga: SagaName,
    saga_id: SagaId,
    output: Format = Output.TABLE,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Print the steps of a saga: their state, how often their commands were sent, when they are sent again, and why.

    Ends with code 1 if there is no such saga.

    For example:

        hayase saga show shop.py:topology checkout 17
    """
    app = _app(target, config, config_file, log_dir, bootstrap_servers)
    chosen = saga_named(app.sagas, saga)
    row: SagaRow | None = app.store(chosen.state_store).get(saga_id).value
    if row is None:
        typer.echo(f"there is no {chosen.name} {saga_id!r}: it never began, or it ended and is forgotten", err=True)
        raise typer.Exit(1)
    ended = f": {row.reason}" if row.reason else ""
    typer.echo(
        f"{chosen.name} {row.id}, version {row.version}: {row.status}{ended}; since {to_iso(row.started_ms)}, with "
        f"{bytes(row.data).decode()}",
        err=True,
    )
    steps = [
        {
            "step": name,
            "status": step.status,
            "action": step.attempt,
            "undo": step.undo_attempt,
            "sent": step.tries,
            "next": to_iso(step.due_ms) if step.due_ms else "",
            "reason": step.reason,
        }
        for name, step in row.steps.items()
    ]
    _print(steps, output)


@sagas.command(short_help="Send at once what a saga waits for.")
def retry(
    target: Target,
    saga: SagaName,
    saga_id: SagaId,
    timeout: Timeout = 30.0,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send the commands that a saga waits to send, or whose answers it waits for, now. The application must run.

    Ends with code 1 if it waits for nothing, or there is no such saga.

    For example:

        hayase saga retry shop.py:topology checkout 17
    """
    _order(_app(target, config, config_file, log_dir, bootstrap_servers), saga, saga_id, RetrySaga(), timeout)


@sagas.command(short_help="Take a saga back.")
def cancel(
    target: Target,
    saga: SagaName,
    saga_id: SagaId,
    reason: Annotated[str, typer.Option("--reason", help="Kept with the saga.")] = "cancelled",
    timeout: Timeout = 30.0,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Take back what a saga has done, if its pivot has not succeeded. The application must run.

    Ends with code 1 if there is no way back, or no such saga.

    For example:

        hayase saga cancel shop.py:topology checkout 17 --reason "the customer called"
    """
    _order(_app(target, config, config_file, log_dir, bootstrap_servers), saga, saga_id, CancelSaga(reason), timeout)


def _app(
    target: str, config: Config, config_file: ConfigFile, log_dir: LogDir, bootstrap_servers: BootstrapServers
) -> PatternsApp:
    loaded = load(target)
    return PatternsApp(loaded.topology, program_settings(loaded, config, config_file, log_dir, bootstrap_servers))


def _order(app: PatternsApp, saga: str, saga_id: str, command: object, timeout: float) -> None:
    chosen = saga_named(app.sagas, saga)
    with app.commands(chosen.name, source="/hayase-saga") as client:
        reply = client.send(saga_id, command, timeout=timedelta(seconds=timeout))
    if not reply.accepted:
        typer.echo(f"{chosen.name} {saga_id!r}: {reply.status}: {reply.reason}", err=True)
        raise typer.Exit(1)
    typer.echo(f"{chosen.name} {saga_id!r}: accepted")


def _summary(saga: Saga[Any], row: SagaRow) -> dict[str, object]:
    under_way = [name for name, step in row.steps.items() if step.status in ("acting", "undoing")]
    return {
        "saga": saga.name,
        "id": row.id,
        "version": row.version,
        "status": row.status,
        "steps": ", ".join(under_way),
        "sent": row.tries,
        "changed": to_iso(row.changed_ms),
        "reason": row.reason or next((row.steps[name].reason for name in under_way if row.steps[name].reason), ""),
        "data": msgspec.json.decode(row.data),
    }


def _print(rows: list[dict[str, object]], output: Output) -> None:
    for line in lines_of(rows, output):
        typer.echo(line)
