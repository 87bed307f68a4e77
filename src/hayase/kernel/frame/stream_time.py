"""Stream time: the largest timestamp so far, kept in a clock of the task."""

from __future__ import annotations

import numpy as np

from hayase.kernel.frame.groups import I64
from hayase.kernel.node.clocks import Clocks


def stream_time(clocks: Clocks, name: str, timestamp_ms: int) -> int:
    """Stream time at a record, its own time included; the clock of that name goes on to it."""
    now_ms = clocks.get(name)
    if timestamp_ms > now_ms:
        now_ms = timestamp_ms
        clocks.set(name, now_ms)
    return now_ms


def stream_times(clocks: Clocks, name: str, times: I64) -> I64:
    """The same at each record of an epoch, whose times these are."""
    if not len(times):
        return times
    stream_time = np.maximum(np.maximum.accumulate(times), clocks.get(name))
    clocks.set(name, int(stream_time[-1]))
    return stream_time
