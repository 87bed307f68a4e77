"""Checking and applying migrations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hayase.cli.migrate.project import Migration, Project
from hayase.cli.migrate.versions import ERROR, MIGRATED, RUNNING, Event, Versions, begun, now_text
from hayase.client import SqlClient
from hayase.core.errors import ConfigError, HayaseError
from hayase.sql.ast import statements as ast
from hayase.sql.grammar.parser import parse_statement
from hayase.sql.grammar.tokens import raw_statements
from hayase.sql.grammar.variables import Variables

_LOCAL = ("SET", "UNSET", "DEFINE", "UNDEFINE")
_ALLOWED = ("CREATE", "INSERT", "DROP", "ALTER", "TERMINATE", "PAUSE", "RESUME", "ASSERT", *_LOCAL)


def problems(project: Project, versions: Versions) -> Iterator[str]:
    """What is wrong with the files of migrations that were applied, the newest first."""
    files = {each.version: each for each in project.migrations()}
    event = versions.current()
    if event is not None and event.state != MIGRATED:
        event = versions.of(int(event.previous)) if event.previous.isdigit() else None
    while event is not None:
        file = files.get(int(event.version))
        if file is None:
            yield f"version {event.version} was applied, and has no file in {project.folder}"
        elif file.checksum != event.checksum:
            yield f"{file.file.name} was changed after it was applied; put it back, and make a new migration"
        event = versions.of(int(event.previous)) if event.previous.isdigit() else None


def waiting(project: Project, current: Event | None) -> list[Migration]:
    """The migrations that are to be applied, one that has failed among them.

    Raises:
        ConfigError: `MIGRATION_RUNS`: one is being applied, or was broken off.
    """
    if current is None:
        return project.migrations()
    if current.state == RUNNING:
        raise ConfigError(
            "MIGRATION_RUNS",
            f"version {current.version} is being applied, or was broken off. If nothing applies it now, see by hand "
            "which of its statements are executed, and write an event with the state ERROR or MIGRATED for the keys "
            f"'CURRENT' and '{current.version}'",
        )
    first = int(current.version) + (1 if current.state == MIGRATED else 0)
    return [each for each in project.migrations() if each.version >= first]


def statements_of(migration: Migration) -> list[str]:
    """The statements of a migration.

    Raises:
        ConfigError: `NOT_ALLOWED`: one changes nothing; `HayaseError`: one cannot be read.
    """
    texts = []
    for raw in raw_statements(migration.text):
        if not raw.tokens:
            continue
        first = raw.tokens[0].upper()
        if raw.end is None:
            raise ConfigError("NOT_ALLOWED", f"{migration.file.name}: the last statement has no semicolon")
        if first not in _ALLOWED:
            raise ConfigError(
                "NOT_ALLOWED", f"{migration.file.name}: {first} … is no statement of a migration; such are "
                f"{', '.join(_ALLOWED)}",
            )  # fmt: skip
        texts.append(raw.text)
    return texts


def apply(
    migration: Migration, client: SqlClient, versions: Versions, current: Event | None, show: Callable[[str], None]
) -> Event:
    """Execute the statements of a migration, one after the other; settings and variables end with it.

    Returns:
        The event of its end.

    Raises:
        HayaseError: a statement was refused; those before it are executed, and the version has the state ERROR.
        KeyboardInterrupt: the user has ended it, which also leaves the state ERROR.
    """
    statements = statements_of(migration)
    event = begun(migration, current)
    versions.write(event)
    properties, variables = dict(client.properties), dict(client.variables)
    executed = 0
    try:
        for text in statements:
            show(text)
            _execute(client, text)
            executed += 1
    except (HayaseError, KeyboardInterrupt) as error:
        client.properties, client.variables = properties, variables
        reason = error.message if isinstance(error, HayaseError) else f"interrupted behind {executed} statements"
        versions.write(replace(event, state=ERROR, completed_on=now_text(), error_reason=reason))
        raise
    client.properties, client.variables = properties, variables
    event = replace(event, state=MIGRATED, completed_on=now_text())
    versions.write(event)
    return event


def _execute(client: SqlClient, text: str) -> None:
    if text.split(maxsplit=1)[0].upper() not in _LOCAL:
        client.execute(text)
        return
    match parse_statement(text, Variables(client.variables)).statement:
        case ast.SetProperty(name, value):
            client.properties[name] = value
        case ast.UnsetProperty(name):
            client.properties.pop(name, None)
        case ast.DefineVariable(name, value):
            client.variables[name] = value
        case ast.UndefineVariable(name):
            client.variables.pop(name, None)
