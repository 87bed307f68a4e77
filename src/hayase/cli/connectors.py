"""`hayase connectors …`: connectors of a worker, by its REST interface; of Kafka Connect as well."""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hayase.cli.connect import read_connector
from hayase.cli.options import AsJson
from hayase.connect.rest_client import RestClient, RestError, path_of
from hayase.core.errors import ConfigError, HayaseError

connectors = typer.Typer(
    no_args_is_help=True,
    help="Connectors of a worker: list, create, pause, restart, offsets.",
    rich_markup_mode=None,
)

_TIMEOUT_S = 90.0
_WAIT_S = 0.2
_OLD_FAILURE_S = 5.0
"""So long the failure of before may be the status of a connector that was changed."""
_NOT_FOUND = 404


def _complete(context: typer.Context, incomplete: str) -> list[str]:
    try:
        client = RestClient(str(context.params.get("url") or _DEFAULT_URL))
        return [name for name in client.names() if name.startswith(incomplete)]
    except HayaseError:
        return []


_DEFAULT_URL = "http://127.0.0.1:8083"
Url = Annotated[
    str, typer.Option("--url", "-u", envvar="HAYASE_CONNECT_URL", metavar="URL", help="REST interface of the worker.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The connector.", autocompletion=_complete)]
Wait = Annotated[bool, typer.Option("--wait", help="Return when it has happened, or has failed.")]


@connectors.command("list", short_help="All connectors with their states.")
def list_connectors(url: Url = _DEFAULT_URL, as_json: AsJson = False) -> None:
    """Print name, kind, state and tasks of all connectors.

    For example:

        hayase connectors list

        hayase connectors list --json -u http://connect.example:8083
    """
    found = RestClient(url).ask("GET", "/connectors?expand=status&expand=info")
    if as_json:
        for name, each in sorted(found.items()):
            typer.echo(json.dumps({"name": name, **each}))
        return
    table = _table("name", "type", "state", "tasks", "class")
    for name, each in sorted(found.items()):
        status, info = each["status"], each["info"]
        tasks = ", ".join(task["state"] for task in status["tasks"])
        table.add_row(name, info["type"], status["connector"]["state"], tasks, info["config"]["connector.class"])
    _show(table)


@connectors.command(short_help="Make a connector, or change one that exists.")
def create(
    file: Annotated[Path, typer.Argument(metavar="FILE", help='{"name": …, "config": {…}}, or the configuration.')],
    url: Url = _DEFAULT_URL,
    wait: Wait = False,
) -> None:
    """Make a connector from a JSON file; one of that name gets the new configuration.

    For example:

        hayase connectors create users.json --wait
    """
    client = RestClient(url)
    config = read_connector(file)
    name = config["name"]
    existed = name in client.names()
    before = _failure_of(client, name) if existed else None
    client.ask("PUT", path_of(name, "config"), config)
    typer.echo(f"{'changed' if existed else 'created'} {name}")
    if wait:
        _wait_for(client, name, "RUNNING", before)


@connectors.command(short_help="Check a configuration, key by key.")
def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help='{"name": …, "config": {…}}, or the configuration.')],
    url: Url = _DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Check a configuration without making a connector; the exit code is 1 if it has errors.

    For example:

        hayase connectors validate users.json
    """
    config = read_connector(file)
    plugin = urllib.parse.quote(config.get("connector.class", ""), safe="")
    found = RestClient(url).ask("PUT", f"/connector-plugins/{plugin}/config/validate", config)
    if as_json:
        typer.echo(json.dumps(found))
    else:
        for each in found["configs"]:
            for error in each["value"]["errors"]:
                typer.echo(f"{each['value']['name']}: {error}")
        typer.echo("no errors" if not found["error_count"] else f"{found['error_count']} errors")
    if found["error_count"]:
        raise typer.Exit(1)


@connectors.command(short_help="States of a connector and its tasks, with reasons.")
def status(name: Name, url: Url = _DEFAULT_URL, as_json: AsJson = False) -> None:
    """Print the states of a connector and of its tasks, and why a failed one failed.

    For example:

        hayase connectors status users
    """
    found = RestClient(url).ask("GET", path_of(name, "status"))
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = _table("", "state", "worker")
    table.add_row(name, found["connector"]["state"], found["connector"]["worker_id"])
    for task in found["tasks"]:
        table.add_row(f"task {task['id']}", task["state"], task["worker_id"])
    _show(table)
    for part in (found["connector"], *found["tasks"]):
        if part.get("trace"):
            typer.echo(part["trace"].rstrip())


@connectors.command(short_help="Stop polling and writing; tasks stay.")
def pause(name: Name, url: Url = _DEFAULT_URL, wait: Wait = False) -> None:
    """Pause a connector: its tasks keep what they have, and neither poll nor write.

    For example:

        hayase connectors pause users
    """
    _set_state(url, name, "pause", "PAUSED", wait)


@connectors.command(short_help="Go on after pause or stop.")
def resume(name: Name, url: Url = _DEFAULT_URL, wait: Wait = False) -> None:
    """Let a connector go on that was paused or stopped.

    For example:

        hayase connectors resume users --wait
    """
    _set_state(url, name, "resume", "RUNNING", wait)


@connectors.command(short_help="End the tasks; the configuration stays.")
def stop(name: Name, url: Url = _DEFAULT_URL, wait: Wait = False) -> None:
    """Stop a connector: its tasks end, its offsets can be changed.

    For example:

        hayase connectors stop users --wait
    """
    _set_state(url, name, "stop", "STOPPED", wait)


@connectors.command(short_help="Restart a connector, with its tasks.")
def restart(
    name: Name,
    only_failed: Annotated[bool, typer.Option("--only-failed", help="Only what has failed.")] = False,
    task: Annotated[int | None, typer.Option("--task", metavar="ID", help="Only this task.")] = None,
    url: Url = _DEFAULT_URL,
) -> None:
    """Restart a connector and its tasks.

    For example:

        hayase connectors restart users --only-failed

        hayase connectors restart users --task 0
    """
    client = RestClient(url)
    if task is not None:
        client.ask("POST", path_of(name, "tasks", str(task), "restart"))
    else:
        client.ask("POST", path_of(name, "restart") + f"?includeTasks=true&onlyFailed={str(only_failed).lower()}")
    typer.echo(f"restarted {name}")


@connectors.command(short_help="Show, set or forget the offsets of a connector.")
def offsets(
    name: Name,
    set_from: Annotated[
        Path | None,
        typer.Option("--set", metavar="FILE", help='Offsets to set: {"offsets": [{"partition": …, "offset": …}]}.'),
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Forget all offsets: the connector begins again.")] = False,
    url: Url = _DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show the offsets of a connector, or change those of a stopped one.

    For example:

        hayase connectors offsets users

        hayase connectors offsets users --json > offsets.json

        hayase connectors offsets users --set offsets.json
    """
    client, path = RestClient(url), path_of(name, "offsets")
    if reset:
        typer.echo(client.ask("DELETE", path)["message"])
        return
    if set_from is not None:
        typer.echo(client.ask("PATCH", path, json.loads(set_from.read_text(encoding="utf-8")))["message"])
        return
    found = client.ask("GET", path)
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = _table("partition", "offset")
    for each in found["offsets"]:
        table.add_row(json.dumps(each["partition"]), json.dumps(each["offset"]))
    _show(table)


@connectors.command(short_help="Have tables read again while their changes go on.")
def snapshot(
    name: Name,
    tables: Annotated[
        list[str],
        typer.Option("--table", "-t", metavar="TABLE", help="schema.table, or a regular expression; several."),
    ],
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Only the rows that this holds for.")
    ] = None,
    end: Annotated[bool, typer.Option("--stop", help="Read these tables no further.")] = False,
    url: Url = _DEFAULT_URL,
) -> None:
    """Send a connector the signal that has its tables read again, chunk by chunk, while their changes go on.

    The connector must have `signal.enabled.channels` with `kafka` in it.

    For example:

        hayase connectors snapshot users --table public.users

        hayase connectors snapshot users --table public.users --where "id > 1000"

        hayase connectors snapshot users --table public.users --stop
    """
    if end and where is not None:
        raise ConfigError("INVALID_SETTING", "--where and --stop exclude each other: a snapshot is stopped as a whole")
    data: dict[str, object] = {"data-collections": tables, "type": "INCREMENTAL"}
    if where is not None:
        data["additional-conditions"] = [{"data-collection": table, "filter": where} for table in tables]
    kind = "stop-snapshot" if end else "execute-snapshot"
    sent = RestClient(url).ask("POST", path_of(name, "signals"), {"type": kind, "data": data})
    typer.echo(f"sent {kind} to {sent['topic']}")


@connectors.command(short_help="End a connector and forget its configuration.")
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = _DEFAULT_URL,
) -> None:
    """Delete a connector; its topics and offsets stay.

    For example:

        hayase connectors delete users
    """
    client = RestClient(url)
    client.ask("GET", path_of(name))
    if not yes:
        typer.confirm(f"Delete connector {name!r}?", abort=True)
    client.ask("DELETE", path_of(name))
    typer.echo(f"deleted {name}")


@connectors.command(short_help="The connectors that a worker can run.")
def plugins(
    every: Annotated[bool, typer.Option("--all", help="Transforms, predicates and converters as well.")] = False,
    url: Url = _DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Print the classes of connectors that a worker has.

    For example:

        hayase connectors plugins --all
    """
    found = RestClient(url).ask("GET", f"/connector-plugins?connectorsOnly={str(not every).lower()}")
    if as_json:
        for each in found:
            typer.echo(json.dumps(each))
        return
    table = _table("class", "type", "version", "delivery")
    for each in found:
        table.add_row(each["class"], each["type"], each.get("version") or "", each.get("delivery", ""))
    _show(table)


def _set_state(url: str, name: str, action: str, wanted: str, wait: bool) -> None:
    client = RestClient(url)
    client.ask("PUT", path_of(name, action))
    if wait:
        _wait_for(client, name, wanted)
    else:
        typer.echo(f"asked {name} to {action}")


def _status(client: RestClient, name: str) -> Any:
    try:
        return client.ask("GET", path_of(name, "status"))
    except RestError as error:
        if error.status != _NOT_FOUND:
            raise
        return None  # Kafka Connect has no status of a connector that was made just now


def _failure(status: Any) -> str | None:
    """The traces of what has failed; `None`: nothing has."""
    parts = [status["connector"], *status["tasks"]]
    if all(part["state"] != "FAILED" for part in parts):
        return None
    return "\n".join(part["trace"].strip() for part in parts if part.get("trace")) or "no reason is known"


def _failure_of(client: RestClient, name: str) -> str | None:
    status = _status(client, name)
    return None if status is None else _failure(status)


def _wait_for(
    client: RestClient,
    name: str,
    wanted: str,
    before: str | None = None,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Wait for a state of a connector and its tasks.

    Args:
        client: of the worker.
        name: of the connector.
        wanted: the state.
        before: how it had failed before it was changed: that is its status until it starts again.
        now: the clock, in seconds.

    Raises:
        RestError: `CONNECTOR_FAILED`, `NO_ANSWER`.
    """
    began = now()
    while now() < began + _TIMEOUT_S:
        found = _status(client, name)
        if found is None:
            time.sleep(_WAIT_S)
            continue
        failure = _failure(found)
        if failure is not None and (failure != before or now() >= began + _OLD_FAILURE_S):
            raise RestError("CONNECTOR_FAILED", f"{name} failed: {failure.splitlines()[-1]}", connector=name)
        states = [found["connector"]["state"], *(task["state"] for task in found["tasks"])]
        if set(states) == {wanted} and (wanted != "RUNNING" or len(states) > 1):
            typer.echo(f"{name}: {wanted}")
            return
        time.sleep(_WAIT_S)
    raise RestError(
        "NO_ANSWER", f"{name} is not {wanted} after {_TIMEOUT_S:g} s: see `hayase connectors status {name}`"
    )


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _show(table: Table) -> None:
    Console().print(table)
