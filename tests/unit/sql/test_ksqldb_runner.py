"""The runner of ksqlDB's cases: what it reads, how it compares, and that it can fail."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.ksqldb.cases import CaseFolder, ExpectedError, Record
from tests.ksqldb.compare import Actual, difference, matches
from tests.ksqldb.driver import failure_of
from tests.ksqldb.errors import unexpected
from tests.ksqldb.known_failures import known_failures, unexpected_outcome
from tests.ksqldb.run import main

from hayase.sql.errors import ParseFailedError, StatementError

STREAM = "CREATE STREAM crates (id INT KEY, kilos DOUBLE) WITH (kafka_topic='crates', value_format='JSON');"
COPY = "CREATE STREAM heavy AS SELECT id, kilos * 2 AS twice FROM crates WHERE kilos > 1;"


def case(**changes: Any) -> dict[str, Any]:
    record = {"topic": "crates", "key": 1, "value": {"kilos": 1.5}, "timestamp": 7}
    result = {"topic": "HEAVY", "key": 1, "value": {"TWICE": 3.0}, "timestamp": 7}
    return {
        "id": "crates.json::heavy",
        "file": "crates.json",
        "name": "heavy",
        "statements": [STREAM, COPY],
        "inputs": [record],
        "outputs": [result],
        "expected_exception": None,
        **changes,
    }


def folder(path: Path, *cases: dict[str, Any], tier: int = 1) -> CaseFolder:
    (path / "query").mkdir()
    (path / "query" / "crates.json").write_text(json.dumps(cases), "utf-8")
    (path / "tiers.json").write_text(json.dumps({"query": {each["id"]: tier for each in cases}}), "utf-8")
    return CaseFolder(path)


def failure(path: Path, **changes: Any) -> str | None:
    (found,) = folder(path, case(**changes)).cases(["query"])
    return failure_of(found)


def test_a_case_whose_records_are_right_passes(tmp_path: Path) -> None:
    assert failure(tmp_path) is None


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"value": {"TWICE": 4.0}}, "value {'TWICE': 3.0}, expected"),
        ({"value": {"TWICE": 3.0, "B": None}}, "value {'TWICE': 3.0}, expected"),
        ({"key": 2}, "key 1, expected 2"),
        ({"timestamp": 8}, "timestamp 7, expected 8"),
        ({"headers": [{"key": "a", "value": None}]}, "headers (), expected (('a', None),)"),
        ({"window": {"start": 0, "end": 5, "type": "time"}}, "window None, expected (0, 5, 'time')"),
    ],
)
def test_each_part_of_a_record_counts(tmp_path: Path, changed: dict[str, Any], problem: str) -> None:
    found = failure(tmp_path, outputs=[{**case()["outputs"][0], **changed}])
    assert found is not None and problem in found


def test_the_number_of_records_counts(tmp_path: Path) -> None:
    found = failure(tmp_path, outputs=case()["outputs"] * 2)
    assert found is not None and found.startswith("topic HEAVY: 1 records, expected 2: missing")


def test_an_expected_error_must_come_with_its_message_and_class(tmp_path: Path) -> None:
    error = {"type": "io.confluent.ksql.util.KsqlException", "message": "nonsense"}
    assert "no error; expected" in str(failure(tmp_path, expected_exception=error))


def test_an_expected_error_must_come_from_the_last_statement(tmp_path: Path) -> None:
    error = {"type": None, "message": "does not exist"}
    found = failure(tmp_path, statements=[COPY, STREAM], expected_exception=error)
    assert found is not None and "statement 1 failed, expected was the last" in found


def test_sources_are_compared_with_the_post_conditions(tmp_path: Path) -> None:
    source = {"name": "HEAVY", "type": "stream", "schema": "ID BIGINT KEY, TWICE DOUBLE"}
    found = failure(tmp_path, post={"sources": [source], "topics": None})
    assert found is not None and "source HEAVY: has the schema `ID` INTEGER KEY" in found


def test_a_topic_that_must_not_be_there_is_found(tmp_path: Path) -> None:
    table = "CREATE TABLE n AS SELECT kilos, COUNT(*) AS n FROM crates GROUP BY kilos;"
    found = failure(tmp_path, statements=[STREAM, table], outputs=[], post={"topics": {"blacklist": ".*-repartition"}})
    assert found is not None and "must not be there" in found


@pytest.mark.parametrize(
    ("actual", "expected", "equal"),
    [
        (None, None, True),
        (0, None, False),
        (True, True, True),
        (1, True, False),
        (5, Decimal("5.7"), True),
        (1.0000001, Decimal(1), True),
        (float("nan"), "NaN", True),
        (Decimal("1.0"), Decimal("1.00"), False),
        (Decimal("1.0"), Decimal("1.0"), True),
        (Decimal(1), 1, True),
        (Decimal("1.0"), 1, False),
        (b"!", "IQ==", True),
        ({"A": 1, "B": None}, {"a": 1, "B": None}, True),
        ({"A": 1}, {"A": 1, "B": None}, False),
        ([1, 2], [2, 1], False),
        ("1", 1, False),
    ],
)
def test_values_match_by_the_rules_of_ksqldbs_tests(actual: Any, expected: Any, equal: bool) -> None:
    assert matches(actual, expected) is equal


def test_a_time_of_zero_is_any_where_nothing_was_given() -> None:
    actual = Actual(None, {"A": b""}, 99, None, ())
    expected = Record("t", None, {"A": None}, 0)
    assert difference(actual, expected, any_zero_time=True) is None
    assert difference(actual, expected) == "timestamp 99, expected 0"


def test_classes_of_java_have_ours() -> None:
    statement, parsing = StatementError("X", "no such thing"), ParseFailedError("X", "no such thing")
    java = "io.confluent.ksql.parser.exception.ParseFailedException"
    assert unexpected(parsing, ExpectedError(java, "such")) is None
    assert unexpected(statement, ExpectedError(java, "such")) is not None
    assert unexpected(statement, ExpectedError("io.confluent.ksql.util.KsqlException", "other")) is not None


def test_a_known_failure_that_passes_is_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text('["a.json::b"]\nreason = "because"\n', "utf-8")
    known = known_failures(file)
    assert unexpected_outcome("a.json::b", "wrong", known) is None
    assert unexpected_outcome("a.json::c", "wrong", known) == "wrong"
    assert unexpected_outcome("a.json::b", None, known) == "passes, but is listed as a known failure: because"


def test_the_command_ends_with_the_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = case(id="crates.json::wrong", outputs=[{**case()["outputs"][0], "key": 9}])
    where = folder(tmp_path, case(), wrong).path
    assert main([str(where), "--kind", "query"]) == 1
    out = capsys.readouterr().out
    assert "FAILED crates.json::wrong (tier 1)" in out
    assert "1 passed, 1 failed" in out.splitlines()[-1]
    assert main([str(where), "--filter", "heavy"]) == 0
    assert main([str(where), "--tiers", "2"]) == 0
