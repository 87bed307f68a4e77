"""The order in which a task processes several queues."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hayase.task.input_merge import merge_order

queues = st.lists(st.lists(st.integers(0, 6), max_size=8), min_size=1, max_size=4)


def head_by_head(times: list[list[int]]) -> list[tuple[int, int]]:
    """The rule as Kafka Streams states it: of all heads the one with the smallest timestamp goes next."""
    positions = [0] * len(times)
    order = []
    while True:
        heads = [(times[q][positions[q]], q) for q in range(len(times)) if positions[q] < len(times[q])]
        if not heads:
            return order
        _, q = min(heads)
        order.append((q, positions[q]))
        positions[q] += 1


@given(queues)
def test_the_merged_order_is_that_of_taking_the_oldest_head_each_time(times: list[list[int]]) -> None:
    queue, row = merge_order([np.array(t, np.int64) for t in times])
    assert list(zip(queue.tolist(), row.tolist(), strict=True)) == head_by_head(times)


@given(queues)
def test_cutting_the_merged_order_into_epochs_anywhere_changes_nothing(times: list[list[int]]) -> None:
    """What the planner of epochs relies on when it cuts at a time: a prefix stays a prefix."""
    whole = head_by_head(times)
    for cut in range(len(whole) + 1):
        taken = [sum(1 for q, _ in whole[:cut] if q == number) for number in range(len(times))]
        first = head_by_head([t[:n] for t, n in zip(times, taken, strict=True)])
        second = head_by_head([t[n:] for t, n in zip(times, taken, strict=True)])
        assert first == whole[:cut]
        assert [(q, r + taken[q]) for q, r in second] == whole[cut:]
