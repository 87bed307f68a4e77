"""Messages between the slots of a shared runtime and its planner.

A slot gets what is waiting for it: a list of requests, each encoded. It answers with a result for each, in their order.
"""

from __future__ import annotations

import msgspec

from hayase.log.assignments import Place
from hayase.state.delta.journal import EdgeRow


class JoinPool(msgspec.Struct, frozen=True):
    """Request of a task to work for the pool, as part of one Spark job.

    A later attempt of the task replaces the earlier one.

    Attributes:
        task: number of the task in the job; there are as many as slots.
        process: of the task; another one each time that a process begins with nothing kept.
    """

    task: int
    job: int
    process: str


class TopologyRequest(msgspec.Struct, frozen=True, tag="run"):
    """Work for a slot: one topology's bundles of one level, for one epoch.

    Attributes:
        application_id: of the topology.
        options: by which the process finds its program and checkpoint.
        record: the epoch record.
        level: of the bundles.
        slot: whose bundles.
        rows: rows that bundles of lower levels sent to these bundles.
        files: files with more of them; see `hayase.runtime.wire.row_files`.
        places: bundle → where it is published, of those that the slot's producer publishes; others are published one by
            one.
    """

    application_id: str
    options: dict[str, str]
    record: bytes
    level: int
    slot: int
    rows: list[EdgeRow]
    files: list[str]
    places: dict[str, Place] = {}


class ReleaseTopology(msgspec.Struct, frozen=True, tag="release"):
    """The slot closes the processors, states and connections that it keeps for a topology."""

    application_id: str


PoolRequest = TopologyRequest | ReleaseTopology


class RowFile(msgspec.Struct, frozen=True):
    """A file with rows for the bundles of one level in one slot."""

    level: int
    slot: int
    path: str


class TopologyResult(msgspec.Struct, frozen=True):
    """Result of a request; of a ReleaseTopology it is empty.

    Attributes:
        rows: rows for bundles of higher levels.
        files: files with more of them.
        summaries: of the bundles.
        busy_s: how long the slot was at it, without what it did for others meanwhile.
        error: the trace of what the topology failed with; empty if it did not.
    """

    rows: list[EdgeRow] = []
    files: list[RowFile] = []
    summaries: list[bytes] = []
    busy_s: float = 0.0
    error: str = ""


JOB_ENDED = b""
"""Sent instead of requests: the job has ended, the task returns."""
