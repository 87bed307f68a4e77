"""Queries give the same in rows, a record an epoch, and in columns, many records an epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Context, Decimal
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ksqldb.driver import Cut, epochs
from tests.ksqldb.epoch_driver import EpochDriver
from tests.unit.sql.plan.sql_queries import Input, raw_record

from hayase.core.metrics import ROW_BY_ROW
from hayase.sql.engine import SqlEngine
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.testing.topics import RawRecord

SOURCES = """
CREATE STREAM s (k STRING KEY, i INT, b BIGINT, d DOUBLE, n DECIMAL(10, 2), t STRING, a ARRAY<INT>, ts BIGINT)
    WITH (kafka_topic='s', value_format='JSON', partitions=1);
CREATE STREAM m (k STRING KEY, m MAP<STRING, INT>, x DECIMAL(40, 1), a ARRAY<MAP<STRING, DOUBLE>>,
    s STRUCT<i INT, m MAP<STRING, STRING>>) WITH (kafka_topic='m', value_format='JSON', partitions=1);
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
    "maps": "CREATE STREAM r AS SELECT k, m, m['a'] AS x, MAP_KEYS(m) AS y, AS_MAP(ARRAY['a'], ARRAY[s->i]) AS "
    "z FROM m",
    "maps inside": "CREATE STREAM r AS SELECT k, s, a, a[1]['b'] AS x, s->m['a'] AS y, TRANSFORM(m, (k, v) => k, "
    "(k, v) => v + 1) AS z FROM m WHERE m['a'] > 0 OR s->i IS NOT NULL",
    "rounded decimals": "CREATE STREAM r AS SELECT k, ROUND(n) AS a, ROUND(n, 1) AS b, ROUND(n, -2) AS c, "
    "CEIL(n) AS d, FLOOR(n) AS e, TRUNC(n) AS f, TRUNC(n, 1) AS g, ABS(n) AS h, -n AS i, "
    "CAST(ROUND(n) AS STRING) AS j FROM s",
    "new key of a rounded decimal": "CREATE STREAM r AS SELECT CAST(CEIL(n) AS STRING) AS x, k FROM s "
    "PARTITION BY CAST(CEIL(n) AS STRING)",
    "dates of times": "CREATE STREAM r AS SELECT k, CAST(FROM_UNIXTIME(ts) AS DATE) AS x, CAST(FROM_UNIXTIME(ts) AS "
    "TIME) AS y FROM s",
    "very large decimals": "CREATE STREAM r AS SELECT k, x, x + 1 AS y, m IS NULL AS z FROM m",
    "exploded maps": "CREATE STREAM r AS SELECT k, m, EXPLODE(a) AS y FROM m",
    "maps under a new key": "CREATE STREAM r WITH (value_format='AVRO') AS SELECT * FROM m PARTITION BY s->i",
    "join by another column": "CREATE STREAM r AS SELECT t, i, name FROM s JOIN u ON s.t = u.id",
}
GROUPS = {
    "nothing of the rows": "CREATE TABLE r AS SELECT 1 AS one, COUNT(*) AS x FROM s GROUP BY 1",
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
ON_CLOSE = {
    "tumbling": "CREATE TABLE r AS SELECT k, COUNT(*) AS x, TOPK(i, 2) AS y FROM s "
    "WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 1 SECOND) WHERE b IS NULL OR b > 0 GROUP BY k EMIT FINAL",
    "hopping": "CREATE TABLE r AS SELECT k, SUM(b) AS x FROM s "
    "WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 3 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY k EMIT FINAL",
    "sessions": "CREATE TABLE r AS SELECT k, COLLECT_LIST(i) AS x FROM s "
    "WINDOW SESSION (5 SECONDS, GRACE PERIOD 1 SECOND) GROUP BY k EMIT FINAL",
}
LOOPS = {
    "top values": "CREATE TABLE r AS SELECT t, TOPK(b, 2) AS x, TOPKDISTINCT(d, 2) AS y, COUNT(*) AS n FROM s "
    "GROUP BY t",
    "top rows": "CREATE TABLE r AS SELECT t, TOPK(i, d, t, 2) AS x, AVG(d) AS y, MAX(t) AS z FROM s GROUP BY t",
    "lists": "CREATE TABLE r AS SELECT i, COLLECT_LIST(t) AS x, COLLECT_SET(d) AS y, SUM_LIST(a) AS z FROM s "
    "GROUP BY i",
    "offsets": "CREATE TABLE r AS SELECT t, EARLIEST_BY_OFFSET(d) AS x, LATEST_BY_OFFSET(a, 2, false) AS y, "
    "LATEST_BY_OFFSET(MAP('a' := i)) AS z FROM s GROUP BY t",
    "statistics": "CREATE TABLE r AS SELECT t, STDDEV_SAMPLE(b) AS x, CORRELATION(i, i / 2) AS y, ATTR(d) AS z, "
    "COUNT_DISTINCT(b / i) AS n, HISTOGRAM(k) AS h FROM s GROUP BY t",
    "decimals": "CREATE TABLE r AS SELECT t, MIN(n) AS x, MAX(n) AS y, COLLECT_SET(n) AS z FROM s GROUP BY t",
    "maps": "CREATE TABLE r AS SELECT k, COLLECT_LIST(m) AS x, COUNT(a) AS y, LATEST_BY_OFFSET(s) AS z FROM m "
    "GROUP BY k",
    "loops of a table": "CREATE TABLE r AS SELECT tier, COLLECT_LIST(name) AS x, HISTOGRAM(name) AS y, COUNT(*) AS n, "
    "CORRELATION(tier, LEN(name)) AS z, ATTR(name) AS w FROM u GROUP BY tier",
    "windows": "CREATE TABLE r AS SELECT k, COLLECT_LIST(i) AS x, LATEST_BY_OFFSET(t) AS y FROM s "
    "WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 4 SECONDS, GRACE PERIOD 1 SECOND) GROUP BY k",
    "sessions": "CREATE TABLE r AS SELECT k, TOPK(b, 3) AS x, HISTOGRAM(t) AS y, TOPK(i, t, 2) AS z, AVG(i) AS "
    "w FROM s "
    "WINDOW SESSION (5 SECONDS) GROUP BY k",
}
IN_ROWS = {
    "filtered table": "CREATE TABLE r AS SELECT id, UCASE(name) AS x FROM u WHERE tier > 1",
}
INTEGERS = st.sampled_from([0, 1, -1, 2, 7, 2**31 - 1, -(2**31)])
BIGINTS = st.sampled_from([0, 1, -1, 3, 2**53 + 1, 2**63 - 1, -(2**63)])
DOUBLES = st.sampled_from([0.0, -0.0, 1.5, -2.5, 1e300, 5e-324, 1e7])
DECIMALS = st.sampled_from([Decimal(text) for text in ("0.00", "1.50", "-0.30", "99999999.99", "-99999999.99")])
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
LARGE = st.sampled_from([Decimal("0.0"), Decimal(10) ** 38 + Decimal("0.1"), -(Decimal(10) ** 38)])
MAPS = rows(
    M=st.dictionaries(st.sampled_from(["b", "a", ""]), st.none() | INTEGERS, max_size=3),
    X=LARGE.map(lambda value: value.quantize(Decimal("0.1"), context=Context(prec=60))),
    A=st.lists(st.none() | st.dictionaries(TEXTS, st.none() | DOUBLES, max_size=2), max_size=2),
    S=rows(I=INTEGERS, M=st.dictionaries(TEXTS, TEXTS, max_size=2)),
)
INPUTS = st.lists(
    st.one_of(
        st.tuples(st.just("S"), st.none() | KEYS, ROWS, TIMES),
        st.tuples(st.just("S"), KEYS, ROWS, TIMES),
        st.tuples(st.just("U"), KEYS, rows(NAME=TEXTS, TIER=INTEGERS), TIMES),
        st.tuples(st.just("M"), st.none() | KEYS, MAPS, TIMES),
        st.tuples(st.just("TWO"), st.fixed_dictionaries({"K1": INTEGERS, "K2": KEYS}), rows(V=INTEGERS), TIMES),
    ),
    max_size=12,
)


@cache
def engine_with(query: str) -> SqlEngine:
    """An engine with the sources and a query."""
    registry = EmbeddedSchemaRegistry()
    engine = SqlEngine({"ksql.persistence.default.format.value": "JSON"}, schema_registry=registry)
    engine.script(SOURCES + query + ";")
    return engine


def written(query: str, inputs: Sequence[Input], form: str, cut: Cut = "runs") -> tuple[list[RawRecord], Counter[str]]:
    """What the query writes, and the forms of its sub-topologies; `cut` says how records become epochs in columns."""
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
            for epoch in epochs(read, cut):
                driver.pipe_epoch(epoch)
        assert running.sink_topic is not None
        return list(driver.output_queue(running.sink_topic)), driver.forms


QUERIES = IN_COLUMNS | GROUPS | {f"loop, {name}": query for name, query in LOOPS.items()}


@pytest.mark.long
@pytest.mark.parametrize("name", QUERIES)
def test_a_batch_gives_what_its_records_give(name: str) -> None:
    query = QUERIES[name]

    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
    @given(INPUTS)
    def check(inputs: list[Input]) -> None:
        in_columns, forms = written(query, inputs, "columns")
        in_rows, _ = written(query, inputs, "rows")
        assert in_columns == in_rows
        assert not forms["rows"]

    check()


@pytest.mark.long
@pytest.mark.parametrize("name", ON_CLOSE)
@pytest.mark.parametrize("cut", ["runs", "random"])
def test_windows_that_close_send_the_same_results_in_the_same_order(name: str, cut: Cut) -> None:
    values = rows(I=INTEGERS, B=BIGINTS, **dict.fromkeys(("D", "N", "T", "A", "TS"), st.none()))
    numbered = st.tuples(st.just("S"), KEYS, values, TIMES)

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(numbered, max_size=25))
    def check(inputs: list[Input]) -> None:
        in_columns, forms = written(ON_CLOSE[name], inputs, "columns", cut)
        assert in_columns == written(ON_CLOSE[name], inputs, "rows")[0]
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
