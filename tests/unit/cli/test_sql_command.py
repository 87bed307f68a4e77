"""`hayase sql` without a terminal: statements of the command line, of a file, of a pipe; its exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.command_servers import listening_server_in
from typer.testing import CliRunner

from hayase.cli.main import app

pytestmark = pytest.mark.long
STREAM = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with listening_server_in(tmp_path_factory.mktemp("server")) as context:
        yield context.settings.listener.url


def test_statements_of_the_command_line_a_file_and_a_pipe_are_executed(url: str, tmp_path: Path) -> None:
    script = tmp_path / "s.sql"
    script.write_text("INSERT INTO s VALUES ('a', ${n});")
    made = CliRunner().invoke(app, ["sql", "-s", url, "-e", STREAM, "-f", str(script), "-d", "n=7"])
    assert (made.exit_code, made.stderr) == (0, "")
    shown = CliRunner().invoke(app, ["sql", "-s", url, "--output", "csv"], input="SELECT * FROM s;\n")
    assert (shown.exit_code, shown.stdout.splitlines()[:2]) == (0, ["K,V", "a,7"])


def test_a_refused_statement_ends_the_rest_with_1(url: str) -> None:
    result = CliRunner().invoke(app, ["sql", "-s", url, "-e", "DROP STREAM nope; SHOW STREAMS;", "-e", "SHOW TABLES;"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Source NOPE does not exist" in result.stderr


def test_an_unknown_output_is_a_wrong_argument(url: str) -> None:
    assert CliRunner().invoke(app, ["sql", "-s", url, "--output", "xml", "-e", "SHOW STREAMS;"]).exit_code == 2
