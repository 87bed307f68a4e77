"""The tables of the grammar, which are kept in the cache folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase.sql.ast.statement_text import statement_text
from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar import syntax
from hayase.sql.grammar.parser import parse_statement

SELECT = "SELECT a, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 5 SECONDS) GROUP BY a EMIT CHANGES"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HAYASE_CACHE", str(tmp_path))
    syntax._grammar.cache_clear()
    yield
    syntax._grammar.cache_clear()


def parsed() -> str:
    with pytest.raises(ParseFailedError, match=r"Expecting \{',', '\)'\}"):  # an error takes more of the tables
        parse_statement("CREATE STREAM s (a INT b)")
    return statement_text(parse_statement(SELECT).statement)


def kept_tables(folder: Path) -> Path:
    (tables,) = folder.glob("hayase/sql-grammar-*/tables")
    return tables


def test_tables_are_made_once_and_read_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = parsed()
    assert kept_tables(tmp_path).stat().st_size > 10_000
    monkeypatch.delattr(syntax, "_made")
    syntax._grammar.cache_clear()
    assert parsed() == first


@pytest.mark.parametrize("left", [0, 100, -1])
def test_damaged_tables_are_made_again(tmp_path: Path, left: int) -> None:
    first = parsed()
    tables = kept_tables(tmp_path)
    tables.write_bytes(tables.read_bytes()[:left])
    syntax._grammar.cache_clear()
    assert parsed() == first


def test_nothing_is_kept_where_there_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("HAYASE_CACHE", str(file))
    assert "COUNT(*)" in parsed()
