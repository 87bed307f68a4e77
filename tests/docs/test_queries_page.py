"""What docs/sql/queries.md shows works as it stands there."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from hayase.client import SqlClient
from hayase.server.http.app import make_app
from hayase.server.pull.adhoc_sql import is_candidate, read_adhoc
from hayase.server.server import open_server
from hayase.server.serving import HttpServer
from hayase.server.settings import ServerSettings

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sql" / "queries.md").read_text("utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.long
def test_the_programs_of_the_clients_print_their_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    folders = {"log.dir": str(tmp_path / "log"), "state.dir": str(tmp_path / "state")}
    settings = ServerSettings.of({"listeners": url, "hayase.server.in.process": "true", **folders})
    context = open_server(settings)
    try:
        with HttpServer(make_app(context), settings):
            for program in _blocks("python"):
                exec(program.replace("http://127.0.0.1:8088", url), {})
    finally:
        context.close()
    assert capsys.readouterr().out.splitlines() == ["1 a", "2 b", "Limit Reached", "1 a", "2 b"]


def test_the_queries_of_the_page_are_ad_hoc_sql() -> None:
    statements = [text for block in _blocks("sql") for text in block.split(";") if text.strip()]
    assert all(is_candidate(text) for text in statements)
    assert [set(map(str.upper, read_adhoc(text).tables)) for text in statements] == [
        {"SALES", "PRICES"},
        {"SALES"},
        {"SALES"},
        {"SALES"},
    ]


def test_the_client_has_the_calls_that_the_page_shows() -> None:
    for name in ("execute", "insert", "query", "close"):
        assert callable(getattr(SqlClient, name))
