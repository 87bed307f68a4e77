"""`hayase app …`: what can be done to an application that is not running."""

from __future__ import annotations

from typing import Annotated

import typer

from hayase.app.reset import plan_reset, reset_application
from hayase.cli.options import BootstrapServers, Config, ConfigFile, LogDir, log_settings, opened_log, read_settings
from hayase.core.config import StreamsConfig

app_commands = typer.Typer(no_args_is_help=True, help="Look after applications: reset.", rich_markup_mode=None)


@app_commands.callback()
def _group() -> None:
    """Look after applications: reset."""


@app_commands.command()
def reset(
    application_id: Annotated[str, typer.Argument(metavar="APPLICATION_ID", help="The setting application.id.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Make an application start over: forget its state and how far it has read.

    Removes its checkpoint, its local state, and its markers and committed offsets in the log. Topics are left alone: the
    next run reads its input from the beginning and writes its output again, behind what is there. Refused while the
    application runs. Use the settings it runs with (state.dir, checkpoint.dir, where the topics are).

    For example:

        hayase app reset shop

        hayase app reset shop --yes -c state.dir=/var/lib/shop -b localhost:9092
    """
    settings = {**log_settings(log_dir, bootstrap_servers), **read_settings(config, config_file)}
    streams_config = StreamsConfig({**settings, "application.id": application_id})
    plan = plan_reset(streams_config)
    for folder in plan.present:
        typer.echo(f"removes {folder}")
    if not plan.present:
        typer.echo(f"no checkpoint and no state of {application_id!r} in {plan.state.parent}")
    if not yes:
        typer.confirm(f"Forget everything that application {application_id!r} remembers?", abort=True)
    with opened_log(streams_config.log_dir if streams_config.embedded else None, _servers(streams_config)) as log:
        reset_application(streams_config, log)
    typer.echo(f"application {application_id!r} starts over when it is run next; its topics are as they were")


def _servers(config: StreamsConfig) -> str | None:
    return ",".join(config.bootstrap_servers) or None
