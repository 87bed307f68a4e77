"""Positions in a script."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """Where a part of a statement begins: line from 1, column from 1, in the text that was parsed as a whole."""

    line: int
    column: int
