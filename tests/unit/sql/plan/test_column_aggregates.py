"""Aggregates in columns: what they store, what fails in them, and what EXPLAIN says of them."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from tests.ksqldb.epoch_driver import EpochDriver

import hayase.sql as sql_package
from hayase.serde.protocol import Serde
from hayase.sql.engine import SqlEngine
from hayase.sql.errors import FunctionError
from hayase.sql.formats.columns import Column
from hayase.sql.formats.internal import internal_value_serde
from hayase.sql.functions.aggregate.collecting import CollectList
from hayase.sql.statements.forms import forms_of
from hayase.sql.types import sql_types as sql
from hayase.testing.topics import RawRecord
from hayase.topology.topology import Topology

SOURCE = "CREATE STREAM s (k STRING KEY, v INT, t STRING, n DECIMAL(4, 0)) WITH (kafka_topic='s', value_format='JSON');"
MEAN = sql.StructType((("SUM", sql.BIGINT), ("COUNT", sql.BIGINT)))


def topology_of(query: str) -> Topology:
    engine = SqlEngine({"ksql.persistence.default.format.value": "JSON"})
    engine.script(SOURCE + query)
    (running,) = engine.queries.values()
    return running.topology


def states(query: str) -> Serde[dict[str, Any]]:
    """The serde of what an aggregation stores."""
    (spec,) = (spec for name, spec in topology_of(query).stores.items() if "Aggregate-Materialize" in name)
    assert spec.value_serde is not None
    return spec.value_serde


def record(key: str, **row: object) -> RawRecord:
    return RawRecord("s", key.encode(), json.dumps(row).encode(), 0)


def written(topology: Topology, *records: RawRecord, **config: object) -> list[Any]:
    """The results of one epoch."""
    with EpochDriver(topology, {"statestore.cache.max.bytes": 0, **config}) as driver:
        driver.pipe_epoch(list(records))
        assert not driver.forms["rows"]
        return [json.loads(each.value or b"null") for each in driver.output_queue("R")]


def test_a_mean_is_stored_as_its_function_stores_it_whatever_is_beside_it() -> None:
    alone = states("CREATE TABLE r AS SELECT k, AVG(v) AS x FROM s GROUP BY k;")
    beside = states("CREATE TABLE r AS SELECT k, AVG(v) AS x, COLLECT_LIST(t) AS y FROM s GROUP BY k;")
    function = internal_value_serde([Column("KSQL_AGG_VARIABLE_0", MEAN)])
    data = function.to_bytes({"KSQL_AGG_VARIABLE_0": {"SUM": 7, "COUNT": 2}})
    fields = {"KSQL_AGG_VARIABLE_0_SUM": 7, "KSQL_AGG_VARIABLE_0_COUNT": 2}
    assert alone.from_bytes(data) == fields and alone.to_bytes(fields) == data
    assert beside.from_bytes(data) == {**fields, "KSQL_AGG_VARIABLE_1": None}


def test_nested_states_are_the_same_in_columns() -> None:
    serde = states("CREATE TABLE r AS SELECT k, COUNT(*) AS n, AVG(v) AS x, COLLECT_LIST(t) AS y FROM s GROUP BY k;")
    codec = pickle.loads(pickle.dumps(serde)).columns
    names = ["KSQL_AGG_VARIABLE_0", "KSQL_AGG_VARIABLE_1_SUM", "KSQL_AGG_VARIABLE_1_COUNT", "KSQL_AGG_VARIABLE_2"]
    rows = [dict(zip(names, row, strict=True)) for row in ([1, 2, 1, ["a", None]], [3, -5, 2, []])]
    data = [serde.to_bytes(row) for row in rows]
    frame = codec.decode_list(data).checked().frame
    assert frame.columns == names
    assert codec.encode(frame) == data
    assert codec.to_python(frame) == rows
    assert codec.from_python(rows)[0].equals(frame)


def test_states_of_another_shape_are_refused() -> None:
    serde = states("CREATE TABLE r AS SELECT k, AVG(v) AS x FROM s GROUP BY k;")
    flat = internal_value_serde([Column("A", sql.BIGINT), Column("B", sql.BIGINT)])
    codec = serde.columns
    assert codec is not None
    assert codec.decode_list([flat.to_bytes({"A": 7, "B": 2})]).bad


@pytest.mark.parametrize("form", ["rows", "auto"])
def test_functions_that_a_group_was_stored_without_begin_with_their_first_state(form: str) -> None:
    old = topology_of("CREATE TABLE r AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;")
    new = topology_of(
        "CREATE TABLE r AS SELECT k, COUNT(*) AS n, SUM(v) AS x, AVG(v) AS y, COLLECT_LIST(v) AS z, MAX(v) AS w "
        "FROM s GROUP BY k;"
    )
    with EpochDriver(old, {"statestore.cache.max.bytes": 0, "processing.form": form}) as driver:
        driver.pipe_epoch([record("a", v=1)])
        driver.replace_topology(new)
        driver.pipe_epoch([record("a", v=3), record("a", v=None)])
        rows = [json.loads(each.value or b"") for each in driver.output_queue("R")]
    assert rows[-1] == {"N": 3, "X": 3, "Y": 3.0, "Z": [3, None], "W": 3}


def test_a_sum_of_decimals_that_overflows_stops_its_query_in_columns_too() -> None:
    topology = topology_of("CREATE TABLE r AS SELECT k, SUM(n) AS x FROM s GROUP BY k;")
    with pytest.raises(FunctionError, match="overflow"):
        written(topology, record("a", n=9999), record("a", n=1))


@pytest.mark.parametrize(
    "window", ["", "WINDOW HOPPING (SIZE 2 SECONDS, ADVANCE BY 1 SECOND)", "WINDOW SESSION (1 SECOND)"]
)
def test_an_input_that_fails_is_left_out_of_all_functions(window: str, monkeypatch: pytest.MonkeyPatch) -> None:
    topology = topology_of(
        f"CREATE TABLE r AS SELECT k, COUNT(*) AS c, COLLECT_LIST(v) AS y FROM s {window} GROUP BY k;"
    )
    add = CollectList.add

    def add_unless_2(self: CollectList, state: list[Any], value: Any) -> list[Any]:
        if value == 2:
            raise ValueError("no 2")
        return add(self, state, value)

    monkeypatch.setattr(CollectList, "add", add_unless_2)
    records = [record("a", v=1), record("a", v=2), record("b", v=3), record("a", v=2), record("a", v=4)]
    config = {"processing.exception.handler": "log_and_continue"}
    in_columns = written(topology, *records, **config)
    assert {"C": 2, "Y": [1, 4]} in in_columns and {"C": 3} not in in_columns
    with EpochDriver(topology, {"statestore.cache.max.bytes": 0, "processing.form": "rows", **config}) as driver:
        driver.pipe_epoch(records)
        assert [json.loads(each.value or b"null") for each in driver.output_queue("R")] == in_columns


def test_explain_says_which_aggregates_are_loops() -> None:
    topology = topology_of("CREATE TABLE r AS SELECT k, COUNT(*) AS c, TOPK(v + 1, 2) AS x FROM s GROUP BY k;")
    steps = [step for each in forms_of(topology) for step in each["steps"]]
    (aggregate_step,) = (step for step in steps if "AGGREGATE" in step["node"])
    assert aggregate_step["form"] == "columns"
    assert aggregate_step["expressions"] == [
        "KSQL_AGG_VARIABLE_0, count: columns",
        "TOPK((V + 1)): a loop over KSQL_AGG_ARGUMENT_1_0",
    ]


def test_failures_in_columns_are_in_the_processing_log_in_their_order() -> None:
    topology = topology_of(
        "CREATE STREAM r AS SELECT k, v / 0 AS x, REDUCE(ARRAY[v], 1, (a, b) => a / b) AS y FROM s WHERE v / v = 1;"
    )
    entries = {}
    for form in ("rows", "auto"):
        config = {"processing.log.topic.name": "log", "processing.form": form}
        with EpochDriver(topology, config) as driver:
            driver.pipe_epoch([record("a", v=at % 2) for at in range(4)])
            entries[form] = [json.loads(each.value or b"") for each in driver.output_queue("log")]
    assert len(entries["auto"]) == len(entries["rows"]) == 4
    messages = {form: sorted(json.dumps(each["message"]) for each in found) for form, found in entries.items()}
    assert messages["auto"] == messages["rows"]


def test_no_column_form_has_polars_call_python() -> None:
    """It would do so in its threads, which do not have the context variable that the processing log hangs on."""
    (folder,) = sql_package.__path__
    calling = [
        path for path in Path(folder).rglob("*.py") if re.search(r"\bmap_(elements|batches|groups)\b", path.read_text())
    ]
    assert not calling
