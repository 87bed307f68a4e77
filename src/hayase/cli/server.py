"""`hayase server`: ksqlDB's server: run, restore, user."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hayase.app.stop_request import StopRequest
from hayase.cli.options import (
    BootstrapServers,
    Config,
    ConfigFile,
    Functions,
    LogDir,
    log_settings,
    read_settings,
)
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, LeaseHeldError
from hayase.core.logs import configure_logging
from hayase.core.time import SystemClock
from hayase.log.config import log_config
from hayase.log.open import open_log_of_user

if TYPE_CHECKING:
    from hayase.server.settings import ServerSettings

_SWITCH_S = 0.0005
"""How long a thread that computes keeps another one waiting: a request passes between threads several times, each time
behind all that compute, and Python's 5 ms would add up to more than a look-up may take."""
_HELP = "KsqlDB's server: REST, pull and push queries."

server = typer.Typer(invoke_without_command=True, help=_HELP, rich_markup_mode=None)


@server.callback()
def run_server(
    context: typer.Context,
    listen: Annotated[
        str | None, typer.Option("--listen", "-l", metavar="URL", help="Where it listens, e.g. http://127.0.0.1:8088.")
    ] = None,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Run queries in this process, with bounded state, without Spark.")
    ] = False,
    queries_file: Annotated[
        Path | None, typer.Option("--queries-file", metavar="FILE.sql", help="As `hayase sql run FILE.sql`.")
    ] = None,
    functions: Functions = None,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Serve until Ctrl-C; queries go on at the next start.

    Without settings it listens at http://127.0.0.1:8088, with an embedded log and an embedded schema registry.

    For example:

        hayase server

        hayase server --in-process --listen http://127.0.0.1:9000

        hayase server -b localhost:9092 -c ksql.service.id=shop_
    """
    if context.invoked_subcommand is not None:
        return
    given = dict(_settings(config, config_file, log_dir, bootstrap_servers))
    if listen is not None:
        given["listeners"] = listen
    if queries_file is not None:
        _run_file(queries_file, given, functions or [])
        return
    if in_process:
        given["hayase.server.in.process"] = "true"
    _serve(given, functions or [])


@server.command(short_help="Put the commands of a backup in place of the command topic.")
def restore(
    backup: Annotated[Path, typer.Argument(metavar="FILE", help="From ksql.metastore.backup.location.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Replace what is there without asking.")] = False,
    config: Config = None,
    config_file: ConfigFile = None,
    log_dir: LogDir = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Replace the command topic by a backup. Stop the server before.

    Topics of streams and tables, and the state of queries, stay as they are.
    """
    from hayase.server.commands.backup import whole_lines
    from hayase.server.commands.log import CommandLog
    from hayase.server.settings import ServerSettings

    settings = ServerSettings.of(_settings(config, config_file, log_dir, bootstrap_servers))
    try:
        lines, cut = whole_lines(backup.read_bytes())
    except OSError as error:
        raise ConfigError("BACKUP_NOT_FOUND", f"{backup} cannot be read: {error}") from error
    if not yes:
        typer.confirm(f"Replace {settings.command_topic} by {len(lines)} records of {backup}?", abort=True)
    with _stopped_server(settings), closing(open_log_of_user(log_config(StreamsConfig(settings.runtime)))) as log:
        commands = CommandLog(log, settings.command_topic, SystemClock().now_ms)
        count = commands.replace(lines, str(backup))
        commands.close()
    if cut:
        typer.echo(f"line {len(lines) + 1} of {backup} was cut, and is left out", err=True)
    typer.echo(f"{count} records restored to {settings.command_topic}")


@server.command(short_help="Print a line for the users file.")
def user(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the user.")],
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="read, write or admin.")] = "read",
    password: Annotated[
        str | None,
        typer.Option("--password", help="Better asked for at the terminal, or the first line of the standard input."),
    ] = None,
) -> None:
    """Print a user with the hash of a password: a line for the file of hayase.server.users.file.

    For example:

        hayase server user ada --role write >> users

        hayase server user ada --role write < password >> users
    """
    from hayase.server.security.users import Role, check_name, user_line

    roles = {each.name.lower(): each for each in Role}
    if role not in roles:
        raise ConfigError("INVALID_USER", f"{role!r} is no role; there are {', '.join(roles)}")
    check_name(name)
    typer.echo(user_line(name, roles[role], _password() if password is None else password))


def _password() -> str:
    """What is typed twice at a terminal, else the first line of the standard input."""
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise ConfigError("INVALID_USER", "there is no password: the first line of the standard input is empty")
    return password


@contextmanager
def _stopped_server(settings: ServerSettings) -> Iterator[None]:
    """As long as no server of the same state folder runs; raises ConfigError `SERVER_RUNS`."""
    from hayase.runtime.driver.lease import lease_for
    from hayase.storage.posix_blobs import PosixBlobs

    with ExitStack() as held:
        try:
            held.enter_context(lease_for(PosixBlobs(settings.state_folder), "restore"))
        except LeaseHeldError as error:
            raise ConfigError(
                "SERVER_RUNS",
                f"the server of ksql.service.id {settings.service_id} runs: stop the server, then restore its commands",
            ) from error
        yield


def _settings(
    config: list[str] | None, config_file: Path | None, log_dir: Path | None, bootstrap_servers: str | None
) -> Mapping[str, object]:
    return read_settings(config, config_file, log_settings(log_dir, bootstrap_servers))


def _run_file(file: Path, given: Mapping[str, object], functions: list[str]) -> None:
    """Run a file of queries; where a server would listen only its health and its metrics answer."""
    from hayase.cli.functions import registry_with
    from hayase.cli.sql_run import run_script
    from hayase.server.settings import OWN_SETTINGS, ServerSettings

    listener = ServerSettings.of(given).listener
    if listener.is_tls:
        raise ConfigError(
            "INVALID_SETTING",
            f"a file of queries serves health and metrics without TLS: listeners must be http://…, not {listener.url}",
            setting="listeners",
        )
    place = {"metrics.host": listener.host, "metrics.port": listener.port}
    settings = place | {name: value for name, value in given.items() if name not in OWN_SETTINGS}
    where = f"{settings['metrics.host']}:{settings['metrics.port']}"
    typer.echo(f"/healthcheck, /health, /ready and /metrics at {where}; nothing else is answered")
    run_script(file, settings, registry_with(functions))


def _serve(given: Mapping[str, object], functions: list[str]) -> None:
    from hayase.server.commands.early_log import open_early
    from hayase.server.hosts.priority import shorten_slices
    from hayase.server.settings import ServerSettings

    settings = ServerSettings.of(given)
    config = StreamsConfig(settings.runtime)
    if config.log_format is None:
        configure_logging(form="text", level=config.log_level or "WARNING", secrets=config.secrets)
    sys.setswitchinterval(_SWITCH_S)
    shorten_slices()
    log = open_early(config, settings.command_topic)

    from hayase.cli.functions import registry_with  # slow to import, as what is below; the log gets ready meanwhile
    from hayase.server.server import open_server
    from hayase.server.serving import serve
    from hayase.server.warm_up import import_planning

    context = open_server(settings, registry_with(functions), log=log, start_queries=False)
    try:
        with StopRequest() as stop:
            http = serve(context)
            try:
                where = "in this process" if settings.in_process else "on Spark, which is starting"
                typer.echo(f"listening at {http.url} for ksqlDB's clients; queries run {where}; Ctrl-C stops")
                if context.commands.problem is not None:
                    typer.echo(f"DEGRADED: {context.commands.problem}", err=True)
                import_planning()  # here, and not in a thread, which could not be ended with the process
                context.start_queries()
                while not stop.asked:
                    stop.wait(0.25)
            finally:
                context.push_queries.close_all()
                http.stop()
    finally:
        context.close()
    typer.echo("stopped")
