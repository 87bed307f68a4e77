"""The input of the crash suite: the same for every run of it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

from hayase.log.protocol import Log, OutputBatch

PARTITIONS = 2
INPUTS = ("events", "orders", "users")
OUTPUTS = ("noisy", "noise", "groups", "enriched", "totals", "regions", "passed", "copied", "windowed", "drained")
COUNTED = ("orders", "users")
"""Inputs that neighbours of the application count, where it is a topology of a shared runtime."""
WINDOW_MS = 1_000
"""Size of a neighbour's windows."""
DRAINED_GROUPS = 3
"""Groups of orders that are counted behind an internal topic, or at once."""
RECORDS = 1_200
REGIONS = ("north", "south", "east", "west", "sea")
KEYS = tuple(f"c{number}" for number in range(12))


@dataclass(frozen=True, slots=True)
class Input:
    """One record; no two have the same timestamp, so that there is one merged order."""

    topic: str
    key: str
    value: dict[str, object]
    timestamp_ms: int


def records() -> list[Input]:
    """All of them by time: users first, then events, orders and now and then a user who moves."""
    draw = random.Random(20_261_121)
    found = [Input("users", key, {"region": draw.choice(REGIONS)}, number) for number, key in enumerate(KEYS)]
    for number in range(RECORDS):
        key, time_ms = draw.choice(KEYS), 1_000 + 10 * number
        topic = draw.choices(INPUTS, (10, 10, 1))[0]
        value: dict[str, object] = {"region": draw.choice(REGIONS)} if topic == "users" else {"id": number}
        if topic == "orders":
            value["amount"] = draw.randrange(1, 10_000)
        found.append(Input(topic, key, value, time_ms))
    return found


def create_topics(log: Log, prefix: str) -> None:
    """Topics of the application."""
    for name in (*INPUTS, *OUTPUTS, *(f"counted-{each}" for each in COUNTED)):
        log.create_topic(prefix + name, PARTITIONS)


def write(log: Log, prefix: str, part: list[Input]) -> None:
    """Write records in one append."""
    writer = log.writer()
    writer.append(list(_batches(prefix, part)))
    writer.close()


def _batches(prefix: str, part: list[Input]) -> Iterator[OutputBatch]:
    for topic in INPUTS:
        mine = [record for record in part if record.topic == topic]
        if mine:
            yield OutputBatch(
                prefix + topic,
                [record.key.encode() for record in mine],
                [json.dumps(record.value).encode() for record in mine],
                [record.timestamp_ms for record in mine],
            )
