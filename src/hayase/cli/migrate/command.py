"""The sub-commands of `hayase sql migrate`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hayase.cli.migrate.project import CONFIG_NAME, Migration, Project, new_project
from hayase.core.errors import ConfigError

if TYPE_CHECKING:
    from hayase.cli.migrate.versions import Versions
    from hayase.client import SqlClient

migrate = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Migrations of a server's catalog, in projects of ksql-migrations.",
)


@migrate.callback()
def options(
    context: typer.Context,
    config_file: Annotated[
        Path, typer.Option("--config-file", "-c", metavar="FILE", help="Settings of the project.")
    ] = Path(CONFIG_NAME),
) -> None:
    """Migrations of a server's catalog, in projects of ksql-migrations.

    For example:

        hayase sql migrate new-project shop http://127.0.0.1:8088

        hayase sql migrate -c shop/ksql-migrations.properties initialize-metadata

        hayase sql migrate -c shop/ksql-migrations.properties create "orders and totals"

        hayase sql migrate -c shop/ksql-migrations.properties apply --all
    """
    context.obj = config_file


@migrate.command("new-project", short_help="Make a folder with a settings file and an empty folder of migrations.")
def make_project(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Of the project.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="Of the server.")],
) -> None:
    """Make a project."""
    typer.echo(f"made {new_project(folder, url)}")


@migrate.command(short_help="Make an empty file for a migration.")
def create(
    context: typer.Context,
    description: Annotated[str, typer.Argument(help="What the migration does.")],
    version: Annotated[int | None, typer.Option("--version", "-v", help="Default: the next one.")] = None,
) -> None:
    """Make an empty file for a migration: V000001__What_it_does.sql."""
    typer.echo(f"made {Project.read(context.obj).create(description, version)}")


@migrate.command("initialize-metadata", short_help="Make the stream and the table of what was applied.")
def initialize(context: typer.Context) -> None:
    """Make the stream and the table in which the server keeps what was applied."""
    with _opened(context) as (project, _, versions):
        versions.initialize()
        typer.echo(f"made {project.stream} and {project.table}")


@migrate.command("destroy-metadata", short_help="Drop that stream and that table, with their topics.")
def destroy(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Without asking.")] = False,
) -> None:
    """Drop the stream and the table of what was applied, with their topics. What migrations made stays."""
    with _opened(context) as (project, _, versions):
        if not yes:
            typer.confirm(f"Drop {project.stream} and {project.table} with their topics?", abort=True)
        versions.destroy()
        typer.echo(f"dropped {project.table} and {project.stream}")


@migrate.command(short_help="Compare the files of what was applied with their checksums.")
def validate(context: typer.Context) -> None:
    """Compare the files of migrations that were applied with their checksums; exit code 1 if one differs."""
    with _opened(context) as (project, _, versions):
        _check(project, versions)
        typer.echo("all files of migrations that were applied are as they were")


@migrate.command(short_help="Show all migrations and their states.")
def info(context: typer.Context) -> None:
    """Show all migrations and their states."""
    from hayase.cli.migrate.versions import PENDING

    with _opened(context) as (project, _, versions):
        current = versions.current()
        typer.echo(f"current version: {current.version if current is not None else 'none'}")
        for each in project.migrations():
            event = versions.of(each.version)
            state, error = (PENDING, "") if event is None else (event.state, event.error_reason)
            typer.echo(f"{each.version:>6}  {state:<8}  {each.name}{f': {error}' if error else ''}")


@migrate.command("apply", short_help="Apply migrations.")
def apply_migrations(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", "-a", help="All that are not applied.")] = False,
    next_one: Annotated[bool, typer.Option("--next", "-n", help="The next one.")] = False,
    until: Annotated[int | None, typer.Option("--until", "-u", metavar="VERSION", help="Up to this one.")] = None,
    version: Annotated[int | None, typer.Option("--version", "-v", metavar="VERSION", help="This one.")] = None,
    define: Annotated[
        list[str] | None, typer.Option("--define", "-d", metavar="NAME=VALUE", help="A variable for ${NAME}.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the statements, and execute none.")] = False,
) -> None:
    """Apply migrations: their statements one after the other. If one fails, those before it are executed."""
    from hayase.cli.migrate.steps import apply, statements_of, waiting
    from hayase.cli.sql.command import read_variables

    if sum((every, next_one, until is not None, version is not None)) != 1:
        raise ConfigError("WRONG_ARGUMENTS", "give one of --all, --next, --until VERSION, --version VERSION")
    with _opened(context) as (project, client, versions):
        client.variables = read_variables(define or [])
        _check(project, versions)
        current = versions.current()
        chosen = _chosen(waiting(project, current), next_one, until, version)
        if not chosen:
            typer.echo("there is nothing to apply")
        for migration in chosen:
            typer.echo(f"{'would apply' if dry_run else 'applying'} {migration.file.name}")
            if dry_run:
                for text in statements_of(migration):
                    typer.echo(text)
            else:
                current = apply(migration, client, versions, current, typer.echo)


def _chosen(waiting: list[Migration], next_one: bool, until: int | None, version: int | None) -> list[Migration]:
    if next_one:
        return waiting[:1]
    known = {each.version for each in waiting}
    for asked in (until, version):
        if asked is not None and asked not in known:
            raise ConfigError(
                "INVALID_VERSION", f"version {asked} has no file, or was applied; `hayase sql migrate info` shows all"
            )
    if version is not None:
        return [each for each in waiting if each.version == version]
    return [each for each in waiting if until is None or each.version <= until]


def _check(project: Project, versions: Versions) -> None:
    from hayase.cli.migrate.steps import problems

    found = list(problems(project, versions))
    for each in found:
        typer.echo(each, err=True)
    if found:
        raise typer.Exit(1)


@contextmanager
def _opened(context: typer.Context) -> Iterator[tuple[Project, SqlClient, Versions]]:
    """The project, its server, and what that has."""
    from hayase.cli.migrate.versions import Versions  # needs the extra `server`
    from hayase.client import SqlClient

    project = Project.read(context.obj)
    settings = project.settings
    user, password = (settings.get(f"ksql.auth.basic.{name}") or None for name in ("username", "password"))
    with SqlClient(project.url, user=user, password=password) as client:
        yield project, client, Versions(client, project)
