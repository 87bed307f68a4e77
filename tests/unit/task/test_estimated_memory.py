"""What decides whether an epoch leaves memory counts all that takes memory.

Keys, headers and the rows around payloads, too.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hayase.core.records import Headers
from hayase.log.protocol import RecordBatch
from hayase.state.delta.journal import EdgeRow
from hayase.state.environment.spill import EpochSpace
from hayase.task.edges import ReceivedRows
from hayase.task.input_merge import record_bytes
from hayase.task.outputs import Outputs, TopicOutput

COUNT = 2_000


def _headers(number: int) -> Headers:
    return tuple((f"name-{number}-{each}", b"%d" % number * 20) for each in range(4))


def _records(*, large_keys: bool, headers: bool) -> RecordBatch:
    keys: list[bytes | None] = [b"%06d" % number * (100 if large_keys else 1) for number in range(COUNT)]
    values: list[bytes | None] = [b"v%d" % number for number in range(COUNT)]
    given = [_headers(number) for number in range(COUNT)] if headers else None
    return RecordBatch("in", 0, np.arange(COUNT), np.arange(COUNT), keys, values, given)


def _sent() -> int:
    output = TopicOutput("out")
    for number in range(COUNT):
        output.add(b"k%d" % number, b"v%d" % number, number, _headers(number))
    made.append(output)
    return output.size_bytes()


made: list[Any] = []


def _read(*, large_keys: bool, headers: bool) -> Callable[[], int]:
    def read() -> int:
        made.append(_records(large_keys=large_keys, headers=headers))
        return record_bytes(made[-1])

    return read


def _rows() -> int:
    made.append([EdgeRow(f"1_{n}", f"edge {n}", f"0_{n}", 1_000_000 + n, bytes(100)) for n in range(COUNT)])
    return sum(row.size_bytes for row in made[-1])


@pytest.mark.parametrize(
    "make",
    [_read(large_keys=True, headers=False), _read(large_keys=False, headers=True), _sent, _rows],
    ids=["large keys", "headers read", "headers sent", "rows"],
)
def test_an_estimate_is_near_what_is_allocated(make: Callable[[], int]) -> None:
    made.clear()
    tracemalloc.start()
    try:
        estimated = make()
        allocated, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        made.clear()
    assert 0.6 * allocated < estimated < 1.6 * allocated


def test_many_small_rows_leave_memory_as_few_large_ones_do(tmp_path: Path) -> None:
    with EpochSpace(tmp_path, 4 * 100_000) as space:
        received, outputs = ReceivedRows(space=space), Outputs(space)
        rows = [EdgeRow("1_0", "e", "0_0", number, b"small") for number in range(1_000)]
        for row in rows:
            received.add(row)
        on_disk = space.file.append(b"").offset
        assert on_disk > 500 * len(b"small")
        assert list(received.inputs_of("1_0")["e", "0_0"]) == rows
        outputs.rows += rows
        outputs.spill(space.share)
        assert outputs.spilled and not outputs.rows and list(outputs.all_rows()) == rows
