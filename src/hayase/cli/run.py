"""`hayase run`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from hayase.app.app import FINAL, StreamsApp
from hayase.app.stop_request import StopRequest
from hayase.cli.default_id import note_of_earlier_default, with_default_id
from hayase.cli.lifecycle import run_app
from hayase.cli.load import Loaded, load
from hayase.cli.nothing_written import nothing_written
from hayase.cli.options import (
    BootstrapServers,
    Config,
    ConfigFile,
    DeleteRemovedStores,
    LogDir,
    log_settings,
    read_settings,
)
from hayase.cli.progress import PlainProgress, run_text
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError
from hayase.core.logs import configure_logging
from hayase.patterns.app import PatternsApp
from hayase.patterns.relations import aggregates_of, sagas_of

_PROGRESS_EVERY_S = 5.0
_EXIT_MID_EPOCH = 3

Target = Annotated[
    str,
    typer.Argument(
        metavar="FILE:NAME",
        help="A Python file (or module) and the Topology, StreamsBuilder, StreamsApp or function returning one in it. "
        "Without :NAME: app, topology or builder.",
    ),
]


def run(
    target: Target,
    config: Config = None,
    config_file: ConfigFile = None,
    to_end: Annotated[bool, typer.Option("--to-end", help="Process what is in the topics now, then stop.")] = False,
    close_timeout: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="How long the epoch at work may take to finish when stopped."),
    ] = 60.0,
    delete_removed_stores: DeleteRemovedStores = False,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Run an application on Spark, on this machine or on a cluster (spark.master), until Ctrl-C or SIGTERM.

    It goes on where it stopped the last time. `application.id` is the name of the file or module unless a setting says
    otherwise; of a module `visits.app` (app, main, stream, streams or topology) it is that of the package.
    A StreamsApp brings its own settings.

    Exit codes: 0 stopped as asked or at the end of the input, 1 failed, 2 wrong arguments, 3 stopped in the middle of
    an epoch because of --close-timeout (the next start finishes it).

    For example:

        hayase run examples/quickstart.py:topology --to-end

        hayase run shop.py:topology -c application.id=shop -c processing.guarantee=at_least_once

        hayase run shop.py:topology --config-file shop.properties -b localhost:9092

        hayase run shop.py:topology -b kafka:9092 -c spark.master=spark://host:7077 -c num.stream.threads=8
    """
    loaded = load(target)
    app = _application(loaded, program_settings(loaded, config, config_file, log_dir, bootstrap_servers))
    if delete_removed_stores:
        app.delete_removed_stores()
    if loaded.module is not None:
        from hayase.runtime.wire.pickling import by_value

        by_value(loaded.module)
    for note in filter(None, (*app.config.notes, note_of_earlier_default(loaded, app.config))):
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"application {app.config.application_id}, {_place(app.config)}; Ctrl-C stops it")
    if app.config.log_format is None:
        shown = configure_logging(form="text", level=app.config.log_level or "WARNING", secrets=app.config.secrets)
        shown.addFilter(lambda record: not hasattr(record, FINAL))  # the command itself says what ended it
    progress = PlainProgress(typer.echo, _PROGRESS_EVERY_S)
    with StopRequest() as stop:
        clean = run_app(app, stop, to_end=to_end, close_timeout=timedelta(seconds=close_timeout), on_tick=progress.tick)
    last = app.progress()
    typer.echo(f"stopped: {run_text(last)}")
    if to_end and (hint := nothing_written(app.topology, last)) is not None:
        typer.echo(hint)
    if not clean:
        typer.echo("the epoch at work was not finished in time; the next start finishes it", err=True)
        raise typer.Exit(_EXIT_MID_EPOCH)


def streams_config(loaded: Loaded, settings: dict[str, object]) -> StreamsConfig:
    """The settings of a topology that has none of its own."""
    return with_default_id(loaded, settings)


def settings_of(loaded: Loaded, settings: dict[str, object]) -> StreamsConfig:
    """The settings of what was loaded: its own if it is a StreamsApp, else those given.

    Raises:
        ConfigError: a StreamsApp and settings.
    """
    if not isinstance(loaded.target, StreamsApp):
        return streams_config(loaded, settings)
    if settings:
        raise ConfigError(
            "INVALID_SETTING",
            "a StreamsApp has its own settings, so --config and --config-file cannot be used; name its topology "
            "instead",
        )
    return loaded.target.config


def program_settings(
    loaded: Loaded, config: Config, config_file: ConfigFile, log_dir: LogDir, bootstrap_servers: BootstrapServers
) -> StreamsConfig:
    """The settings of a program by the options that `hayase run` has; raises as `settings_of` and `log_settings`."""
    topics = log_settings(log_dir, bootstrap_servers)
    if isinstance(loaded.target, StreamsApp):  # it knows itself where they are
        topics = {}
    return settings_of(loaded, read_settings(config, config_file, topics))


def _application(loaded: Loaded, config: StreamsConfig) -> StreamsApp:
    if isinstance(loaded.target, StreamsApp):
        return loaded.target
    patterns = aggregates_of(loaded.target) or sagas_of(loaded.target)
    kind = PatternsApp if patterns else StreamsApp  # the former makes topics of aggregates and sagas
    return kind(loaded.target, config)


def _place(config: StreamsConfig) -> str:
    if config.bootstrap_servers:
        return f"topics in Kafka at {','.join(config.bootstrap_servers)}"
    return f"topics in the embedded log {config.log_dir}"
