"""How far an application is, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from hayase.app.states import State


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """The progress of an application: its state, and counters since it started.

    Attributes:
        state: of the application.
        epochs: number of epochs completed since the start.
        last_epoch: number of the last of them, -1 if there was none.
        consumed: records read since the start.
        produced: records written.
        late: records refused because their window was closed.
        dropped: all records dropped, the late ones included.
        dead_letters: records sent to the dead-letter topic.
        lag_records: records in the source topics that no complete epoch covers, those at work included; `None` if not
            known yet.
        paused: whether it is paused.
        lost_offsets: offsets that were skipped since the start: their records were gone before they were read
            (`source.range.lost=reset`).
        waiting: why no epoch can be planned at the moment, e.g. that the brokers do not answer; empty if nothing is
            amiss.
    """

    state: State
    epochs: int
    last_epoch: int
    consumed: int
    produced: int
    late: int
    dropped: int
    dead_letters: int
    lag_records: int | None
    paused: bool = False
    waiting: str = ""
    lost_offsets: int = 0
