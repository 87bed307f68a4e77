"""Golden topologies in epochs that are cut, interrupted and assigned at random.

Many cases in one application, without Spark.

All input is there from the beginning, and every bundle runs here with a real log, checkpoint and state. What is
compared are two runs with each other, not with what was recorded: there each input was an epoch of its own, in the
order in which it was written.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from tests.golden.build import build
from tests.golden.cases import Case
from tests.golden.run import encoded, serdes_of
from tests.golden.together import put_together
from tests.unit.query.local_app import LocalApp

from hayase.compiler.build import source_topics
from hayase.core.records import TopicPartition
from hayase.log.protocol import OutputBatch
from hayase.state.delta.journal import EdgeRow
from hayase.storage.lmdb_env import close_environment
from hayase.task.epoch_record import Epochs
from hayase.topology.nodes import SinkNode, SourceNode

Outcome = dict[str, Any]
_RE_KEYING = frozenset({"map", "select_key", "flat_map", "process", "papi_processor", "to_stream"})


@dataclass(frozen=True)
class Way:
    """How a run goes.

    Attributes:
        cuts: where epochs end, as positions in the merged order of the input.
        crashes: epoch → number of bundles that completed it when everything is lost but log and checkpoint; then it
            starts again.
        partitions: of each topic.
        threads: how many bundles a sub-topology has, at most.
        form: the setting `processing.form`.
    """

    cuts: tuple[int, ...] = ()
    crashes: Mapping[int, int] = field(default_factory=dict)
    partitions: int = 1
    threads: int = 1
    form: str = "rows"


class Runner:
    """Cases in one application."""

    def __init__(self, cases: Sequence[Case]) -> None:
        made = put_together(cases)
        self._topology, self._cases = made.topology, made.cases
        self._sources = {topic: serdes for case in self._cases for topic, serdes in serdes_of(case)[0].items()}
        self._inputs = [
            encoded(one, self._sources)
            for step in range(max(len(case["inputs"]) for case in self._cases))
            for case in self._cases
            if step < len(case["inputs"])
            for one in case["inputs"][step].get("batch", [case["inputs"][step]])
        ]

    @property
    def records(self) -> int:
        """Of the input."""
        return len(self._inputs)

    def run(self, folder: Path, way: Way) -> dict[str, Outcome]:
        """What came out, by case."""
        app = self._start(folder, way)
        self._feed(app, way.partitions)
        order = self._merged(app)
        cuts = [*sorted({cut for cut in way.cuts if 0 < cut < len(order)}), len(order)]
        number = 0
        while cuts or self._more(app):
            upto = _ends(order[: cuts.pop(0)]) if cuts else None
            record = app.plan_epoch(None if upto is None else {p: upto.get(p, 0) for p in self._places(app)})
            left = way.crashes.get(number)
            if left is not None:
                self._bundles(app, record, left)
                app = self._lose(app, folder, way)
            self._bundles(app, record, None)
            app.mark_done(record)
            number += 1
            assert number < len(way.cuts) + 200, "it does not come to an end"
        found = {case["name"]: self._outcome(app, case) for case in self._cases}
        app.close()
        for file in folder.rglob("data.mdb"):
            close_environment(file.parent)
        return found

    def _start(self, folder: Path, way: Way) -> LocalApp:
        settings = {"statestore_cache_max_bytes": 0, "processing_form": way.form, "num_stream_threads": way.threads}
        return LocalApp(folder, self._topology, partitions=way.partitions, **settings)

    def _lose(self, app: LocalApp, folder: Path, way: Way) -> LocalApp:
        app.close()
        for file in folder.rglob("data.mdb"):
            close_environment(file.parent)
        for bundle in app.plan.bundles:
            shutil.rmtree(app.folders.disk / bundle.id, ignore_errors=True)
        return self._start(folder, way)

    def _feed(self, app: LocalApp, partitions: int) -> None:
        there = set(app.log.topics())
        sinks = {n.topic for n in self._topology.nodes if isinstance(n, SinkNode) and n.topic is not None}
        named = {topic for case in self._cases for topic in _topics(case)}
        internal = self._topology.repartitions.keys() | self._topology.internal_topics.keys()
        for topic in sorted((sinks | named | {one[0] for one in self._inputs}) - there - internal):
            app.log.create_topic(topic, partitions)
        by_topic: dict[str, list[Any]] = defaultdict(list)
        for one in self._inputs:
            by_topic[one[0]].append(one[1:])
        batches = []
        for topic, rows in by_topic.items():
            keys, values, times, headers = (list(column) for column in zip(*rows, strict=True))
            batches.append(OutputBatch(topic, keys, values, times, None, headers))
        app.writer().append(batches)

    def _places(self, app: LocalApp) -> list[TopicPartition]:
        given = (topic for topic in source_topics(self._topology) if topic in app.counts)
        return [TopicPartition(topic, number) for topic in given for number in range(app.partitions_of(topic))]

    def _merged(self, app: LocalApp) -> list[tuple[TopicPartition, int]]:
        """Partition and offset behind each record, in the order in which one task would read them all.

        Of records of one time those come first that a task of a higher level reads: it reads them before what lower
        levels send.
        """
        keyed = []
        levels = {
            TopicPartition(topic, partition): bundle.level
            for bundle in app.plan.bundles
            for task in bundle.tasks
            for _, topic, partition in task.topic_partitions
        }
        for rank, place in enumerate(self._places(app)):
            end = app.log.end_offsets([place])[place]
            times = [int(t) for batch in app.reader().fetch(place, 0, end) for t in batch.timestamps_ms]
            for at, highest in enumerate(accumulate(times, max)):
                keyed.append((highest, -levels[place], rank, place, at + 1))
        keyed.sort(key=lambda each: each[:3])
        return [(place, behind) for *_, place, behind in keyed]

    def _bundles(self, app: LocalApp, record: Any, most: int | None) -> None:
        edges: list[EdgeRow] = []
        for bundle in sorted(app.plan.bundles, key=lambda each: each.level)[:most]:
            edges += app.run_bundle(bundle.id, record, edges)

    def _more(self, app: LocalApp) -> bool:
        """Whether there are records that no epoch has read: in internal topics."""
        epochs = Epochs(app.blobs)
        record = epochs.record(epochs.last_done())
        assert record is not None
        places = [TopicPartition(t, p) for t, n in app.counts.items() for p in range(n)]
        ends = app.log.end_offsets(places)
        return any(ends[p] > record.ranges[p.topic][p.partition][1] for p in places)

    def _outcome(self, app: LocalApp, case: Case) -> Outcome:
        found: Outcome = defaultdict(list)
        for topic in sorted(_topics(case)):
            for partition in range(app.partitions_of(topic)):
                place = TopicPartition(topic, partition)
                for batch in app.reader().fetch(place, 0, app.log.end_offsets([place])[place]):
                    headers = batch.headers or [()] * len(batch)
                    for row in zip(batch.keys, batch.values, batch.timestamps_ms.tolist(), headers, strict=True):
                        found[f"{topic} {row[0]!r}"].append(repr(row[1:]))
        for name in found:
            if name.endswith(" None"):  # assigned to partitions anyhow
                found[name].sort()
        for name in case["expected"].get("stores", {}):
            rows = app.app.store(name).all()
            found[f"store {name}"] = sorted(repr((row.key, row.value, row.timestamp_ms)) for row in rows)
        return dict(found)


def _topics(case: Case) -> set[str]:
    """Those that the case writes."""
    return {t for t in serdes_of(case)[1] if t is not None} | {each["topic"] for each in case["expected"]["outputs"]}


def _ends(order: Sequence[tuple[TopicPartition, int]]) -> dict[TopicPartition, int]:
    return dict(order)


def through_topics(case: Case) -> bool:
    """Whether records of the case come back through a topic of the log, to be read by a later epoch."""
    return bool(build(case).topology.internal_topics)


def several_writers(case: Case) -> bool:
    """Whether tasks may write one key of a topic side by side, since keys were changed: no order is promised then."""
    return any(node["op"] in _RE_KEYING for node in case["topology"])


def cut_anywhere(case: Case) -> bool:
    """Whether it is promised that the borders of epochs do not matter.

    What comes back through a topic is read an epoch later, behind what that epoch has read already; and a global table
    is read to the end of the epoch first, for nothing says which of its records a stream's record may know. Several
    inputs are merged by event time, and epochs are cut by the log's: where an extractor makes one of the other, a cut
    may part what would be merged.
    """
    topology = build(case).topology
    sources = [node for node in topology.nodes if isinstance(node, SourceNode)]
    other_times = len(sources) > 1 and any(node.timestamp_extractor is not None for node in sources)
    return not through_topics(case) and not topology.global_tables and not other_times


def differences(
    one: Mapping[str, Outcome], other: Mapping[str, Outcome], unordered: frozenset[str] = frozenset()
) -> Iterator[str]:
    """What two runs did not do alike.

    Of cases whose tasks write one key side by side (`several_writers`), the order is not compared.
    """
    for name, mine in one.items():
        for what in sorted({*mine, *other[name]}):
            both = mine.get(what, []), other[name].get(what, [])
            if both[0] == both[1]:
                continue
            if name in unordered and sorted(both[0]) == sorted(both[1]):
                continue
            yield f"{name}: {what}\n    {both[0]}\n    {both[1]}"
