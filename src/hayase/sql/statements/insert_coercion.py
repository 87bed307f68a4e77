"""What values of INSERT … VALUES become without a CAST: more than in queries."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from hayase.sql.types.casts import can_cast, caster
from hayase.sql.types.sql_types import BYTES, STRING, SqlType


def insert_caster(given: SqlType | None, target: SqlType) -> Callable[[Any], Any]:
    """What makes a value of the given type one of a column; it raises ValueError for a value that does not fit.

    Raises:
        ValueError: no value of the given type fits.
    """
    if given is None or given == target:
        return _same
    if given == STRING and target == BYTES:
        return _bytes_of_text
    if not can_cast(given, target):
        raise ValueError(f"{given} does not become {target}")
    return caster(given, target)


def _same(value: Any) -> Any:
    return value


def _bytes_of_text(value: Any) -> bytes | None:
    return None if value is None else base64.b64decode(value, validate=True)
