"""Queries give the same in rows, a record an epoch, and in columns, many records an epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from itertools import groupby
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ksqldb.epoch_driver import EpochDriver
from tests.unit.sql.plan.sql_queries import Input, raw_record

from hayase.core.metrics import ROW_BY_ROW
from hayase.sql.engine import SqlEngine
from hayase.testing.topics import RawRecord

SOURCES = """
CREATE STREAM s (k STRING KEY, i INT, b BIGINT, d DOUBLE, n DECIMAL(10, 2), t STRING, a ARRAY<INT>, ts BIGINT)
    WITH (kafka_topic='s', value_format='JSON', partitions=1);
CREATE STREAM two (k1 INT KEY, k2 STRING KEY, v INT)
    WITH (kafka_topic='two', key_format='JSON', value_format='DELIMITED', partitions=1);
CREATE TABLE u (id STRING PRIMARY KEY, name STRING, tier INT)
    WITH (kafka_topic='u', value_format='JSON', partitions=1);
"""
IN_COLUMNS = {
    "projection": "CREATE STREAM r AS SELECT k, i + 1 AS x, b * i AS y, d / i AS z, n * 2 AS m, a FROM s",
    "functions": "CREATE STREAM r AS SELECT k, UCASE(t) AS x, ABS(b) AS y, MASK(t) AS z, LEN(t) AS l FROM s",
    "case": "CREATE STREAM r AS SELECT k, CASE WHEN i > 3 THEN b / i ELSE b END AS x, ROWTIME AS y FROM s",
    "row by row": "CREATE STREAM r AS SELECT k, REDUCE(a, 0, (x, y) => x + y) AS x, CAST(d AS STRING) AS y FROM s",
    "literal": "CREATE STREAM r AS SELECT k, 1 AS x, 'a' AS y FROM s",
    "filter": "CREATE STREAM r AS SELECT k, i FROM s WHERE i / b > 0 AND t <> 'a'",
    "impure": "CREATE STREAM r AS SELECT k, RANDOM() >= 0 AS x FROM s WHERE RANDOM() >= 0",
    "new key": "CREATE STREAM r AS SELECT * FROM s PARTITION BY i + 1",
    "no key": "CREATE STREAM r AS SELECT * FROM s PARTITION BY NULL",
    "composite key": "CREATE STREAM r WITH (key_format='JSON') AS SELECT * FROM s PARTITION BY i, UCASE(k)",
    "renamed key": "CREATE STREAM r AS SELECT k1 AS x, k2 AS y, v FROM two",
    "part of a key": "CREATE STREAM r WITH (key_format='JSON') AS SELECT * FROM two PARTITION BY k2, v",
    "explode": "CREATE STREAM r AS SELECT k, i, EXPLODE(a) AS x FROM s WHERE i > 0",
    "exploded side by side": "CREATE STREAM r AS SELECT k, EXPLODE(a) AS x, EXPLODE(ARRAY[i, i / 2]) AS y FROM s",
    "time": "CREATE STREAM r WITH (timestamp='x') AS SELECT k, ts AS x FROM s",
    "join with a table": "CREATE STREAM r AS SELECT s.k AS k, i, name, tier + i AS x FROM s LEFT JOIN u ON s.k = u.id",
    "join by another column": "CREATE STREAM r AS SELECT t, i, name FROM s JOIN u ON s.t = u.id",
}
GROUPS = {
    "groups": "CREATE TABLE r AS SELECT i, COUNT(*) AS x, SUM(b / i) AS y, SUM(i) AS z FROM s WHERE i > 0 GROUP BY i",
    "means": "CREATE TABLE r AS SELECT t, AVG(i) AS x, AVG(b) AS y, AVG(d) AS z, SUM(d) AS s FROM s GROUP BY t",
    "extremes": "CREATE TABLE r AS SELECT t, MIN(i) AS x, MAX(b) AS y, COUNT(i) AS z FROM s GROUP BY t",
    "groups of two columns": "CREATE TABLE r WITH (key_format='JSON') AS "
    "SELECT i, t, COUNT(*) AS x FROM s GROUP BY i, t",
    "groups of a table": "CREATE TABLE r AS SELECT tier, COUNT(*) AS x, SUM(LEN(name)) AS y FROM u GROUP BY tier",
    "windows": "CREATE TABLE r AS SELECT k, COUNT(*) AS x, SUM(b) AS y, WINDOWSTART AS z FROM s "
    "WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY k",
    "hopping windows": "CREATE TABLE r AS SELECT k, AVG(b) AS x FROM s "
    "WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 4 SECONDS, GRACE PERIOD 1 SECOND) GROUP BY k",
    "sessions": "CREATE TABLE r AS SELECT k, COUNT(*) AS x, MAX(b) AS y FROM s WINDOW SESSION (5 SECONDS) GROUP BY k",
}
IN_ROWS = {
    "filtered table": "CREATE TABLE r AS SELECT id, UCASE(name) AS x FROM u WHERE tier > 1",
    "results on close": "CREATE TABLE r AS SELECT k, COUNT(*) AS x FROM s "
    "WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 1 SECOND) WHERE i > 0 GROUP BY k EMIT FINAL",
    "lists": "CREATE TABLE r AS SELECT i, COLLECT_LIST(t) AS x FROM s GROUP BY i",
}
INTEGERS = st.sampled_from([0, 1, -1, 2, 7, 2**31 - 1, -(2**31)])
BIGINTS = st.sampled_from([0, 1, -1, 3, 2**53 + 1, 2**63 - 1, -(2**63)])
DOUBLES = st.sampled_from([0.0, -0.0, 1.5, -2.5, 1e300, 5e-324, 1e7])
DECIMALS = st.sampled_from([Decimal("0.00"), Decimal("1.50"), Decimal("-99999999.99")])
TEXTS = st.sampled_from(["", "a", "b", "Ab1", "é", "日本"])
KEYS = st.sampled_from(["a", "b", ""])
TIMES = st.integers(0, 100_000)


def rows(**values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any] | None]:
    """Rows in which any column may be null, now and then none at all."""
    present = st.fixed_dictionaries({name: st.none() | strategy for name, strategy in values.items()})
    return st.one_of(present, present, present, st.none())


ROWS = rows(
    I=INTEGERS, B=BIGINTS, D=DOUBLES, N=DECIMALS, T=TEXTS, A=st.lists(st.none() | INTEGERS, max_size=3), TS=BIGINTS
)
INPUTS = st.lists(
    st.one_of(
        st.tuples(st.just("S"), st.none() | KEYS, ROWS, TIMES),
        st.tuples(st.just("S"), KEYS, ROWS, TIMES),
        st.tuples(st.just("U"), KEYS, rows(NAME=TEXTS, TIER=INTEGERS), TIMES),
        st.tuples(st.just("TWO"), st.fixed_dictionaries({"K1": INTEGERS, "K2": KEYS}), rows(V=INTEGERS), TIMES),
    ),
    max_size=12,
)


@cache
def engine_with(query: str) -> SqlEngine:
    """An engine with the sources and a query."""
    engine = SqlEngine({"ksql.persistence.default.format.value": "JSON"})
    engine.script(SOURCES + query + ";")
    return engine


def written(query: str, inputs: Sequence[Input], form: str) -> tuple[list[RawRecord], Counter[str]]:
    """What the query writes, and the forms of its sub-topologies."""
    engine = engine_with(query)
    (running,) = engine.queries.values()
    records = [raw_record(engine, each) for each in inputs]
    config = {
        "statestore.cache.max.bytes": 0,
        "processing.form": "rows" if form == "rows" else "auto",
        "deserialization.exception.handler": "log_and_continue",
    }
    with EpochDriver(running.topology, config) as driver:
        read = [record for record in records if record.topic in running.source_topics]
        if form == "rows":
            for record in read:
                driver.pipe_epoch([record])
        else:
            for _, epoch in groupby(read, key=lambda record: record.topic):
                driver.pipe_epoch(list(epoch))
        assert running.sink_topic is not None
        return list(driver.output_queue(running.sink_topic)), driver.forms


@pytest.mark.parametrize("name", IN_COLUMNS | GROUPS)
def test_a_batch_gives_what_its_records_give(name: str) -> None:
    query = (IN_COLUMNS | GROUPS)[name]

    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
    @given(INPUTS)
    def check(inputs: list[Input]) -> None:
        in_columns, forms = written(query, inputs, "columns")
        in_rows, _ = written(query, inputs, "rows")
        assert in_columns == in_rows
        assert not forms["rows"]

    check()


@pytest.mark.parametrize("name", IN_ROWS)
def test_what_runs_in_rows_does_not_depend_on_batches_either(name: str) -> None:
    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
    @given(INPUTS)
    def check(inputs: list[Input]) -> None:
        assert written(IN_ROWS[name], inputs, "columns")[0] == written(IN_ROWS[name], inputs, "rows")[0]

    check()


def test_only_the_rows_that_columns_are_not_sure_of_are_computed_row_by_row() -> None:
    engine = SqlEngine({})
    engine.script(SOURCES + "CREATE STREAM r AS SELECT k, b / i AS x, UCASE(t) AS y FROM s;")
    (query,) = engine.queries.values()
    rest = {"B": 6, "D": 0.5, "N": None, "T": "a", "A": None, "TS": None}
    records = [raw_record(engine, ("S", "k", {**rest, "I": number}, 0)) for number in (1, 0, 2, 0, 3)]
    with EpochDriver(query.topology) as driver:
        driver.pipe_epoch(records)
        values = [record.value for record in driver.output_queue("R")]
        assert values == [b'{"X":%s,"Y":"A"}' % result for result in (b"6", b"null", b"3", b"null", b"2")]
        assert driver.metrics.total(ROW_BY_ROW) == 2
