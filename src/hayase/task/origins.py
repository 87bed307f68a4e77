"""The records that made what caches hold back until the end of an epoch: an error in what is sent then names them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hayase.log.protocol import RecordBatch
from hayase.task.queues import RecordSource

Origin = tuple[RecordSource, int]
"""A record, as a row of what it was read with."""


def no_record(timestamp_ms: int) -> RecordSource:
    """Stands for the record where there is none, in a punctuation."""
    return RecordBatch("", -1, np.array([-1]), np.array([timestamp_ms]), [None], [None], None)


def gathered(origins: Sequence[Origin]) -> list[Origin]:
    """The same records apart from all that was read with them, which can then go."""
    rows: dict[int, list[int]] = {}
    sources: dict[int, RecordSource] = {}
    places: list[tuple[int, int]] = []
    for source, row in origins:
        number = id(source)
        sources[number] = source
        mine = rows.setdefault(number, [])
        places.append((number, len(mine)))
        mine.append(row)
    taken = {number: source.take(rows[number]) for number, source in sources.items()}
    return [(taken[number], row) for number, row in places]
