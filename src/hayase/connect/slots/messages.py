"""Messages between a worker and its slots. A run is one start of one task; its number is never used again."""

from __future__ import annotations

import msgspec

from hayase.connect.contracts import SinkPartition


class JoinWorker(msgspec.Struct, frozen=True):
    """The first message of a slot. A later process of the slot replaces the earlier one.

    Attributes:
        slot: its number.
        process: id of the process.
    """

    slot: int
    process: int


class SlotSetup(msgspec.Struct, frozen=True):
    """The first message of the worker: what tasks of all connectors need.

    Attributes:
        props: configuration of the worker.
        log_kind, log_location, log_options: how to open the log.
        worker_id: `host:port` of the worker's REST interface.
    """

    props: dict[str, str]
    log_kind: str
    log_location: str
    log_options: dict[str, str]
    worker_id: str


class StartTask(msgspec.Struct, frozen=True, tag="start"):
    """Make and start a task.

    Attributes:
        run: its number.
        spec: a pickled `TaskSpec`.
        paused: it does not poll or put before ResumeTask.
    """

    run: int
    spec: bytes
    paused: bool


class PauseTask(msgspec.Struct, frozen=True, tag="pause"):
    """See `RunningTask.pause`."""

    run: int


class ResumeTask(msgspec.Struct, frozen=True, tag="resume"):
    """See `RunningTask.resume`."""

    run: int


class StopTask(msgspec.Struct, frozen=True, tag="stop"):
    """See `RunningTask.request_stop`."""

    run: int


class AbandonTask(msgspec.Struct, frozen=True, tag="abandon"):
    """See `RunningTask.abandon`."""

    run: int


class HurryTask(msgspec.Struct, frozen=True, tag="hurry"):
    """See `RunningTask.hurry`."""

    run: int


SlotRequest = StartTask | PauseTask | ResumeTask | StopTask | AbandonTask | HurryTask
WORKER_ENDED = b""
"""Sent instead of a request: the slot returns."""


class TaskState(msgspec.Struct, frozen=True, tag="state"):
    """A change of a task's state; `state` is a value of `State`."""

    run: int
    state: str
    trace: str | None


class TopicUsed(msgspec.Struct, frozen=True, tag="topic"):
    """A task uses a topic."""

    run: int
    topic: str


class TaskAddress(msgspec.Struct, frozen=True, tag="address"):
    """A task takes requests at a URL."""

    run: int
    url: str


class TaskProgress(msgspec.Struct, frozen=True, tag="progress"):
    """How far a task is; sent a few times a second."""

    run: int
    idle_s: float
    metrics: dict[str, float]
    positions: list[tuple[SinkPartition, int]]


class TaskEnded(msgspec.Struct, frozen=True, tag="ended"):
    """A task has let go of everything.

    Attributes:
        run: its number.
        error: what ended it; empty if nothing did.
        condition: of that error.
    """

    run: int
    error: str
    condition: str


class SlotAlive(msgspec.Struct, frozen=True, tag="alive"):
    """The slot is at work, whether it has tasks or not; sent a few times a second."""


SlotReport = SlotAlive | TaskState | TopicUsed | TaskAddress | TaskProgress | TaskEnded
