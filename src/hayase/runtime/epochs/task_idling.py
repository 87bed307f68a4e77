"""Holding input back while another input of the same task has nothing: `max.task.idle.ms`.

A task merges its inputs by time. Where one of them is empty, what comes in late over it would be merged too late; so
the others are read only up to the time that the empty one has reached, until it has been empty for `max.task.idle.ms`
(KIP-353, KIP-695). What is held back stays in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from hayase.core.records import TopicPartition
from hayase.runtime.epochs.start_offsets import Offsets
from hayase.task.plan import Plan
from hayase.topology.topology import Topology

Input = frozenset[TopicPartition]
"""Source partitions that one input of a task gets records from: one of a topic, or all that feed a repartition."""


def task_inputs(topology: Topology, plan: Plan) -> list[tuple[Input, ...]]:
    """The inputs of each task that has several; equal ones once.

    Global tables are left out: they are not merged with anything.
    """
    edges_from = {
        str(sub.id): [
            sink.topic for sink in sub.sinks if sink.topic is not None and sink.topic in topology.repartitions
        ]
        for sub in topology.subtopologies
    }
    fed: dict[str, set[TopicPartition]] = {}  # by repartition topic
    unique: dict[tuple[Input, ...], None] = {}
    for bundle in sorted(plan.bundles, key=lambda bundle: bundle.level):
        subtopology = plan.subtopologies[bundle.subtopology]
        if subtopology.global_store is not None:
            continue
        for task in bundle.tasks:
            inputs = [frozenset([TopicPartition(topic, number)]) for _, topic, number in task.topic_partitions]
            inputs += [frozenset(fed.get(edge, ())) for _, edge in task.edges]
            for edge in edges_from[bundle.subtopology]:
                fed.setdefault(edge, set()).update(*inputs)
            if len(inputs) > 1:
                unique[tuple(inputs)] = None
    return list(unique)


class TaskIdling:
    """Says how far the inputs may be read. One per running application; a restart begins to wait again.

    Args:
        tasks: the inputs of each task that has several (see `task_inputs`).
        max_idle_s: how long a task waits for an input that has nothing; 0 or less: not at all.
        monotonic: the clock for that, in seconds.
    """

    def __init__(self, tasks: Sequence[tuple[Input, ...]], max_idle_s: float, monotonic: Callable[[], float]) -> None:
        self._tasks = tasks if max_idle_s > 0 else ()
        self._max_idle_s = max_idle_s
        self._monotonic = monotonic
        self._empty_since: dict[Input, float] = {}

    def ends(
        self,
        starts: Offsets,
        ends: Offsets,
        last_time_ms: Callable[[TopicPartition], int],
        offsets_for_time: Callable[[int], Offsets],
    ) -> dict[TopicPartition, int]:
        """Ends that leave out what has to wait.

        Args:
            starts: where the epoch begins.
            ends: the ends of the log.
            last_time_ms: timestamp of the last record before a partition's end; asked for those that have records.
            offsets_for_time: first offset at or after a time, of each partition.
        """
        limited = dict(ends)
        waiting = self._waiting(starts, ends)
        times: dict[TopicPartition, int] = {}
        for inputs in self._tasks:
            reached = [
                (self._reached(task_input, starts, ends, times, last_time_ms), task_input) for task_input in inputs
            ]
            limits = [(time, task_input) for time, task_input in reached if time is not None or task_input in waiting]
            if any(time is None for time, _ in limits):
                _limit(limited, (partition for task_input in inputs for partition in task_input), starts)
            elif limits:
                limit, slowest = min(
                    ((time, task_input) for time, task_input in limits if time is not None), key=lambda pair: pair[0]
                )
                others = [p for task_input in inputs for p in task_input if p not in slowest and ends[p] > starts[p]]
                if others:
                    _limit(limited, others, offsets_for_time(limit + 1))
        stuck = not waiting and all(limited[p] <= starts[p] for p in starts)
        return dict(ends) if stuck else {p: max(limited[p], starts[p]) for p in starts}

    def _waiting(self, starts: Offsets, ends: Offsets) -> set[Input]:
        """Inputs that have nothing, and not yet for long."""
        now = self._monotonic()
        waiting: set[Input] = set()
        for task_input in {task_input for inputs in self._tasks for task_input in inputs}:
            if any(ends[p] > starts[p] for p in task_input):
                self._empty_since.pop(task_input, None)
            elif now - self._empty_since.setdefault(task_input, now) < self._max_idle_s:
                waiting.add(task_input)
        return waiting

    @staticmethod
    def _reached(
        task_input: Input,
        starts: Offsets,
        ends: Offsets,
        times: dict[TopicPartition, int],
        last_time_ms: Callable[[TopicPartition], int],
    ) -> int | None:
        """The time up to which an input has records; `None` if it has none."""
        there = [p for p in task_input if ends[p] > starts[p]]
        for partition in there:
            if partition not in times:
                times[partition] = last_time_ms(partition)
        return max((times[p] for p in there), default=None)


def _limit(
    limited: dict[TopicPartition, int], partitions: Iterable[TopicPartition], at: Mapping[TopicPartition, int]
) -> None:
    for partition in partitions:
        limited[partition] = min(limited[partition], at[partition])
