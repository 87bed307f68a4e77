"""Golden cases on real local Spark: many in one application, input by input, an epoch for each.

Epoch i holds input i of every case (and further epochs what went through topics of the log meanwhile). What is
compared: each key's outputs in order, topic by topic, and what is in the stores at the end. Cases that end with an
error, choose their topics, or have settings of their own run alone; of an error, where it was and what came out before.
Wall clocks cannot be moved on Spark, and no log takes negative timestamps.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.golden.build import build
from tests.golden.cases import Case, Unsupported
from tests.golden.run import (
    Difference,
    comparable,
    compare,
    encoded,
    entries_of,
    read_record,
    serdes_of,
    settings_of,
)
from tests.golden.together import Together, alone, by_hand, put_together

from hayase import StreamsApp
from hayase.compiler.build import source_topics
from hayase.compiler.options import configured
from hayase.core.errors import HayaseError
from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig, Marker, OutputBatch
from hayase.storage.lmdb_env import close_environment
from hayase.storage.open import open_blobs
from hayase.task.epoch_record import Epochs
from hayase.topology.nodes import SinkNode
from hayase.topology.resolve import has_patterns
from hayase.topology.topology import Topology

_PATIENCE_S = 180.0
_LOOK_EVERY_S = 0.01


class Stage:
    """One application with its topics, in a folder of its own."""

    def __init__(self, folder: Path, topology: Topology, settings: dict[str, Any], cases: Sequence[Case]) -> None:
        self._config = LogConfig("embedded", str(folder / "log"), {"fsync": "false"})
        self._log: Log = open_log(self._config)
        self._writer = self._log.writer()
        where = {"application.id": "golden", "log.dir": str(folder / "log"), "state.dir": str(folder / "state")}
        speed = {"checkpoint.fsync": False, "commit.interval.ms": 0, "num.stream.threads": 2, "num.bundles": 1}
        self.app = StreamsApp(topology, {**where, **speed, **settings})
        made = configured(topology, self.app.config)
        given = set(source_topics(topology))
        self._internal = sorted(set(source_topics(made)) - given)
        sinks = {node.topic for node in topology.nodes if isinstance(node, SinkNode) and node.topic is not None}
        fed = {one["topic"] for case in cases for item in case["inputs"] for one in item.get("batch", [item])}
        written = {record["topic"] for case in cases for record in case["expected"]["outputs"]}
        internal = topology.repartitions.keys() | topology.internal_topics.keys()
        for topic in sorted({*given, *sinks, *fed, *written} - internal):
            self._log.create_topic(topic, 1)
        self._folder = folder
        self._given = sorted(given | fed if has_patterns(topology) else given)
        self._epochs = Epochs(open_blobs(self.app.config.checkpoint_dir, fsync=False))
        self._done = -1
        self._fed = 0

    def feed(self, records: Sequence[Any]) -> None:
        """Write records at once: an epoch sees all of them or none."""
        by_topic: dict[str, list[Any]] = defaultdict(list)
        for record in records:
            by_topic[record[0]].append(record)
        batches = [
            OutputBatch(
                topic, [r[1] for r in rows], [r[2] for r in rows], [r[3] for r in rows], None, [r[4] for r in rows]
            )
            for topic, rows in by_topic.items()
        ]
        self._writer.publish_epoch("feeder", "all", Marker("feeder", self._fed, "feeder"), batches)
        self._fed += 1

    def settle(self) -> bool:
        """Wait until all there is was processed, internal topics included; `False` if the application failed."""
        deadline = time.monotonic() + _PATIENCE_S
        while not self._settled():
            if self.app.error is not None:
                return False
            assert time.monotonic() < deadline, f"nothing was done for {_PATIENCE_S:g} s"
            time.sleep(_LOOK_EVERY_S)
        return True

    def _settled(self) -> bool:
        last = self._epochs.last_done_after(self._done) if self._done >= 0 else self._epochs.last_done()
        self._done = last
        record = self._epochs.record(last) if last >= 0 else None
        if record is None:
            return False
        there = self._log.describe([*self._given, *self._internal])
        ends = self._log.end_offsets(
            [TopicPartition(t, p) for t, info in there.items() for p in range(info.partitions)]
        )
        return all(record.ranges.get(t, {}).get(p, (0, 0))[1] >= end for (t, p), end in ends.items())

    def outputs(self, topic: str) -> Iterator[tuple[bytes | None, bytes | None, int, Any]]:
        """What was written to a topic of one partition."""
        place = TopicPartition(topic, 0)
        end = self._log.end_offsets([place])[place]
        reader = self._log.reader()
        for batch in reader.fetch(place, 0, end):
            headers = batch.headers or [()] * len(batch)
            yield from zip(batch.keys, batch.values, batch.timestamps_ms.tolist(), headers, strict=True)
        reader.close()

    def close(self) -> None:
        """Stop the application."""
        self.app.close()
        self._writer.close()
        self._log.close()
        for file in self._folder.rglob("data.mdb"):  # of stores that were read here
            close_environment(file.parent)


def run_together(cases: Sequence[Case], form: str = "rows") -> dict[str, list[Difference]]:
    """Run cases in one application; the differences of each, by its name.

    Raises:
        Unsupported: one of them needs what is not there yet.
    """
    made = put_together(cases)
    with tempfile.TemporaryDirectory(prefix="hayase-golden-", ignore_cleanup_errors=True) as folder:
        stage = Stage(Path(folder), made.topology, settings_of(cases[0], form), made.cases)
        try:
            stage.app.start()
            sources = {topic: serdes for case in made.cases for topic, serdes in serdes_of(case)[0].items()}
            for step in range(max(len(case["inputs"]) for case in made.cases)):
                items = [case["inputs"][step] for case in made.cases if step < len(case["inputs"])]
                stage.feed([encoded(one, sources) for item in items for one in item.get("batch", [item])])
                assert stage.settle(), f"at input {step}: {stage.app.error}"
            return {case["name"]: list(_differences(case, stage)) for case in made.cases}
        finally:
            stage.close()


def run_alone(case: Case, form: str = "rows") -> list[Difference]:
    """Run a case in an application of its own.

    Raises:
        Unsupported: it needs what is not there yet, or a clock that is moved.
    """
    if "initial_wall_clock_ms" in case["config"] or any("advance_wall_clock_ms" in item for item in case["inputs"]):
        raise Unsupported("the wall clock cannot be moved on Spark")
    if not _writable(case):
        raise Unsupported("no log takes a negative timestamp")
    expected_at = (case["expected"].get("error") or {}).get("at")
    try:
        built = build(case)
    except HayaseError as error:
        return compare("error at", expected_at, -1, str(error))
    with tempfile.TemporaryDirectory(prefix="hayase-golden-", ignore_cleanup_errors=True) as folder:
        stage = Stage(Path(folder), built.topology, settings_of(case, form), [case])
        try:
            stage.app.start()
            failed_at = _feed_all(case, stage)
            differences = compare("error at", expected_at, failed_at, str(stage.app.error))
            return differences + list(_differences(case, stage, failed_at))
        finally:
            stage.close()


def _writable(case: Case) -> bool:
    return all(one.get("timestamp", 0) >= 0 for item in case["inputs"] for one in item.get("batch", [item]))


def _feed_all(case: Case, stage: Stage) -> int | None:
    """The input at which the application failed."""
    sources = serdes_of(case)[0]
    for at, item in enumerate(case["inputs"]):
        stage.feed([encoded(one, sources) for one in item.get("batch", [item])])
        if not stage.settle():
            return at
    return None


def _differences(case: Case, stage: Stage, failed_at: int | None = None) -> Iterator[Difference]:
    """Of a case that failed: of what came before the epoch that failed, which leaves nothing behind."""
    sinks = serdes_of(case)[1]
    expected = case["expected"]
    before = [each for each in expected["outputs"] if failed_at is None or each["at"] < failed_at]
    wanted = _by_key(comparable(each) for each in before)
    topics = {*sinks, *(each["topic"] for each in expected["outputs"])} - {None}
    found = _by_key(
        comparable(read_record(topic, *row, sinks.get(topic) or sinks.get(None)))
        for topic in sorted(topics)
        for row in stage.outputs(topic)
    )
    for key in sorted({*wanted, *found}):
        both = wanted.get(key, []), found.get(key, [])
        if "order_undefined" in case["tags"]:
            both = (
                sorted(both[0], key=partial(json.dumps, sort_keys=True)),
                sorted(both[1], key=partial(json.dumps, sort_keys=True)),
            )
        yield from compare(f"outputs of {key}", *both)
    if failed_at is not None:
        return
    for query, answer in zip(case.get("queries", ()), expected.get("queries", ()), strict=True):
        row = stage.app.store(query["store"]).get(*query["args"])
        told = None if row.value is None else {"value": row.value, "timestamp": row.timestamp_ms}
        yield from compare(f"query {query}", answer, told)
    for name, store in expected.get("stores", {}).items():
        rows = stage.app.store(name).all()
        entries = [{"key": row.key, "value": row.value, "timestamp": row.timestamp_ms} for row in rows]
        yield from compare(f"store {name}", *entries_of(store, entries))


def _by_key(records: Iterator[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for record in records:
        found[json.dumps([record["topic"], record.get("key")], sort_keys=True)].append(
            {name: each for name, each in record.items() if name != "at"}
        )
    return dict(found)


def groups(cases: Sequence[Case], size: int) -> Iterator[list[Case]]:
    """Cases that share an application, at most `size`.

    Those that cannot share one, or are not there yet, are left out.
    """
    kinds: dict[Any, list[Case]] = defaultdict(list)
    for case in cases:
        if alone(case) or not _writable(case):
            continue
        try:
            build(case)
        except Unsupported:
            continue
        kinds[by_hand(case), bool(case["config"].get("optimize")), case["config"].get("store_type")].append(case)
    for kind in kinds.values():
        for start in range(0, len(kind), size):
            yield kind[start : start + size]


__all__ = ["Together", "alone", "groups", "run_alone", "run_together"]
