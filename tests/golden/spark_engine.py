"""Golden cases on real local Spark: many in one application, input by input, an epoch for each.

Epoch i holds input i of every case (and further epochs what went through topics of the log meanwhile). What is compared: each
key's outputs in order, topic by topic, and what is in the stores at the end.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.golden.build import Case, Unsupported, build
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
from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig, Marker, OutputBatch
from hayase.planner.build import source_topics
from hayase.planner.options import configured
from hayase.storage.open import open_blobs
from hayase.task.epochs import Epochs
from hayase.topology.nodes import SinkNode
from hayase.topology.topology import Topology

_PATIENCE_S = 180.0
_LOOK_EVERY_S = 0.01


class Stage:
    """One application with its topics, in a folder of its own."""

    def __init__(self, folder: Path, topology: Topology, settings: dict[str, Any]) -> None:
        self._config = LogConfig("embedded", str(folder / "log"), {"fsync": "false"})
        self._log: Log = open_log(self._config)
        self._writer = self._log.writer()
        where = {"application.id": "golden", "log.dir": str(folder / "log"), "state.dir": str(folder / "state")}
        speed = {"checkpoint.fsync": False, "commit.interval.ms": 0, "num.stream.threads": 2, "num.bundles": 1}
        self.app = StreamsApp(topology, {**where, **speed, **settings})
        made = configured(topology, self.app.config)
        self._given = sorted(set(source_topics(topology)))
        self._internal = sorted(set(source_topics(made)) - set(self._given))
        sinks = {node.topic for node in topology.nodes if isinstance(node, SinkNode) and node.topic is not None}
        for topic in sorted({*self._given, *sinks} - topology.repartitions.keys() - topology.internal_topics.keys()):
            self._log.create_topic(topic, 1)
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


def run_together(cases: Sequence[Case], form: str = "rows") -> dict[str, list[Difference]]:
    """Run cases in one application; the differences of each, by its name.

    Raises:
        Unsupported: one of them needs what is not there yet.
    """
    made = put_together(cases)
    with tempfile.TemporaryDirectory(prefix="hayase-golden-") as folder:
        stage = Stage(Path(folder), made.topology, settings_of(cases[0], form))
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


def _differences(case: Case, stage: Stage) -> Iterator[Difference]:
    sinks = serdes_of(case)[1]
    wanted = _by_key(comparable(each) for each in case["expected"]["outputs"])
    found = _by_key(
        comparable(read_record(topic, *row, serdes))
        for topic, serdes in sinks.items()
        if topic is not None
        for row in stage.outputs(topic)
    )
    for key in sorted({*wanted, *found}):
        yield from compare(f"outputs of {key}", wanted.get(key, []), found.get(key, []))
    for name, store in case["expected"]["stores"].items():
        rows = stage.app.store(name).all()
        entries = [{"key": row.key, "value": row.value, "timestamp": row.timestamp_ms} for row in rows]
        yield from compare(f"store {name}", *entries_of(store, entries))


def _by_key(records: Iterator[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for record in records:
        found[json.dumps([record["topic"], record.get("key")])].append(
            {name: each for name, each in record.items() if name != "at"}
        )
    return dict(found)


def groups(cases: Sequence[Case], size: int) -> Iterator[list[Case]]:
    """Cases that share an application, at most `size`; those that can not share one, or are not there yet, are left out."""
    kinds: dict[Any, list[Case]] = defaultdict(list)
    for case in cases:
        if alone(case) or case.get("queries"):
            continue
        try:
            build(case)
        except Unsupported:
            continue
        kinds[by_hand(case), bool(case["config"].get("optimize")), case["config"].get("store_type")].append(case)
    for kind in kinds.values():
        for start in range(0, len(kind), size):
            yield kind[start : start + size]


__all__ = ["Together", "groups", "run_together"]
