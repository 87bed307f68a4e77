"""Stream time over an epoch, for the column form."""

from __future__ import annotations

import numpy as np

from hayase.kernel.groups import I64
from hayase.kernel.rows import Clocks


def stream_times(times: I64, clocks: Clocks, name: str) -> I64:
    """Stream time at each record, its own time included; the clock of that name goes on to the last."""
    if not len(times):
        return times
    found = np.maximum(np.maximum.accumulate(times), clocks.get(name))
    clocks.set(name, int(found[-1]))
    return found
