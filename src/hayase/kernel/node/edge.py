"""What flows between two nodes of a task."""

from __future__ import annotations

from dataclasses import dataclass

from hayase.serde.protocol import Schema


@dataclass(frozen=True, slots=True)
class EdgeSchema:
    """What flows over an edge.

    Attributes:
        key: schema of the (record) key; `None` if unknown, which forces rows.
        value: schema of the value; `None` if unknown, which forces rows.
        windowed: the key carries a window.
        sessions: these windows are sessions, each of its own length.
        table: a table's changes; else a stream's records.
        old_values: table edges: the old value travels along.
    """

    key: Schema | None
    value: Schema | None
    windowed: bool = False
    table: bool = False
    old_values: bool = False
    sessions: bool = False
