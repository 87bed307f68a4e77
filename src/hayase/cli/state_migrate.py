"""`hayase state migrate`: rewriting what stores hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hayase.app.migrate import Migration, NewValue, StoreMigration, migrate_stores
from hayase.app.store_schemas import schema_changes
from hayase.cli.load import Loaded, load, load_file
from hayase.cli.options import Config, ConfigFile, read_settings
from hayase.cli.run import Target, settings_of
from hayase.cli.state_output import Output, lines_of
from hayase.compiler.options import configured
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError
from hayase.query.checkpoint import open_checkpoint


def migrate(
    target: Target,
    functions: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="[STORE=]FILE:FUNCTION",
            help="What makes the new value of the old one (None deletes); STORE= if several stores changed.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count; the application may run meanwhile.")] = False,
    output: Annotated[Output, typer.Option("--format", help="A table, or one JSON object a line.")] = Output.TABLE,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Rewrite values of stores that this program cannot read (STORE_SCHEMA_CHANGED), so that it can go on with them.

    The application must be stopped, not killed. FUNCTION gets each value as it was written: JSON as dict, list, text or
    number. All is rewritten or nothing, also if this is interrupted; then run it again, or just start the application.

    Ends with code 1 if a value could not be rewritten: nothing is written then.

    For example:

        hayase state migrate shop.py:app --with migrate.py:with_currency --dry-run

        hayase state migrate shop.py:app --with orders=migrate.py:order --with totals=migrate.py:total
    """
    loaded = load(target)
    settings = settings_of(loaded, read_settings(config, config_file))
    migration = migrate_stores(
        loaded.topology, settings, _functions(functions or [], loaded, settings), dry_run=dry_run
    )
    _print(migration, output, dry_run=dry_run)
    if migration.failed:
        raise typer.Exit(1)


def _functions(options: list[str], loaded: Loaded, settings: StreamsConfig) -> dict[str, NewValue]:
    functions: dict[str, NewValue] = {}
    for option in options:
        store, equals, place = option.partition("=")
        name = store if equals else _only_changed(option, loaded, settings)
        if name in functions:
            raise ConfigError("INVALID_OPTION", f"--with is given twice for store {name!r}; leave one out")
        if name is not None:
            functions[name] = _function(place if equals else option, loaded)
    return functions


def _only_changed(option: str, loaded: Loaded, settings: StreamsConfig) -> str | None:
    checkpoint = open_checkpoint(settings)
    changes = schema_changes(checkpoint.blobs, checkpoint.names(configured(loaded.topology, settings)))
    stores = sorted({change.store for change in changes})
    if len(stores) > 1:
        raise ConfigError(
            "INVALID_OPTION",
            f"--with {option} does not say of which store: {', '.join(stores)} changed; write --with STORE={option}",
        )
    return stores[0] if stores else None


def _function(place: str, loaded: Loaded) -> NewValue:
    file, colon, name = place.rpartition(":")
    if not colon or not file or not name:
        raise ConfigError("INVALID_OPTION", f"--with takes [STORE=]FILE:FUNCTION, not {place!r}")
    path, module = Path(file), loaded.module
    same = module is not None and module.__file__ is not None and path.absolute() == Path(module.__file__).absolute()
    function: object = getattr(module if same else load_file(path), name, None)
    if not callable(function):
        raise ConfigError("INVALID_OPTION", f"--with: {file} has no function {name!r}")
    return function


def _print(migration: Migration, output: Output, *, dry_run: bool) -> None:
    if migration.finished:
        typer.echo("a migration that had been interrupted was finished", err=True)
    if not migration.stores:
        typer.echo("this program reads what its stores hold; nothing is to be rewritten", err=True)
        return
    for line in lines_of(map(_fields, migration.stores), output):
        typer.echo(line)
    for store in migration.stores:
        for key, reason in store.failures:
            typer.echo(f"store {store.store!r}, key {key!r}: {reason}", err=True)
        if store.failed > len(store.failures):
            typer.echo(f"store {store.store!r}: {store.failed - len(store.failures)} more failed", err=True)
    if migration.failed:
        typer.echo("nothing was written", err=True)
    elif dry_run:
        typer.echo("nothing was written: --dry-run", err=True)
    elif migration.epoch is not None:
        typer.echo(f"written as epoch {migration.epoch}", err=True)


def _fields(store: StoreMigration) -> dict[str, object]:
    return {
        "store": store.store,
        "values": store.values,
        "changed": store.changed,
        "deleted": store.deleted,
        "failed": store.failed,
    }
