"""States of connectors and tasks, and the errors of requests to a herder."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hayase.core.errors import HayaseError


class State(StrEnum):
    """The state of a connector or a task, as Kafka Connect has them."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"
    STOPPED = "STOPPED"


class TargetState(StrEnum):
    """The state that a user asks for."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a connector or a task.

    Attributes:
        state: which.
        worker_id: of the worker that has it.
        generation: of the connector.
        trace: why it failed, or what it waits for.
        version: of the plug-in.
    """

    state: State
    worker_id: str
    generation: int = 0
    trace: str | None = None
    version: str | None = None


class HerderError(HayaseError):
    """A request that the herder refuses; `status` is that of HTTP."""

    status = 500


class BadRequestError(HerderError):
    """The request is wrong."""

    status = 400


class NotFoundError(HerderError):
    """There is no such connector, task or plug-in."""

    status = 404


class ConflictError(HerderError):
    """The request does not fit the present state, or another one is being worked on."""

    status = 409
