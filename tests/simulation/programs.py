"""The programs that a simulation runs, and what has to come out of them.

Every input record has an id of its own, which its outputs carry. Functions are of this module, so that workers get them
by name: those that are not deterministic draw from `chance`, which goes on from attempt to attempt.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from tests.simulation.logs import Stored

from hayase import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Repartitioned,
    Serdes,
    StreamsBuilder,
    Topology,
    count,
    latest_by_offset,
)

KEYS = 5
chance = random.Random(0)
"""What functions that are not deterministic draw from."""


@dataclass(frozen=True, slots=True)
class Given:
    """An input record."""

    topic: str
    partition: int
    offset: int
    key: str
    id: int
    to: str


@dataclass(frozen=True, slots=True)
class Output:
    """An output record."""

    partition: int
    key: str
    value: dict[str, Any]

    @classmethod
    def of(cls, stored: Stored) -> Output:
        assert stored.key is not None and stored.value is not None
        return cls(stored.partition, stored.key.decode(), json.loads(stored.value))


@dataclass
class Evidence:
    """What the oracle judges.

    Attributes:
        inputs: all input records in the order in which they were written.
        outputs: by topic, in the order of partition and offset.
        complete: all of the input must be in the output by now.
        optional: ids of records that retention removed before they were read, so that they may be missing.
        counted: how many records of each key were counted before these outputs begin.
    """

    inputs: list[Given]
    outputs: Mapping[str, list[Output]]
    complete: bool
    optional: set[int] = field(default_factory=set)
    counted: Mapping[str, int] = field(default_factory=dict)


def passed(id_: int) -> bool:
    """What filters keep."""
    return id_ % 4 != 0


def _passed(key: Any, value: dict[str, Any]) -> bool:
    return passed(value["id"])


def _to(key: Any, value: dict[str, Any]) -> str:
    return str(value["to"])


def _random_key(key: Any, value: dict[str, Any]) -> str:
    return f"k{chance.randrange(KEYS)}"


def _random_element(value: str) -> str:
    return f"k{chance.randrange(KEYS)}"


def _first() -> dict[str, Any]:
    return {"n": 0, "id": -1}


def _next(key: str, value: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    return {"n": before["n"] + 1, "id": value["id"]}


def _joined(value: dict[str, Any], row: dict[str, Any] | None) -> dict[str, Any]:
    return {"id": value["id"], "row": None if row is None else row["id"]}


def _key_of(key: str, value: dict[str, Any]) -> str:
    return key


_VALUE = {"id": pl.Int64, "to": pl.String}


def _consumed() -> Any:
    return Consumed.with_(Serdes.string(), Serdes.json(schema=_VALUE))


def _produced() -> Any:
    return Produced.with_(Serdes.string(), Serdes.json())


def _stored(name: str) -> Any:
    return Materialized.as_(name).with_key_serde(Serdes.string()).with_value_serde(Serdes.json())


def _counted(grouped: Any, *, functions: bool, name: str = "counts") -> Any:
    if functions:
        return grouped.aggregate(_first, _next, _stored(name), name="count")
    return grouped.agg(Materialized.as_(name), n=count(), id=latest_by_offset("id"), name="count")


def _stateless(version: str) -> Topology:
    builder = StreamsBuilder()
    predicate = _passed if version == "function" else (pl.col("id") % 4 != 0)
    kept = builder.stream("in", _consumed()).filter(predicate, name="kept")
    kept.to("out", _produced())
    if version == "second sink":
        kept.to("other", _produced())
    return builder.build()


def _grouped(version: str) -> Topology:
    builder = StreamsBuilder()
    table = _counted(builder.stream("in", _consumed()).group_by_key(), functions=version == "function")
    table.to_stream().to("out", _produced())
    return builder.build()


def _shuffled(version: str) -> Topology:
    builder = StreamsBuilder()
    stream: Any = builder.stream("in", _consumed())
    mapper: Any = {
        "expression": pl.col("to"),
        "function": _to,
        "impure function": _random_key,
        "impure expression": pl.col("to").map_elements(_random_element, return_dtype=pl.String),
    }[version]
    by = Grouped.with_(Serdes.string(), Serdes.json(schema=_VALUE))
    _counted(stream.group_by(mapper, by), functions=True).to_stream().to("out", _produced())
    return builder.build()


def _everything(key: Any, value: dict[str, Any]) -> bool:
    return True


def _third(key: Any, value: dict[str, Any]) -> str:
    return f"t{value['id'] % 3}"


def _changing(version: str) -> Topology:
    """Counts what goes to a key, in versions whose plans differ: nodes, sinks and sub-topologies come and go."""
    builder = StreamsBuilder()
    stream: Any = builder.stream("in", _consumed())
    if version == "filtered":
        stream = stream.filter(_everything)
    if version == "another before":
        by_third = Grouped.with_(Serdes.string(), Serdes.json(schema=_VALUE), name="by-third")
        others: Any = stream.group_by(_third, by_third).agg(Materialized.as_("others"), n=count(), name="others")
        others.to_stream().to("other", _produced())
    by_to = Grouped.with_(Serdes.string(), Serdes.json(schema=_VALUE), name="by-to")
    counted = _counted(stream.group_by(pl.col("to"), by_to), functions=True).to_stream()
    counted.to("out", _produced())
    if version == "second sink":
        counted.filter(_everything).to("other", _produced())
    return builder.build()


def _deleting(version: str) -> Topology:
    """Counts what goes to a key; further stores come and go, beside that one and in sub-topologies of their own."""
    builder = StreamsBuilder()
    stream: Any = builder.stream("in", _consumed())
    if version == "another before":
        by_third = Grouped.with_(Serdes.string(), Serdes.json(schema=_VALUE), name="by-third")
        stream.group_by(_third, by_third).agg(Materialized.as_("others"), n=count(), name="others")
    grouped = stream.group_by(pl.col("to"), Grouped.with_(Serdes.string(), Serdes.json(schema=_VALUE), name="by-to"))
    if version == "second store":
        grouped.agg(Materialized.as_("more"), n=count(), name="more")
    _counted(grouped, functions=True).to_stream().to("out", _produced())
    return builder.build()


def poisoned(id_: int) -> bool:
    """What the first version of a program fails at."""
    return id_ % 5 == 4


def _next_or_fail(key: str, value: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    if poisoned(value["id"]):
        raise ValueError(f"record {value['id']} is poison")
    return _next(key, value, before)


def _redoing(version: str) -> Topology:
    """Counts what goes to a key, at first with a function that fails; beside it, records are filtered by an expression.

    The corrected function has the plan of the one that fails; the other versions have plans of their own.
    """
    builder = StreamsBuilder()
    stream: Any = builder.stream("in", _consumed())
    if version == "filtered":
        stream = stream.filter(_everything)
    by_to = Grouped.with_(Serdes.string(), Serdes.json(schema=_VALUE), name="by-to")
    next_ = _next_or_fail if version == "poisoned" else _next
    grouped = stream.group_by(pl.col("to"), by_to)
    counted = grouped.aggregate(_first, next_, _stored("counts"), name="count").to_stream()
    counted.to("out", _produced())
    aside: Any = builder.stream("aside", _consumed()).filter(pl.col("id") % 4 == 0, name="kept")
    if version == "second sink":
        counted.filter(_everything)
        aside = aside.filter(pl.col("id") >= 0)
    aside.to("other", _produced())
    return builder.build()


def _as_text(value: dict[str, Any]) -> str:
    return json.dumps(value)


def _of_text(value: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(value)
    return read


def _draining(version: str) -> Topology:
    """Counts what goes to a key: behind a topic of its own, whose values have one serde or another, or at once."""
    builder = StreamsBuilder()
    stream: Any = builder.stream("in", _consumed())
    if version == "at once":
        around = Grouped.with_(Serdes.string(), Serdes.json(schema=_VALUE), name="around")
        grouped = stream.group_by(pl.col("to"), around)
    else:
        options = Repartitioned.as_("by-to").with_key_serde(Serdes.string())
        stream = stream.select_key(_to, name="rekeyed")
        if version == "as text":
            sent = stream.map_values(_as_text, name="sent").repartition(options.with_value_serde(Serdes.string()))
            grouped = sent.map_values(_of_text, name="read").group_by_key()
        else:
            grouped = stream.repartition(options.with_value_serde(Serdes.json(schema=_VALUE))).group_by_key()
    _counted(grouped, functions=True).to_stream().to("out", _produced())
    return builder.build()


def _through_topic(version: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", _consumed()).select_key(_to, name="rekeyed")
    options = Repartitioned.as_("by-to").with_key_serde(Serdes.string()).with_value_serde(Serdes.json(schema=_VALUE))
    _counted(stream.repartition(options).group_by_key(), functions=True).to_stream().to("out", _produced())
    return builder.build()


def _stream_table(version: str) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("rows", _consumed(), _stored("rows"))
    joined = builder.stream("in", _consumed()).left_join(table, _joined, name="joined")
    joined.to("out", _produced())
    return builder.build()


def _global_table(version: str) -> Topology:
    builder = StreamsBuilder()
    table = builder.global_table("rows", _consumed(), materialized=_stored("rows"))
    joined = builder.stream("in", _consumed()).left_join(table, _key_of, _joined, name="joined")
    joined.to("out", _produced())
    return builder.build()


def _pattern(version: str) -> Topology:
    builder = StreamsBuilder()
    consumed = _consumed().with_offset_reset_policy(version)
    builder.stream(re.compile("in.*"), consumed).filter(_passed, name="kept").to("out", _produced())
    return builder.build()


@dataclass(frozen=True)
class Program:
    """An application.

    Attributes:
        build: the topology of a version.
        versions: those that may take over from each other; the first is started first.
        sources: topics and partition counts; the first is the stream.
        sinks: topics.
        sends: whether a record comes out.
        keyed: the key of an output is that of the input; then order by key is checked.
        running: outputs number the records of their key.
        pattern: more topics may come.
        copied: it can go on with an older copy of its checkpoint, and the oracle can tell what has to come again.
        deletes: starts delete the rows of stores that are gone.
    """

    name: str
    build: Callable[[str], Topology]
    versions: tuple[str, ...]
    sources: Mapping[str, int]
    sinks: tuple[str, ...] = ("out",)
    sends: Callable[[int], bool] = lambda id_: True
    key_of: Callable[[Given], str | None] = lambda given: given.key
    running: bool = False
    pattern: bool = False
    copied: bool = True
    deletes: bool = False

    def problems(self, evidence: Evidence) -> list[str]:
        """What is wrong with the outputs; empty if nothing is."""
        found: list[str] = []
        expected = {each.id: each for each in evidence.inputs if self._is_stream(each.topic) and self.sends(each.id)}
        rows = {each.id: each for each in evidence.inputs if each.topic == "rows"}
        for topic in self.sinks:
            outputs = evidence.outputs[topic]
            found += _once(topic, outputs, expected, evidence)
            found += self._ordered(topic, outputs, expected)
            if self.running:
                found += _running(topic, outputs, evidence.counted)
            if rows:
                found += _rows(topic, outputs, expected, rows)
        return found

    def _is_stream(self, topic: str) -> bool:
        return topic != "rows"

    def _ordered(self, topic: str, outputs: Sequence[Output], expected: Mapping[int, Given]) -> list[str]:
        last: dict[tuple[str, str, int], int] = {}
        for each in outputs:
            given = expected.get(each.value["id"])
            if given is None:
                continue
            wanted = self.key_of(given)
            if wanted is not None and wanted != each.key:
                return [f"{topic}: record {given.id} has key {each.key}, not {wanted}"]
            place = (each.key, given.topic, given.partition)
            if last.get(place, -1) > given.offset:
                return [
                    (
                        f"{topic}: record {given.id} of key {each.key} comes after a later one of "
                        f"{given.topic}-{given.partition}"
                    )
                ]
            last[place] = given.offset
        return []


class RedoneProgram(Program):
    """What comes from each source goes to a sink of its own."""

    def problems(self, evidence: Evidence) -> list[str]:
        """See Program."""
        expected = {
            topic: {each.id: each for each in evidence.inputs if each.topic == topic and sends(each.id)}
            for topic, sends in (("in", lambda id_: True), ("aside", lambda id_: not passed(id_)))
        }
        found = []
        for source, sink in (("in", "out"), ("aside", "other")):
            outputs = evidence.outputs[sink]
            found += _once(sink, outputs, expected[source], evidence)
        found += self._ordered("out", evidence.outputs["out"], expected["in"])
        return found + _running("out", evidence.outputs["out"], evidence.counted)


def _once(topic: str, outputs: Sequence[Output], expected: Mapping[int, Given], evidence: Evidence) -> list[str]:
    found = []
    seen = Counter(each.value["id"] for each in outputs)
    if doubled := sorted(id_ for id_, times in seen.items() if times > 1):
        found.append(f"{topic}: {len(doubled)} records came out more than once: {doubled[:10]}")
    if strange := sorted(id_ for id_ in seen if id_ not in expected):
        found.append(f"{topic}: records that must not come out: {strange[:10]}")
    missing = sorted(id_ for id_ in expected if id_ not in seen and id_ not in evidence.optional)
    if evidence.complete and missing:
        found.append(f"{topic}: {len(missing)} of {len(expected)} records are lost: {missing[:10]}")
    return found


def _running(topic: str, outputs: Sequence[Output], counted: Mapping[str, int]) -> list[str]:
    numbers: dict[str, int] = defaultdict(int, counted)
    for each in outputs:
        numbers[each.key] += 1
        if each.value["n"] != numbers[each.key]:
            return [f"{topic}: key {each.key} counts {each.value['n']} at its record {numbers[each.key]}"]
    return []


def _rows(topic: str, outputs: Sequence[Output], expected: Mapping[int, Given], rows: Mapping[int, Given]) -> list[str]:
    newest: dict[str, int] = {}
    for each in outputs:
        row = each.value["row"]
        if row is None:
            if each.key in newest:
                return [f"{topic}: record {each.value['id']} met no row of {each.key}, which had one before"]
            continue
        if row not in rows or rows[row].key != each.key:
            return [f"{topic}: record {each.value['id']} of {each.key} met row {row} of another key"]
        if newest.get(each.key, -1) > row:
            return [f"{topic}: record {each.value['id']} of {each.key} met row {row} after row {newest[each.key]}"]
        newest[each.key] = row
    return []


PROGRAMS = {
    program.name: program
    for program in (
        Program("stateless", _stateless, ("expression", "function"), {"in": 2}, sends=passed),
        Program("grouped", _grouped, ("function",), {"in": 2}, running=True),
        Program("grouped in columns", _grouped, ("expression",), {"in": 2}, running=True),
        Program(
            "shuffled", _shuffled, ("expression", "function"), {"in": 3}, key_of=lambda given: given.to, running=True
        ),
        Program(
            "changing plans",
            _changing,
            ("plain", "filtered", "another before", "second sink"),
            {"in": 2},
            key_of=lambda given: given.to,
            running=True,
        ),
        Program(
            "impure expression",
            _shuffled,
            ("impure expression",),
            {"in": 2},
            key_of=lambda given: None,
            running=True,
            copied=False,
        ),
        Program(
            "impure", _shuffled, ("impure function",), {"in": 2}, key_of=lambda given: None, running=True, copied=False
        ),
        Program(
            "through a topic",
            _through_topic,
            ("only",),
            {"in": 2},
            key_of=lambda given: given.to,
            running=True,
            copied=False,
        ),
        Program("stream and table", _stream_table, ("only",), {"in": 2, "rows": 2}),
        Program("global table", _global_table, ("only",), {"in": 2, "rows": 1}),
        Program("pattern", _pattern, ("earliest",), {"in": 1}, sends=passed, pattern=True),
    )
}
DELETING = Program(
    "deleted stores",
    _deleting,
    ("plain", "second store", "another before"),
    {"in": 2},
    key_of=lambda given: given.to,
    running=True,
    deletes=True,
)
DRAINING = Program(
    "a topic of its own that comes, goes and changes",
    _draining,
    ("through", "at once", "as text"),
    {"in": 2},
    key_of=lambda given: given.to,
    running=True,
    copied=False,
)
REDOING = RedoneProgram(
    "epochs that their own program cannot finish",
    _redoing,
    ("poisoned", "filtered", "second sink", "corrected"),
    {"in": 2, "aside": 2},
    sinks=("out", "other"),
    key_of=lambda given: given.to if given.topic == "in" else None,
    running=True,
)
PATTERN_FROM_THE_END = Program("pattern, latest", _pattern, ("latest",), {"in": 1}, sends=passed, pattern=True)
