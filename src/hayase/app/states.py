"""States of an application, as in Kafka Streams."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """The state of an application in its life cycle, as Kafka Streams' `KafkaStreams.State`.

    CREATED → REBALANCING → RUNNING → PENDING_SHUTDOWN → NOT_RUNNING; REBALANCING and RUNNING may go to
    PENDING_ERROR → ERROR. REBALANCING is the time until the first epoch can be planned: Spark starts, state is found.
    """

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"

    @property
    def running(self) -> bool:
        """Whether the application may be processing epochs."""
        return self in (State.REBALANCING, State.RUNNING, State.PENDING_SHUTDOWN)


ENDS = (State.NOT_RUNNING, State.ERROR)
"""The states that nothing follows."""
NEXT: dict[State, frozenset[State]] = {
    State.CREATED: frozenset({State.REBALANCING, State.PENDING_SHUTDOWN}),
    State.REBALANCING: frozenset({State.RUNNING, State.PENDING_SHUTDOWN, State.PENDING_ERROR}),
    State.RUNNING: frozenset({State.REBALANCING, State.PENDING_SHUTDOWN, State.PENDING_ERROR}),
    State.PENDING_SHUTDOWN: frozenset({State.NOT_RUNNING, State.PENDING_ERROR}),
    State.PENDING_ERROR: frozenset({State.ERROR}),
    State.NOT_RUNNING: frozenset(),
    State.ERROR: frozenset(),
}
"""Which state may follow which."""
