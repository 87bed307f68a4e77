"""`hayase state …`: looking at an application's stores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hayase.app.app import StreamsApp
from hayase.app.follower import Follower
from hayase.cli.load import load
from hayase.cli.options import Config, ConfigFile, read_settings
from hayase.cli.run import Target, settings_of
from hayase.cli.state_migrate import migrate
from hayase.cli.state_output import Output, lines_of, parse_key, parse_time, row_fields
from hayase.core.errors import ConfigError, SerializationError, StateError
from hayase.core.windows import LAST_MS
from hayase.query.follower_replica import STATUS_FILE, read_status
from hayase.query.local_folders import followers_folder
from hayase.query.stores import StoreHandle, StoreRow
from hayase.state.stores.spec import StoreSpec

state = typer.Typer(
    no_args_is_help=True, help="Stores: list, get, scan, epochs, followers, migrate.", rich_markup_mode=None
)
state.command(short_help="Rewrite values that this program cannot read.")(migrate)

_COUNTED_MAX = 10_000
_EPOCHS_MAX = 100_000_000_000
"""A number below it is an epoch; as milliseconds since 1970 it would be before March 1973."""

StoreName = Annotated[str, typer.Argument(metavar="STORE")]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="As it was at a time: 2026-11-21T18:00 (UTC). A small number is an epoch, as in earlier releases.",
    ),
]
AsOfEpoch = Annotated[
    int | None, typer.Option("--as-of-epoch", min=0, metavar="EPOCH", help="As it was after an epoch.")
]
FollowerName = Annotated[
    str | None, typer.Option("--follower", metavar="NAME|DIR", help="Read a follower instead of the workers' state.")
]
Format = Annotated[Output, typer.Option("--format", help="A table, or one JSON object a line.")]
Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Window stores: windows that start then or later (ISO 8601 or ms).")
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Window stores: windows that start then or earlier.")]


@state.callback()
def _group() -> None:
    """Look at an application's stores, while it runs or not: list, get, scan, epochs, followers. Rewrite them: migrate.

    Use the settings the application runs with (application.id, state.dir, checkpoint.dir).
    """


@state.command("list", short_help="Every store: its kind, rows and epoch.")
def list_stores(
    target: Target,
    as_of: AsOf = None,
    as_of_epoch: AsOfEpoch = None,
    follower: FollowerName = None,
    output: Format = Output.TABLE,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Print every store: its kind, where it is kept, its rows and entries, and the epoch it is after.

    Entries are what is kept on disk: also versions, expired rows that are not removed yet, and records that a store
    notes for itself, so they may be more than the rows that `scan` prints. Rows are counted up to 10,000 entries.

    For example:

        hayase state list shop.py:topology
    """
    stores = _Stores(target, config, config_file, as_of, follower, as_of_epoch)
    rows = []
    for name, spec in sorted(stores.topology.stores.items()):
        fields: dict[str, object] = {"store": name, "kind": spec.kind, "kept": _kept(spec)}
        try:
            handle = stores.open(name)
            entries = handle.approximate_num_entries()
            fields |= {"rows": _rows(handle, entries), "entries": entries, "epoch": handle.epoch()}
        except StateError as error:
            if error.condition not in ("STATE_NOT_THERE", "STORE_NOT_LOGGED"):
                raise
            there = error.condition == "STATE_NOT_THERE"
            fields |= dict.fromkeys(("rows", "entries"), 0 if there else None) | {"epoch": -1 if there else None}
        rows.append(fields)
    _print(rows, output)


@state.command(short_help="The row of a key, or its windows.")
def get(
    target: Target,
    store: StoreName,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Text, a number or JSON, as the store's keys are.")],
    since: Since = None,
    until: Until = None,
    as_of: AsOf = None,
    as_of_epoch: AsOfEpoch = None,
    follower: FollowerName = None,
    output: Format = Output.TABLE,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Print the row of a key; of a window store, the key's windows by their start.

    Ends with code 1 if there is none.

    For example:

        hayase state get shop.py:topology revenue book

        hayase state get shop.py:topology hourly book --since 2026-11-21T18:00 --format json

        hayase state get shop.py:topology revenue book --as-of-epoch 1200
    """
    handle = _Stores(target, config, config_file, as_of, follower, as_of_epoch).open(store)
    wanted = parse_key(handle.spec.key_serde, key)
    if handle.spec.windowed:
        rows = list(handle.fetch(wanted, *_times(since, until)))
    else:
        _only_windows(handle, since, until)
        answer = handle.get(wanted)
        rows = [] if answer.value is None else [StoreRow(wanted, answer.value, answer.timestamp_ms)]
    if not rows:
        typer.echo(f"no row of key {key!r} in store {store!r}", err=True)
        raise typer.Exit(1)
    _print([row_fields(row) for row in rows], output)


@state.command(short_help="Rows of a store.")
def scan(
    target: Target,
    store: StoreName,
    key_from: Annotated[str | None, typer.Option("--from", metavar="KEY", help="First key, included.")] = None,
    key_to: Annotated[str | None, typer.Option("--to", metavar="KEY", help="Last key, included.")] = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option(min=0, help="At most so many rows; 0: all.")] = 100,
    as_of: AsOf = None,
    as_of_epoch: AsOfEpoch = None,
    follower: FollowerName = None,
    output: Format = Output.TABLE,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Print rows, partition by partition, inside a partition in the order of the serialized keys.

    --from and --to are for key-value stores, --since and --until for window stores.

    For example:

        hayase state scan shop.py:topology revenue --from a --to f --limit 20

        hayase state scan shop.py:topology hourly --since 2026-11-21T18:00 --format json --limit 0
    """
    handle = _Stores(target, config, config_file, as_of, follower, as_of_epoch).open(store)
    most = limit + 1 if limit else None
    if handle.spec.windowed:
        if key_from is not None or key_to is not None:
            raise ConfigError(
                "INVALID_OPTION", f"{store!r} is a window store: use --since and --until, not --from and --to"
            )
        scanned = handle.fetch_all(*_times(since, until), limit=most)
    else:
        _only_windows(handle, since, until)
        serde = handle.spec.key_serde
        bounds = [None if key is None else parse_key(serde, key) for key in (key_from, key_to)]
        scanned = handle.range(*bounds, limit=most)
    rows = list(scanned)
    _print([row_fields(row) for row in (rows[:limit] if limit else rows)], output)
    if limit and len(rows) > limit:
        typer.echo(f"only the first {limit} rows; --limit says how many, 0 all", err=True)


@state.command(short_help="The epochs that --as-of-epoch can name.")
def epochs(
    target: Target,
    store: StoreName,
    output: Format = Output.TABLE,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Print the oldest and the newest epoch that --as-of-epoch can name for a store, and when they were begun.

    For example:

        hayase state epochs shop.py:topology revenue
    """
    history = _Stores(target, config, config_file, None, None).app.history(store)
    rows = [
        {"which": "oldest", "epoch": history.oldest_epoch, "timestamp": history.oldest_time_ms},
        {"which": "newest", "epoch": history.newest_epoch, "timestamp": history.newest_time_ms},
    ]
    _print(rows, output)


@state.command(short_help="The followers on this machine, and how far behind they are.")
def followers(
    target: Target, output: Format = Output.TABLE, config: Config = None, config_file: ConfigFile = None
) -> None:
    """Print the application's followers on this machine, the epoch each is at, and how far it is behind.

    For example:

        hayase state followers shop.py:topology
    """
    folder = followers_folder(_Stores(target, config, config_file, None, None).app.config)
    statuses = [(path, read_status(path)) for path in sorted(folder.glob("*")) if (path / STATUS_FILE).exists()]
    _print(
        [
            {
                "follower": path.name,
                "epoch": status.epoch,
                "lag_epochs": status.lag_epochs,
                "lag_ms": status.lag_ms,
                "running": status.running,
            }
            for path, status in statuses
        ],
        output,
    )


class _Stores:
    """The stores that the options mean."""

    def __init__(
        self,
        target: str,
        config: list[str] | None,
        config_file: Path | None,
        as_of: str | None,
        follower: str | None,
        as_of_epoch: int | None = None,
    ) -> None:
        loaded = load(target)
        self.app = StreamsApp(loaded.topology, settings_of(loaded, read_settings(config, config_file)))
        self.topology = self.app.topology
        given = {"--as-of": as_of, "--as-of-epoch": as_of_epoch, "--follower": follower}
        both = [option for option, value in given.items() if value is not None]
        if len(both) > 1:
            raise ConfigError("INVALID_OPTION", f"{' and '.join(both)} are given; leave one out")
        if as_of is not None and as_of.isdecimal() and int(as_of) < _EPOCHS_MAX:
            as_of_epoch, as_of = int(as_of), None
        self._as_of, self._as_of_epoch = as_of, as_of_epoch
        self._follower = follower

    def open(self, name: str) -> StoreHandle:
        if self._follower is not None:
            is_path = "/" in self._follower
            follower = Follower(
                self.topology,
                self.app.config,
                name=self._follower,
                directory=Path(self._follower).expanduser() if is_path else None,
            )
            if not follower.folder.is_dir():
                raise StateError("NO_FOLLOWER", f"there is no follower in {follower.folder}; `hayase follow` makes one")
            return follower.store(name)
        if self._as_of is None:
            return self.app.store(name, as_of_epoch=self._as_of_epoch)
        return self.app.store(name, as_of=parse_time("--as-of", self._as_of))


def _rows(handle: StoreHandle, entries: int) -> int | None:
    """How many rows `scan` prints; `None` where counting them would take long, or they cannot be read."""
    if entries > _COUNTED_MAX:
        return None
    try:
        return len(handle.fetch_all(0, LAST_MS) if handle.spec.windowed else handle.all())
    except SerializationError:
        return None


def _kept(spec: StoreSpec) -> str:
    where = "memory" if spec.in_memory else "disk"
    return where if spec.logging else f"{where}, no changelog"


def _times(since: str | None, until: str | None) -> tuple[int, int]:
    return (
        parse_time("--since", since) if since is not None else 0,
        parse_time("--until", until) if until is not None else LAST_MS,
    )


def _only_windows(handle: StoreHandle, since: str | None, until: str | None) -> None:
    if since is not None or until is not None:
        raise ConfigError(
            "INVALID_OPTION",
            f"{handle.name!r} is a {handle.spec.kind} store, which has no windows: leave --since and --until out",
        )


def _print(rows: list[dict[str, object]], output: Output) -> None:
    for line in lines_of(rows, output):
        typer.echo(line)
