"""A foreign-key join ends with the rows of both tables joined, however its input is ordered and cut into epochs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.task.harness import Chunking, Given, LocalRun, Result, run_partitions
from tests.unit.task.test_table_cuts import (
    JSON,
    KEPT,
    LONG,
    OFF,
    READ,
    TEXT,
    WRITE,
    cuts,
    foreign_key,
    joined_by_foreign_key,
    keys,
    pair,
    values,
)

from hayase import (
    Consumed,
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    FixedKeyRecord,
    Grouped,
    Materialized,
    Produced,
    PunctuationType,
    Serde,
    Serdes,
    StreamsBuilder,
    Topology,
)
from hayase.serde.murmur2 import partition_for_key

FOREIGN = {"p": b"k", "q": b"l"}
records = st.lists(
    st.builds(Given, st.sampled_from("ab"), st.just(0), keys, values, st.integers(0, 120), st.just(())), max_size=30
)


def left_row(value: dict[str, Any] | None, time_ms: int) -> Given:
    return Given("a", 0, b"m", None if value is None else json.dumps(value).encode(), time_ms, ())


RIGHT = Given("b", 0, b"k", b'{"g":"r","n":1}', 100, ())
JOINED = [RIGHT, left_row({"g": "p", "n": 0}, 0), Given("b", 0, b"m", b'{"g":"r","n":2}', 100, ())]
"""With cuts behind the second and the third, the first two have a result before what follows."""
EARLY = [RIGHT._replace(timestamp_ms=0), *JOINED[1:]]
SAME = {"g": "p", "n": 7}
RIGHT_GONE = RIGHT._replace(value=None, timestamp_ms=3)
NONE, OTHER_NONE, DANGLING, OTHER_DANGLING = ({"g": g, "n": n} for g, n in (("r", 1), ("r", 2), ("q", 3), ("q", 4)))


def joined(found: list[Given], *, keeps_left: bool) -> dict[bytes, Any]:
    """The rows of both tables in the end, joined."""
    last: dict[str, dict[bytes, Any]] = {"a": {}, "b": {}}
    for record in found:
        assert record.key is not None
        last[record.topic][record.key] = None if record.value is None else json.loads(record.value)
    rows = {key: row for key, row in last["a"].items() if row is not None}
    pairs = {key: {"l": row, "r": last["b"].get(FOREIGN.get(row["g"], b""))} for key, row in rows.items()}
    return {key: pair for key, pair in pairs.items() if keeps_left or pair["r"] is not None}


@pytest.mark.parametrize("caching", [OFF, {}], ids=["uncached", "cached"])
@pytest.mark.parametrize("form", ["rows", "auto"])
@settings(max_examples=examples(40), deadline=None, print_blob=True)
@given(found=records, at=cuts, chunk=st.none() | st.just(Chunking(1, 1)))
@example(found=[*JOINED, left_row(NONE, 1), left_row(OTHER_NONE, 2)], at=[2, 3], chunk=Chunking(1, 1))
@example(found=[*JOINED, left_row(NONE, 1), left_row(None, 2)], at=[2, 3], chunk=Chunking(1, 1))
@example(found=[*JOINED, left_row(DANGLING, 1), left_row(OTHER_DANGLING, 2)], at=[2, 3], chunk=Chunking(1, 1))
@example(found=[*JOINED, left_row(None, 1), left_row(DANGLING, 2)], at=[2, 3], chunk=Chunking(1, 1))
@example(found=[*JOINED, left_row(NONE, 1), left_row(OTHER_NONE, 2)], at=[2, 3, 4], chunk=None)
@example(found=[*JOINED, left_row(None, 1), left_row(DANGLING, 2)], at=[2, 3, 4], chunk=None)
@example(found=[*EARLY, RIGHT_GONE, left_row(SAME, 5)], at=[3], chunk=None)
@example(found=[*EARLY, RIGHT_GONE, left_row(SAME, 5)], at=[3], chunk=Chunking(1, 1))
@example(found=[*EARLY, RIGHT_GONE, left_row(SAME, 3)], at=[3], chunk=None)
@example(found=[*EARLY, RIGHT_GONE, left_row(SAME, 5), left_row(SAME | {"n": 8}, 6)], at=[3], chunk=None)
def test_the_last_results_are_those_of_the_last_rows(
    form: str, caching: dict[str, Any], found: list[Given], at: list[int], chunk: Chunking | None
) -> None:
    placed = [each._replace(partition=partition_for_key(each.key or b"", 2)) for each in found]
    result = run_partitions(
        joined_by_foreign_key(), {"a": 2, "b": 2}, placed, at, processing_form=form, chunk=chunk, **caching
    )
    for topic in ("inner", "left"):
        last = {key: json.loads(value) for key, value in result.last(topic).items() if value is not None}
        assert last == joined(found, keeps_left=topic == "left")


def joined_with_itself() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("a", READ)
    table.join(table, foreign_key, pair, None, KEPT).to_stream().to("inner", WRITE)
    return builder.build()


def joined_both_ways() -> Topology:
    builder = StreamsBuilder()
    left, right = builder.table("a", READ), builder.table("b", READ)
    left.join(right, foreign_key, pair, None, KEPT).to_stream().to("inner", WRITE)
    right.join(left, foreign_key, pair).to_stream().to("back", WRITE)
    return builder.build()


def joined_twice() -> Topology:
    builder = StreamsBuilder()
    left, right = builder.table("a", READ), builder.table("b", READ)
    first = left.join(right, foreign_key, lambda row, _: row, None, Materialized.as_("first").with_value_serde(JSON))
    first.join(right, foreign_key, pair).to_stream().to("inner", WRITE)
    return builder.build()


BY_QUESTIONS: dict[str, tuple[Callable[[], Topology], dict[str, tuple[str, str]]]] = {
    "two tables": (joined_by_foreign_key, {"inner": ("a", "b")}),
    "a table with itself": (joined_with_itself, {"inner": ("a", "a")}),
    "both ways": (joined_both_ways, {"inner": ("a", "b"), "back": ("b", "a")}),
    "a result with the same table": (joined_twice, {"inner": ("a", "b")}),
}
"""Topologies, and which tables their outputs join. Questions of all but the first and the last cross a topic."""
chained = st.lists(
    st.builds(Given, st.sampled_from("ab"), st.just(0), st.sampled_from([b"k", b"k", b"l", b"m"]), values,
              st.integers(0, 20), st.just(())),
    max_size=30,
)  # fmt: skip


def in_one_table(key: bytes, value: dict[str, Any] | None) -> Given:
    return Given("a", 0, key, None if value is None else json.dumps(value).encode(), 0, ())


FILLED = [in_one_table(b"k", NONE), in_one_table(b"m", SAME), *[in_one_table(b"l", NONE)] * 3]
"""With cuts behind the second record and each that follows, the second row of one table has a result by the first."""


@pytest.mark.parametrize("name", BY_QUESTIONS)
@pytest.mark.parametrize("form", ["rows", "auto"])
@settings(max_examples=examples(60), deadline=None, print_blob=True)
@given(
    found=chained,
    at=cuts,
    read_back=st.lists(st.integers(0, 4), max_size=8),
    caching=st.sampled_from([OFF, {}]),
    chunk=st.none() | st.just(Chunking(1, 1)),
)
@example(
    found=[*FILLED, in_one_table(b"k", None), in_one_table(b"m", SAME | {"n": 8})],
    at=[2, 3, 4, 5],
    read_back=[],
    caching=OFF,
    chunk=None,
)
@example(
    found=[*FILLED, in_one_table(b"m", NONE), in_one_table(b"m", OTHER_NONE)],
    at=[2, 3, 4, 5, 6],
    read_back=[],
    caching=OFF,
    chunk=None,
)
@example(
    found=[*JOINED, left_row(NONE, 1), left_row(OTHER_NONE, 2)],
    at=[2, 3, 4],
    read_back=[9, 9, 9, 0],
    caching=OFF,
    chunk=None,
)
def test_however_late_answers_are_read_the_last_results_are_those_of_the_last_rows(
    form: str,
    name: str,
    found: list[Given],
    at: list[int],
    read_back: list[int],
    caching: dict[str, Any],
    chunk: Chunking | None,
) -> None:
    make, outputs = BY_QUESTIONS[name]
    placed = [each._replace(partition=partition_for_key(each.key or b"", 2)) for each in found]
    result = run_partitions(
        make(), {"a": 2, "b": 2}, placed, at, processing_form=form, chunk=chunk, read_back=read_back, **caching
    )
    for topic, (left_table, right_table) in outputs.items():
        assert results(result, topic) == joined_rows(found, left_table, right_table)


def results(result: Result, topic: str) -> dict[bytes, Any]:
    return {key: json.loads(value) for key, value in result.last(topic).items() if value is not None}


def joined_rows(found: list[Given], left_table: str, right_table: str) -> dict[bytes, Any]:
    """The inner join of the last rows of two tables, which may be one."""
    last: dict[str, dict[bytes, Any]] = {"a": {}, "b": {}}
    for record in found:
        assert record.key is not None
        last[record.topic][record.key] = None if record.value is None else json.loads(record.value)
    rows = {key: row for key, row in last[left_table].items() if row is not None}
    pairs = {key: {"l": row, "r": last[right_table].get(FOREIGN.get(row["g"], b""))} for key, row in rows.items()}
    return {key: each for key, each in pairs.items() if each["r"] is not None}


def test_an_aggregate_is_joined_with_the_table_that_it_is_made_of() -> None:
    builder = StreamsBuilder()
    table = builder.table("b", READ)
    by_group = table.group_by(lambda _, row: (row["g"], row["n"]), Grouped.with_(TEXT, LONG))
    sums = by_group.reduce(lambda total, n: total + n, lambda total, n: total - n, Materialized.as_("sums"))
    rows = Materialized.as_("rows").with_key_serde(TEXT).with_value_serde(JSON)
    left = sums.map_values(lambda total: {"n": total, "g": "p"}, rows).filter(lambda key, _: key == "p")
    left.join(table, foreign_key, pair, None, KEPT).to_stream().to("inner", WRITE)
    local = LocalRun(builder.build(), {"b": 1}, **OFF)
    right, group = Given("b", 0, b"k", b'{"g":"r","n":1}', 0, ()), Given("b", 0, b"x", b'{"g":"p","n":2}', 0, ())
    for records in ([right, group], [], [], []):
        local.run_epoch(records)

    local.run_epoch(
        [right._replace(value=None, timestamp_ms=5), group._replace(value=b'{"g":"p","n":3}', timestamp_ms=6)]
    )

    assert results(local.finish(), "inner") == {}


class Again(FixedKeyProcessor[str, Any, Any]):
    """Forwards rows, and each again, with another `n`, whenever stream time has gone on by 50 ms."""

    def init(self, context: FixedKeyProcessorContext[str, Any]) -> None:
        self._context = context
        self._rows: dict[str, FixedKeyRecord[str, Any]] = {}
        context.schedule(timedelta(milliseconds=50), PunctuationType.STREAM_TIME, self._again)

    def process(self, record: FixedKeyRecord[str, Any]) -> None:
        self._rows[record.key] = record
        self._context.forward(record)

    def _again(self, now_ms: int) -> None:
        for record in self._rows.values():
            self._context.forward(record.with_value({**record.value, "n": now_ms}))


def joined_and_punctuated(processor: type[FixedKeyProcessor[str, Any, Any]], *, is_left: bool = False) -> Topology:
    builder = StreamsBuilder()
    kept = Materialized.as_("rows").with_key_serde(TEXT).with_value_serde(JSON)
    left = builder.stream("a", READ).process_values(processor).to_table(kept)
    join = left.left_join if is_left else left.join
    join(builder.table("b", READ), foreign_key, pair, None, KEPT).to_stream().to("inner", WRITE)
    return builder.build()


class ComesAndGoes(FixedKeyProcessor[str, Any, Any]):
    """Forwards rows; makes a row `m` when stream time has come to a second, and deletes it after two."""

    def init(self, context: FixedKeyProcessorContext[str, Any]) -> None:
        self._context = context
        self._m: FixedKeyRecord[str, Any] | None = None
        context.schedule(timedelta(milliseconds=10), PunctuationType.STREAM_TIME, self._punctuate)

    def process(self, record: FixedKeyRecord[str, Any]) -> None:
        if record.key == "m" and record.value is not None:
            self._m = record
        self._context.forward(record)

    def _punctuate(self, now_ms: int) -> None:
        if self._m is not None and now_ms >= 1000:
            self._context.forward(self._m.with_value({"g": "p", "n": 33} if now_ms < 2000 else None))


@pytest.mark.parametrize("is_left", [False, True])
def test_a_row_that_comes_and_goes_in_a_cache_keeps_no_result(is_left: bool) -> None:
    topology = joined_and_punctuated(ComesAndGoes, is_left=is_left)
    local = LocalRun(topology, {"a": 1, "b": 1}, processing_form="rows", read_back=[9, 9, 9, 0, 0])
    row = Given("a", 0, b"m", b'{"g":"p","n":2}', 0, ())
    for records in ([RIGHT._replace(timestamp_ms=0), row, row._replace(key=b"o")], [], []):
        local.run_epoch(records)
    local.run_epoch([RIGHT._replace(value=b'{"g":"r","n":7}', timestamp_ms=1000)])  # its answers move stream time
    local.run_epoch([row._replace(value=None, timestamp_ms=5)])  # and this one's comes behind them
    local.run_epoch([row._replace(key=b"o", value=b'{"g":"p","n":4}', timestamp_ms=2500)])  # they are read here

    found = results(local.finish(), "inner")

    assert found == {b"o": {"l": {"g": "p", "n": 4}, "r": {"g": "r", "n": 7}}}


def test_a_punctuation_between_answers_keeps_no_result() -> None:
    local = LocalRun(joined_and_punctuated(Again), {"a": 1, "b": 1}, **OFF)
    row = Given("a", 0, b"m", b'{"g":"p","n":2}', 0, ())
    for records in ([RIGHT._replace(timestamp_ms=0), row, row._replace(key=b"o")], [], []):
        local.run_epoch(records)

    local.run_epoch([RIGHT._replace(value=None, timestamp_ms=100)])

    assert results(local.finish(), "inner") == {}


class Key:
    """A key whose `repr` is another one for each object."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


class KeySerde(Serde[Key]):
    def to_bytes(self, value: Key) -> bytes:
        return value.text.encode()

    def from_bytes(self, data: bytes) -> Key:
        return Key(data.decode())


@dataclass(frozen=True)
class Changed:
    """What changes in one epoch, after a row of each table was joined."""

    right: bool
    first: dict[str, Any]
    second: dict[str, Any]


@pytest.mark.parametrize(
    "changed", [Changed(True, {"g": "p", "n": 3}, {"g": "p", "n": 4}), Changed(False, NONE, OTHER_NONE)]
)
def test_keys_are_equal_if_their_bytes_are(changed: Changed) -> None:
    builder = StreamsBuilder()
    read = Consumed.with_(KeySerde(), JSON)
    left, right = builder.table("a", read), builder.table("b", read)

    def key_of(row: Any) -> Key | None:
        key = foreign_key(row)
        return None if key is None else Key(key)

    kept = Materialized.as_("kept").with_value_serde(JSON)
    left.join(right, key_of, pair, None, kept).to_stream().to("inner", Produced.with_(KeySerde(), JSON))
    local = LocalRun(builder.build(), {"a": 1, "b": 1}, **OFF)
    for records in ([RIGHT._replace(timestamp_ms=0), left_row({"g": "p", "n": 2}, 0)], [], []):
        local.run_epoch(records)
    gone = [RIGHT._replace(value=None, timestamp_ms=5)] if changed.right else []

    local.run_epoch([*gone, left_row(changed.first, 6), left_row(changed.second, 7)])

    assert results(local.finish(), "inner") == {}


def joined_by_other_bytes(extra: int, *, sorted_fields: bool = True) -> Topology:
    """The left side is a view of a table whose serde writes fields in another order than the topic has them."""
    builder = StreamsBuilder()
    read = Consumed.with_(TEXT, Serdes.json(sort_fields=sorted_fields))
    left = builder.table("a", read, Materialized.as_("rows")).map_values(lambda row: {**row, "extra": extra})
    left.join(builder.table("b", READ), foreign_key, pair, None, KEPT).to_stream().to("inner", WRITE)
    return builder.build()


def test_a_row_is_joined_though_its_store_gives_its_fields_in_another_order() -> None:
    local = LocalRun(joined_by_other_bytes(1), {"a": 1, "b": 1})
    local.run_epoch([RIGHT._replace(timestamp_ms=0), Given("a", 0, b"m", b'{"n":2,"g":"p"}', 0, ())])

    assert set(results(local.finish(), "inner")) == {b"m"}


@dataclass
class Tagged:
    g: str
    tags: set[str]


def test_a_row_is_joined_though_its_set_is_read_in_another_order() -> None:
    builder = StreamsBuilder()
    read = Consumed.with_(TEXT, Serdes.json(Tagged))
    kept = Materialized.as_("kept").with_value_serde(JSON)
    left = builder.table("a", read)
    left.join(builder.table("b", READ), lambda row: "k", lambda row, right: right["n"], None, kept)
    local = LocalRun(builder.build(), {"a": 1, "b": 1})
    tags = [[f"{letter}{number}{other}" for letter in "abcdefgh"] for number in range(9) for other in range(9)]
    rows = [
        Given("a", 0, b"%d" % number, json.dumps({"g": "p", "tags": each}).encode(), 0, ())
        for number, each in enumerate(tags)
    ]
    local.run_epoch([RIGHT._replace(timestamp_ms=0), *rows])

    assert len(local.finish().stores[("0_0", "kept")]) == len(rows)


@pytest.mark.parametrize("form", ["rows", "auto"])
def test_rows_follow_their_right_rows_when_a_function_in_front_of_the_join_has_changed(form: str) -> None:
    before = LocalRun(joined_by_other_bytes(1), {"a": 1, "b": 1}, processing_form=form)
    before.run_epoch([RIGHT._replace(timestamp_ms=0), Given("a", 0, b"m", b'{"n":2,"g":"p"}', 0, ())])
    before.finish()
    after = before.changed_to(joined_by_other_bytes(2))
    after.run_epoch([RIGHT._replace(value=b'{"g":"r","n":8}', timestamp_ms=1)])
    changed = results(after.finish(), "inner")
    after.run_epoch([RIGHT._replace(value=None, timestamp_ms=2)])

    assert changed == {b"m": {"l": {"g": "p", "n": 2, "extra": 2}, "r": {"g": "r", "n": 8}}}
    assert results(after.finish(), "inner") == {}


@pytest.mark.parametrize("form", ["rows", "auto"])
def test_rows_of_a_checkpoint_without_what_was_asked_are_joined_and_their_results_go(form: str) -> None:
    topology = joined_with_itself()
    (store,) = (name for name, spec in topology.stores.items() if spec.internal)
    local = LocalRun(topology, {"a": 1}, processing_form=form, **OFF)
    local.run_epoch(FILLED)
    local.finish()
    local.empty_store(store)
    local.run_epoch([in_one_table(b"k", OTHER_NONE)])
    changed = results(local.finish(), "inner")
    local.empty_store(store)

    local.run_epoch([in_one_table(b"k", None), in_one_table(b"m", SAME | {"n": 8})])

    assert changed == {b"m": {"l": SAME, "r": OTHER_NONE}}
    assert results(local.finish(), "inner") == {}
