"""Queries that read what comes of their own results: accepted as in ksqlDB, with a warning, and bounded in tests."""

from __future__ import annotations

import pytest

from hayase.sql.engine import SqlEngine
from hayase.sql.errors import StatementError
from hayase.testing.sql.script import SqlScript

_STREAM = "CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');"
_ITSELF = "INSERT INTO s SELECT k, v + 1 AS v FROM s"


@pytest.mark.parametrize(
    ("statements", "way"),
    [
        (f"{_ITSELF};", "S"),
        ("CREATE STREAM a AS SELECT * FROM s; INSERT INTO s SELECT * FROM a;", "S -> A"),
        (
            "CREATE STREAM a AS SELECT * FROM s; CREATE STREAM b AS SELECT * FROM a; INSERT INTO s SELECT * FROM b;",
            "S -> A -> B",
        ),
        (
            f"{_STREAM.replace(' s ', ' same ')} INSERT INTO s SELECT * FROM same;",
            "S",
        ),
    ],
)
def test_a_query_that_feeds_itself_has_a_warning_that_names_the_way(statements: str, way: str) -> None:
    results = SqlEngine().script(_STREAM + statements)
    assert [result.warnings for result in results[:-1]] == [()] * (len(results) - 1)
    (warning,) = results[-1].warnings
    assert f"reads what comes of its own results ({way})" in warning


def test_queries_in_a_line_have_no_warning() -> None:
    results = SqlEngine().script(
        _STREAM
        + "CREATE STREAM a AS SELECT * FROM s; CREATE STREAM b AS SELECT * FROM s; INSERT INTO a SELECT * FROM b;"
    )
    assert results[-1].warnings == ()


@pytest.mark.long
@pytest.mark.parametrize(
    "circle", [f"{_ITSELF};", "CREATE STREAM a AS SELECT * FROM s; INSERT INTO s SELECT * FROM a;"]
)
def test_a_test_of_queries_that_feed_each_other_without_end_fails(circle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hayase.testing.sql.script._ROUNDS_MAX", 30)
    with SqlScript() as script:
        script.run(_STREAM + circle)
        with pytest.raises(StatementError, match="Give it a WHERE that ends it") as caught:
            script.run("INSERT INTO s VALUES (1, 2);")
    assert caught.value.condition == "QUERIES_WITHOUT_END"


def test_a_circle_with_an_end_comes_to_it() -> None:
    with SqlScript() as script:
        script.run(_STREAM + f"{_ITSELF} WHERE v < 50;")
        script.run("INSERT INTO s VALUES (1, 1);")
        assert len(script.records("s")) == 50
