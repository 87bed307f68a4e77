"""Messages between the slots of a shared runtime and its planner.

A slot gets what is waiting for it: a list of requests, each encoded. It answers with a result for each, in their order.
In a round the list comes with the task, and the results go through the runtime's checkpoint. A slot that its watchdog
ends sends a `SlotHung` instead.
"""

from __future__ import annotations

import msgspec

from hayase.log.assignments import Place
from hayase.runtime.wire.span_protocol import RowFile
from hayase.state.delta.journal import EdgeRow


class JoinPool(msgspec.Struct, frozen=True, tag="task"):
    """Request of a task to work for the pool, as part of one Spark job.

    A later attempt of the task replaces the earlier one.

    Attributes:
        task: number of the task in the job; there are as many as slots.
        process: of the task; another one each time that a process begins with nothing kept.
        machine: of the task, see `OfferSpares`.
        account: the file with the account of the timer that ends the process where its watchdog cannot; empty: none.
    """

    task: int
    job: int
    process: str
    machine: str = ""
    account: str = ""


class OfferSpares(msgspec.Struct, frozen=True, tag="offer"):
    """Announcement of a process that forks spare processes when the pool asks for them, by `StartSpare`.

    Attributes:
        machine: where it is; tasks with the same one have the same disk.
    """

    machine: str


class StartSpare(msgspec.Struct, frozen=True):
    """Order to fork a spare process.

    Attributes:
        slot: whose requests it works on.
        application_id: of the one topology whose requests of that slot it works on; empty: of all.
    """

    slot: int
    application_id: str


class JoinAsSpare(msgspec.Struct, frozen=True, tag="spare"):
    """Request of a spare process to work for the pool, as `StartSpare` has it; `account`: see `JoinPool`."""

    slot: int
    application_id: str
    account: str = ""


Join = JoinPool | JoinAsSpare


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


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    """Report of a slot that it begins with one of several requests.

    Attributes:
        index: of the request, in the order in which it got them; `None`: it publishes what several have ready.
    """

    index: int | None


class Withdraw(msgspec.Struct, frozen=True):
    """Order to a slot that is at several requests: it leaves all but one to another process.

    Attributes:
        keep: the index of the one that it completes.
    """

    keep: int


Order = list[bytes] | Withdraw
"""What a slot is sent: requests, each encoded, or that."""


class Round(msgspec.Struct, frozen=True):
    """The work order of a slot that does not join the pool.

    Attributes:
        run: tells the planner's rounds from those of others.
        job: the number of the Spark job.
        requests: what is waiting for the slot, each encoded.
    """

    run: str
    job: int
    requests: list[bytes]


class TopologyResult(msgspec.Struct, frozen=True, tag="result"):
    """Result of a request; of a ReleaseTopology, and of a request that was withdrawn, it is empty.

    Attributes:
        rows: rows for bundles of higher levels.
        files: files with more of them.
        summaries: of the bundles.
        busy_s: how long the slot was at it, without what it did for others meanwhile.
        error: the trace of what the topology failed with; empty if it did not.
        place_lost: it failed because a bundle has another place by now.
    """

    rows: list[EdgeRow] = []
    files: list[RowFile] = []
    summaries: list[bytes] = []
    busy_s: float = 0.0
    error: str = ""
    place_lost: bool = False


class SlotHung(msgspec.Struct, frozen=True, tag="hung"):
    """A slot's last answer before its watchdog ends the process.

    Attributes:
        application_id: of the topology that it was at.
        error: what the watchdog says, as a line of a trace.
    """

    application_id: str
    error: str


SlotReport = Begun | TopologyResult | SlotHung
"""What a slot answers."""

JOB_ENDED = b""
"""Sent instead of requests: the job has ended, the task returns; to a spare process, that it ends."""
