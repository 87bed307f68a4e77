"""What flows between two nodes of a task."""

from __future__ import annotations

from dataclasses import dataclass

from hayase.serde.protocol import Schema


@dataclass(frozen=True, slots=True)
class EdgeSchema:
    """What flows over an edge, where it is known; where it is not, only rows can run.

    Attributes:
        key: schema of the (record) key.
        value: schema of the value.
        windowed: the key carries a window.
        sessions: these windows are sessions, each of its own length.
        table: a table's changes; else a stream's records.
        old_values: table edges: the old value travels along.
    """

    key: Schema
    value: Schema
    windowed: bool = False
    table: bool = False
    old_values: bool = False
    sessions: bool = False
