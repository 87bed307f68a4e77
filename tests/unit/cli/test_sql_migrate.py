"""`hayase sql migrate` against a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from tests.unit.server.command_servers import client_of, ksql, server_in
from typer.testing import CliRunner

from hayase.cli.migrate.command import migrate
from hayase.core.errors import HayaseError
from hayase.server.context import ServerContext
from hayase.server.http.app import make_app
from hayase.server.serving import HttpServer
from hayase.testing.servers import free_ports

pytestmark = pytest.mark.long


class Migrate:
    """A project at a server."""

    def __init__(self, folder: Path, context: ServerContext, url: str) -> None:
        self.folder = folder
        self.context = context
        self.run_plain("new-project", str(folder), url)

    def run_plain(self, *arguments: str) -> str:
        result = CliRunner().invoke(migrate, arguments)
        if isinstance(result.exception, HayaseError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    def run(self, *arguments: str) -> str:
        return self.run_plain("--config-file", str(self.folder / "ksql-migrations.properties"), *arguments)

    def write(self, description: str, text: str) -> Path:
        file = Path(self.run("create", description).strip().removeprefix("made "))
        file.write_text(text, encoding="utf-8")
        return file

    def streams(self) -> set[str]:
        (answer,) = ksql(client_of(self.context), "SHOW STREAMS;")
        return {each["name"] for each in answer["streams"]}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Migrate]:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with server_in(tmp_path, listeners=url) as context, HttpServer(make_app(context), context.settings):
        made = Migrate(tmp_path / "shop", context, url)
        made.run("initialize-metadata")
        yield made


def test_migrations_are_applied_in_order_and_once(project: Migrate) -> None:
    project.write(
        "first stream",
        "DEFINE of_a = 'a';\n"
        "CREATE STREAM a (k INT KEY, v INT) WITH (kafka_topic='${of_a}', value_format='JSON', partitions=1);",
    )
    project.write("second stream", "CREATE STREAM b AS SELECT * FROM a;")
    assert "would apply V000001__first_stream.sql" in project.run("apply", "--all", "--dry-run")
    assert project.streams() & {"A", "B"} == set()
    project.run("apply", "--next")
    assert project.streams() & {"A", "B"} == {"A"}
    project.run("apply", "--all")
    assert project.streams() >= {"A", "B"}
    assert "nothing to apply" in project.run("apply", "--all")
    shown = project.run("info")
    assert "current version: 2" in shown
    assert "1  MIGRATED  first stream" in shown
    assert "as they were" in project.run("validate")


def test_a_migration_that_fails_can_be_mended_and_applied_again(project: Migrate) -> None:
    file = project.write("bad", "CREATE STREAM b AS SELECT * FROM nothing;")
    with pytest.raises(HayaseError, match="NOTHING"):
        project.run("apply", "--all")
    assert "1  ERROR" in project.run("info")
    file.write_text("CREATE STREAM a (v INT) WITH (kafka_topic='a', value_format='JSON', partitions=1);")
    project.run("apply", "--all")
    assert "A" in project.streams()


def test_a_file_that_was_changed_after_it_was_applied_is_found(project: Migrate) -> None:
    file = project.write("first", "CREATE STREAM a (v INT) WITH (kafka_topic='a', value_format='JSON', partitions=1);")
    project.run("apply", "--version", "1")
    file.write_text("-- another text")
    result = CliRunner().invoke(
        migrate, ["--config-file", str(project.folder / "ksql-migrations.properties"), "validate"]
    )
    assert result.exit_code == 1
    assert "was changed" in result.output


def test_statements_that_change_nothing_are_no_migration(project: Migrate) -> None:
    project.write("query", "SELECT * FROM a;")
    with pytest.raises(HayaseError, match="NOT_ALLOWED"):
        project.run("apply", "--all")


def test_the_metadata_can_be_dropped(project: Migrate) -> None:
    project.run("destroy-metadata", "--yes")
    assert project.streams() & {"MIGRATION_EVENTS"} == set()
    with pytest.raises(HayaseError, match="initialize-metadata"):
        project.run("info")


def test_a_migration_that_is_interrupted_has_the_state_error_and_can_be_applied_again(
    project: Migrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(text: str, *arguments: object, **options: object) -> None:
        if text.startswith("CREATE STREAM"):
            raise KeyboardInterrupt

    project.write("first", "CREATE STREAM a (v INT) WITH (kafka_topic='a', value_format='JSON', partitions=1);")
    with monkeypatch.context() as patch:
        patch.setattr(typer, "echo", interrupted)  # as if it came between two statements
        result = CliRunner().invoke(
            migrate, ["--config-file", str(project.folder / "ksql-migrations.properties"), "apply", "--all"]
        )
    assert result.exit_code != 0
    shown = project.run("info")
    assert "1  ERROR" in shown
    assert "interrupted" in shown
    project.run("apply", "--all")
    assert "A" in project.streams()
