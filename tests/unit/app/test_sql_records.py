"""What a script's queries remember of their last run decides what a changed script may start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hayase.app.sql_records import (
    FOLDER,
    NumberedJson,
    QueryRecord,
    check_unchanged_or_replaceable,
    remember,
    remember_start,
    settle_start,
)
from hayase.runtime.epochs.terms import begin_term
from hayase.serde.registry import RegistrySchema
from hayase.sql.ast.statement_text import statement_text
from hayase.sql.catalog.inferred import InferredColumns
from hayase.sql.engine import SqlEngine
from hayase.sql.errors import StatementError
from hayase.sql.grammar.parser import parse_script
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.storage.posix_blobs import PosixBlobs
from hayase.task.epoch_record import EpochRecord, Epochs, Program, record_name

SOURCE = "CREATE STREAM s (k INT KEY, v INT, w INT) WITH (kafka_topic='s', value_format='JSON');"
OTHER = "CREATE TABLE t (k INT PRIMARY KEY, x INT) WITH (kafka_topic='t', value_format='JSON');"
COUNTED = "CREATE TABLE a AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s {} GROUP BY k;"
JOINED = "CREATE STREAM a AS SELECT s.k, v{} FROM s JOIN t ON s.k = t.k;"


def record(*script: str) -> QueryRecord:
    """The record of the last query of a script, read back from JSON."""
    parsed = parse_script("\n".join(script))
    engine = SqlEngine()
    for statement in parsed:
        engine.execute(statement)
    *_, query = engine.queries.values()
    made = QueryRecord.of(query, statement_text(parsed[-1].statement), engine.catalog)
    return QueryRecord.from_json(json.loads(json.dumps(made.to_json())))


def refusal(tmp_path: Path, before: QueryRecord, after: QueryRecord) -> str | None:
    blobs = PosixBlobs(tmp_path, fsync=False)
    remember(blobs, before)
    try:
        check_unchanged_or_replaceable(blobs, after, "A", "shop-A")
    except StatementError as error:
        return error.message
    return None


def test_a_query_without_checkpoint_may_have_any_definition(tmp_path: Path) -> None:
    check_unchanged_or_replaceable(PosixBlobs(tmp_path), record(SOURCE, COUNTED.format("")), "A", "shop-A")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("CREATE STREAM a AS SELECT k, v FROM s;", "create  stream a as select k, v from s;"),
        ("CREATE STREAM a AS SELECT k, v FROM s;", "CREATE STREAM a AS SELECT k, v, w + 1 AS x FROM s WHERE v > 3;"),
        (COUNTED.format(""), COUNTED.format("WHERE v > 0")),
        (COUNTED.format(""), COUNTED.format("").replace("SUM(v) AS total", "SUM(v) AS total, MAX(v) AS most")),
        (JOINED.format(""), JOINED.format("")),
    ],
)
def test_what_state_does_not_depend_on_may_change(tmp_path: Path, before: str, after: str) -> None:
    sources = (SOURCE, OTHER)
    assert refusal(tmp_path, record(*sources, before), record(*sources, after)) is None


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (COUNTED.format(""), COUNTED.format("WHERE w > 0"), "matching columns not part of aggregate"),
        (COUNTED.format(""), COUNTED.format("").replace("SUM", "MAX"), "keep its aggregate functions"),
        (COUNTED.format(""), COUNTED.format("WINDOW TUMBLING (SIZE 1 SECOND)"), "windows = none"),
        (JOINED.format(""), JOINED.format(", x"), "Upgrades not yet supported for StreamTableJoin"),
        ("CREATE STREAM a AS SELECT k, v FROM s;", "CREATE STREAM a AS SELECT k, w FROM s;", "`V` INTEGER"),
    ],
)
def test_what_state_depends_on_may_not_change(tmp_path: Path, before: str, after: str, reason: str) -> None:
    sources = (SOURCE, OTHER)
    message = refusal(tmp_path, record(*sources, before), record(*sources, after))
    assert message is not None and reason in message
    assert "hayase app reset shop-A" in message and "it was: CREATE" in message


def test_a_source_that_changes_is_a_reason_for_the_queries_that_read_it(tmp_path: Path) -> None:
    query = "CREATE STREAM a AS SELECT k, v FROM s;"
    wider, other = SOURCE.replace("w INT", "w INT, x INT"), SOURCE.replace("v INT", "v BIGINT")
    assert refusal(tmp_path, record(SOURCE, query), record(wider, query)) is None
    message = refusal(tmp_path, record(SOURCE, query), record(other, query))
    assert message is not None and "what it reads has changed" in message and "`V` INTEGER" in message


def test_the_last_value_counts_and_those_before_it_go(tmp_path: Path) -> None:
    value = NumberedJson(PosixBlobs(tmp_path, fsync=False), FOLDER)
    assert value.get() is None
    for number in range(3):
        value.put({"number": number})
    value.put({"number": 2})
    assert value.get() == {"number": 2}
    assert [each.name for each in (tmp_path / "sql").iterdir() if each.suffix == ".json"] == ["000003.json"]


def _avro(*names: str) -> RegistrySchema:
    fields = [{"name": name, "type": ["null", "int"], "default": None} for name in names]
    return RegistrySchema(json.dumps({"type": "record", "name": "R", "fields": fields}))


def test_an_inferred_schema_stays_until_the_statement_changes() -> None:
    registry = EmbeddedSchemaRegistry()
    registry.register("s-value", _avro("A"))
    statement = "CREATE STREAM s (k INT KEY) WITH (kafka_topic='s', value_format='AVRO');"
    first = SqlEngine(schema_registry=registry)
    first.script(statement)
    registry.register("s-value", _avro("A", "B"))
    kept = json.loads(json.dumps(first.inferred.to_json()))
    again = SqlEngine(schema_registry=registry, inferred=InferredColumns(kept))
    again.script(statement)
    assert list(again.catalog.sources["S"].columns) == ["K", "A"]
    changed = SqlEngine(schema_registry=registry, inferred=InferredColumns(kept))
    changed.script(statement.replace("k INT", "k BIGINT"))
    assert list(changed.catalog.sources["S"].columns) == ["K", "A", "B"]


COUNT = COUNTED.format("").replace(", SUM(v) AS total", "")
SUM = COUNT.replace("COUNT(*) AS n", "SUM(CAST(v AS BIGINT)) AS n")


def begin_epoch(blobs: PosixBlobs, term: int | None = None) -> int:
    """Begin an epoch in a run of this term, or in a new one, which is returned."""
    term = begin_term(blobs) if term is None else term
    epoch = max(Epochs(blobs).recorded(), default=-1) + 1
    found = EpochRecord(epoch, "L", "P", 0, {}, {}, program=Program(term))
    assert blobs.put_if_absent(record_name(epoch), found.to_bytes())
    return term


def starts(blobs: PosixBlobs, script: str) -> str | None:
    """A start that goes no further than what is kept before the first epoch; why it is refused, if it is."""
    try:
        check_unchanged_or_replaceable(blobs, record(SOURCE, script), "A", "shop-A")
    except StatementError as error:
        return error.condition
    remember_start(blobs, record(SOURCE, script))
    return None


def test_the_definition_of_a_run_that_was_killed_binds_once_it_has_begun_an_epoch(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path, fsync=False)
    assert starts(blobs, COUNT) is None
    begin_epoch(blobs)
    assert starts(blobs, SUM) == "CANNOT_REPLACE"
    assert starts(blobs, COUNT) is None
    assert starts(blobs, SUM) == "CANNOT_REPLACE"
    settle_start(blobs)
    assert starts(blobs, SUM) == "CANNOT_REPLACE"


def test_a_start_that_began_no_epoch_leaves_the_definition_before_it(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path, fsync=False)
    assert starts(blobs, COUNT) is None
    settle_start(blobs)
    assert starts(blobs, SUM) is None
    begin_epoch(blobs)
    settle_start(blobs)
    assert starts(blobs, COUNT) == "CANNOT_REPLACE"


def test_epochs_of_the_run_that_holds_the_lease_do_not_make_the_definition_of_another_start_count(
    tmp_path: Path,
) -> None:
    blobs = PosixBlobs(tmp_path, fsync=False)
    assert starts(blobs, COUNT) is None
    term = begin_epoch(blobs)
    remember(blobs, record(SOURCE, COUNT))
    remember_start(blobs, record(SOURCE, SUM))  # its start is refused in the end: the lease is held
    begin_epoch(blobs, term)
    assert starts(blobs, COUNT) is None
    settle_start(blobs)
    assert starts(blobs, COUNT) is None
    assert starts(blobs, SUM) == "CANNOT_REPLACE"


def test_columns_of_a_schema_belong_to_the_topic_that_a_variable_names() -> None:
    registry, known = EmbeddedSchemaRegistry(), InferredColumns()
    for topic in ("one", "two"):
        fields = [{"name": f"of_{topic}", "type": "int"}]
        registry.register(
            f"{topic}-value", RegistrySchema(json.dumps({"type": "record", "name": "r", "fields": fields}))
        )
    for topic in ("one", "two", "one"):
        engine = SqlEngine(schema_registry=registry, inferred=InferredColumns(known.to_json()))
        engine.script(f"DEFINE t = '{topic}'; CREATE STREAM s WITH (KAFKA_TOPIC='${{t}}', VALUE_FORMAT='AVRO');")
        known = engine.inferred
        source = engine.catalog.find("S")
        assert source is not None
        assert [column.name for column in source.value] == [f"OF_{topic.upper()}"]
