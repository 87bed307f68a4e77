"""`hayase app …`: looking after applications: list, status, pause, resume, reset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from hayase.app.app import StreamsApp
from hayase.app.reset import forget_markers, is_in_log, plan_reset, reset_application
from hayase.app.run_status import (
    ApplicationStatus,
    application_status,
    applications,
    has_state,
    pause_application,
    resume_application,
)
from hayase.cli.load import load
from hayase.cli.options import AsJson, BootstrapServers, Config, ConfigFile, LogDir, log_of, log_settings, read_settings
from hayase.cli.progress import dropped_text
from hayase.cli.run import streams_config
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, StateError

_HELP = "Look after applications: list, status, pause, resume, reset."
_NOT_RUNNING = 3

Application = Annotated[
    str,
    typer.Argument(
        metavar="APPLICATION_ID|FILE:NAME",
        help="The setting application.id (`hayase app list` shows them), or the program, as for `hayase run`.",
    ),
]

app_commands = typer.Typer(no_args_is_help=True, help=_HELP, rich_markup_mode=None)


@app_commands.callback(help=_HELP)
def _group() -> None:
    """See `_HELP`."""


@app_commands.command(short_help="Whether an application runs, how far it is, and why it ended.")
def status(
    target: Application,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Tell how an application is: running, paused, how far, and why it ended.

    Looks at the lease, the checkpoint and what the run says twice a second; changes nothing. Name the application, or
    the program, and the settings as for `hayase run`; on the machine where it runs.

    Exit codes: 0 it runs, 3 it does not run.

    For example:

        hayase app status quickstart

        hayase app status examples/quickstart.py

        hayase app status shop.py:topology -c application.id=shop --json
    """
    status_now = application_status(_settings(target, config, config_file))
    typer.echo(msgspec.json.encode(status_now).decode() if as_json else "\n".join(_lines(status_now)))
    if not status_now.running:
        raise typer.Exit(_NOT_RUNNING)


@app_commands.command("list", short_help="The applications that have state on this machine.")
def list_applications(
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that failed before their first epoch was finished.")
    ] = False,
    as_json: AsJson = False,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Print the applications that have their state on this machine: whether they run, and the last finished epoch.

    Looks into `state.dir`; applications whose checkpoint is elsewhere (`checkpoint.dir`) are found by their local
    state, and their epoch is not known. Those that failed before their first epoch was finished are counted only,
    unless --all or --json is given.

    For example:

        hayase app list

        hayase app list -c state.dir=/var/lib/hayase --json
    """
    settings = read_settings(config, config_file)
    statuses = applications(settings)
    left_out = [] if everything or as_json else [each.application_id for each in statuses if each.failed_at_start]
    for each in statuses:
        if each.application_id in left_out:
            continue
        epoch = each.finished_epoch if each.finished_epoch >= 0 else None
        if as_json:
            fields = {"application_id": each.application_id, "running": each.running, "finished_epoch": epoch}
            typer.echo(msgspec.json.encode(fields).decode())
        else:
            done = "no epoch is finished" if epoch is None else f"epoch {epoch}"
            typer.echo(f"{each.application_id}\t{'running' if each.running else 'not running'}\t{done}")
    if left_out:
        typer.echo(
            f"{len(left_out)} more failed before their first epoch was finished: --all lists them, "
            f"`hayase app reset {left_out[0]}` removes what is left of one",
            err=True,
        )
    if not statuses and not as_json:
        typer.echo(
            f"no application has state in {StreamsConfig({**settings, 'application.id': '-'}).state_dir}", err=True
        )


@app_commands.command(short_help="Have a running application begin no new epochs.")
def pause(
    target: Application,
    timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long to wait until the epoch at work is finished.")
    ] = 30.0,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Have a running application begin no new epochs until it is resumed.

    The epoch at work is finished; stores can be read meanwhile. A pause ends with the process: a new start is not
    paused. Name the application, or the program, and the settings as for `hayase run`; on the machine where it runs.

    For example:

        hayase app pause quickstart
    """
    settings = _settings(target, config, config_file)
    if pause_application(settings, timeout_s=timeout):
        typer.echo(f"application {settings.application_id!r} is paused")
    else:
        typer.echo(f"application {settings.application_id!r} is paused as soon as the epoch at work is finished")


@app_commands.command()
def resume(target: Application, config: Config = None, config_file: ConfigFile = None) -> None:
    """Have a paused application go on.

    For example:

        hayase app resume quickstart
    """
    settings = _settings(target, config, config_file)
    was_paused = resume_application(settings)
    typer.echo(f"application {settings.application_id!r} {'goes on' if was_paused else 'was not paused'}")


@app_commands.command(short_help="Make an application start over.")
def reset(
    application_id: Annotated[str, typer.Argument(metavar="APPLICATION_ID", help="The setting application.id.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    markers_only: Annotated[
        bool,
        typer.Option(
            "--markers-only",
            help="Keep checkpoint and state: forget only what the log remembers. For a checkpoint restored from an "
            "older copy; what was written since that copy is written again.",
        ),
    ] = False,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Make an application start over: forget its state and how far it has read.

    Removes its checkpoint, its local state, and its markers and committed offsets in the log. Topics are left alone:
    the next run reads its input from the beginning and writes its output again, behind what is there. Refused while the
    application runs. Use the settings it runs with (state.dir, checkpoint.dir, where the topics are).

    For example:

        hayase app reset shop

        hayase app reset shop --yes -c state.dir=/var/lib/shop -b localhost:9092
    """
    settings = read_settings(config, config_file, log_settings(log_dir, bootstrap_servers))
    streams_config = StreamsConfig({**settings, "application.id": application_id})
    if markers_only:
        if not yes:
            typer.confirm(f"Write again what {application_id!r} wrote since its checkpoint's last epoch?", abort=True)
        with log_of(streams_config) as log:
            forget_markers(streams_config, log)
        typer.echo(
            f"the log remembers nothing of {application_id!r}; it goes on with its checkpoint when it is run next"
        )
        return
    plan = plan_reset(streams_config)
    for folder in plan.present:
        typer.echo(f"to be removed: {folder}")
    with log_of(streams_config) as log:
        if not plan.present:
            if not is_in_log(streams_config, log):
                raise StateError(
                    "NO_STATE",
                    f"nothing is known of an application {application_id!r}: there is no checkpoint in "
                    f"{plan.checkpoint}, no state in {plan.state.parent}, and nothing of it in the log. Nothing was "
                    "done; give its application.id, and the settings that it runs with (state.dir, checkpoint.dir, "
                    "where the topics are)",
                )
            typer.echo(
                f"no checkpoint in {plan.checkpoint} and no state in {plan.state.parent}: only what the log remembers "
                "is removed. If the application has its checkpoint elsewhere, say where: -c checkpoint.dir=…"
            )
        if not yes:
            typer.confirm(f"Forget everything that application {application_id!r} remembers?", abort=True)
        reset_application(streams_config, log)
    typer.echo(f"application {application_id!r} starts over when it is run next; its topics are as they were")


def _settings(target: str, config: list[str] | None, config_file: Path | None) -> StreamsConfig:
    """Those the application runs with, as far as they say where it is.

    A name that is that of a folder in `state.dir` is an application.id; any other one is a program.
    """
    settings = read_settings(config, config_file)
    if ":" in target or target.endswith(".py"):
        return _settings_of_program(target, settings)
    named = StreamsConfig({**settings, "application.id": target})
    if has_state(named.state_dir / target) or "checkpoint.dir" in settings:
        return named
    try:
        return _settings_of_program(target, settings)
    except ConfigError as error:
        if error.condition != "APP_NOT_FOUND":
            raise
        raise StateError(
            "NO_STATE",
            f"there is no application {target!r}: nothing of it is in {named.state_dir} (`hayase app list` shows what "
            "is), and it is no module. Give its application.id and the settings that it runs with (state.dir, "
            "checkpoint.dir), or the program as FILE:NAME",
        ) from error


def _settings_of_program(target: str, settings: dict[str, object]) -> StreamsConfig:
    loaded = load(target)
    if isinstance(loaded.target, StreamsApp):
        return loaded.target.config
    return streams_config(loaded, settings)


def _lines(status: ApplicationStatus) -> list[str]:
    """The status for people.

    Example:
        >>> _lines(ApplicationStatus("shop", False, "", False, False, -1, None))
        ["application 'shop' is not running", 'no epoch is finished']
    """
    run = status.run
    state = f"{run.state if run is not None else 'starting'}, {status.holder}" if status.running else "not running"
    pause = ", paused" + ("" if status.holding else " after the epoch at work") if status.paused else ""
    lines = [f"application {status.application_id!r} is {state}{pause}"]
    done = status.finished_epoch
    lines.append(f"last epoch marked as finished: {done}" if done >= 0 else "no epoch is finished")
    if run is None:
        return lines
    lag = "unknown" if run.lag_records is None else f"{run.lag_records:,}"
    lines.append(
        f"{'this' if status.running else 'last'} run: {run.epochs:,} epochs, {run.consumed:,} records read, "
        f"{run.produced:,} written, {dropped_text(run.dropped, run.late, run.dead_letters)}, lag {lag}"
    )
    for what, detail in (
        ("started again after failures", str(run.replaced) if run.replaced else ""),
        ("waiting", run.waiting),
        ("metrics", run.metrics_url),
        ("it failed", run.error),
    ):
        if detail:
            lines.append(f"{what}: {detail}")
    return lines
