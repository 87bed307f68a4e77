"""COUNT, COUNT_DISTINCT, HISTOGRAM and ATTR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hayase.sql.functions.aggregate.limits import limit_of
from hayase.sql.functions.aggregate.sketches import added, estimate, union
from hayase.sql.functions.java.equality import identity
from hayase.sql.functions.registry import aggregate
from hayase.sql.types.sql_types import BIGINT, BYTES, INTEGER, STRING, ArrayType, MapType, SqlType, StructType

HISTOGRAM_KEYS = 1000
Struct = dict[str, Any]


@aggregate("COUNT", "() -> BIGINT", "The number of rows.")
class CountRows:
    """COUNT(*)."""

    state_type = BIGINT

    def initial(self) -> int:
        """No rows."""
        return 0

    def add(self, state: int) -> int:
        """One row more."""
        return state + 1

    def undo(self, state: int) -> int:
        """One row less."""
        return state - 1

    def merge(self, left: int, right: int) -> int:
        """The rows of two sessions."""
        return left + right

    def result(self, state: int) -> int:
        """The number."""
        return state


@aggregate("COUNT", "(T) -> BIGINT", "The number of rows in which a value is not null.")
class Count:
    """COUNT of an expression."""

    state_type = BIGINT

    def initial(self) -> int:
        """No values."""
        return 0

    def add(self, state: int, value: object) -> int:
        """One value more, unless it is null."""
        return state if value is None else state + 1

    def undo(self, state: int, value: object) -> int:
        """One value less, unless it is null."""
        return state if value is None else state - 1

    def merge(self, left: int, right: int) -> int:
        """The values of two sessions."""
        return left + right

    def result(self, state: int) -> int:
        """The number."""
        return state


@aggregate("COUNT_DISTINCT", "(T) -> BIGINT", "About how many different values there are, nulls not counted.")
class CountDistinct:
    """COUNT_DISTINCT: exact for few values, within about 2 % for many; the state has at most a few KB."""

    state_type = StructType((("SKETCH", BYTES),))

    def initial(self) -> Struct:
        """No values."""
        return {"SKETCH": None}

    def add(self, state: Struct, value: object) -> Struct:
        """One value more, unless it is null."""
        return state if value is None else {"SKETCH": added(state["SKETCH"], value)}

    def merge(self, left: Struct, right: Struct) -> Struct:
        """The values of two sessions."""
        return {"SKETCH": union(left["SKETCH"], right["SKETCH"])}

    def result(self, state: Struct) -> int:
        """The estimate."""
        return estimate(state["SKETCH"])


@aggregate("HISTOGRAM", "(STRING) -> MAP<STRING, BIGINT>", "How often each value occurs, of 1000 values at most.")
class Histogram:
    """HISTOGRAM: values beyond the limit are not counted."""

    state_type = MapType(STRING, BIGINT)

    def __init__(self, *, settings: Mapping[str, object]) -> None:
        self._limit = limit_of("histogram", settings, HISTOGRAM_KEYS)

    def initial(self) -> dict[str, int]:
        """No values."""
        return {}

    def add(self, state: dict[str, int], value: str | None) -> dict[str, int]:
        """One value more, unless it is null, or new beyond the limit."""
        if value is None or (value not in state and len(state) >= self._limit):
            return state
        return {**state, value: state.get(value, 0) + 1}

    def undo(self, state: dict[str, int], value: str | None) -> dict[str, int]:
        """One value less; what does not occur any more is left out."""
        if value is None or value not in state:
            return state
        rest = dict(state)
        rest[value] -= 1
        if rest[value] < 1:
            del rest[value]
        return rest

    def merge(self, left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
        """The values of two sessions, up to the limit."""
        merged = dict(left)
        for value, count in right.items():
            if value in merged or len(merged) < self._limit:
                merged[value] = merged.get(value, 0) + count
        return merged

    def result(self, state: dict[str, int]) -> dict[str, int]:
        """The counts."""
        return state


@aggregate("ATTR", "(T) -> T", "The value if it is the same in all rows, else null.")
class Attr:
    """ATTR: nulls are values too."""

    def __init__(self, *, types: Sequence[SqlType]) -> None:
        self.state_type = ArrayType(StructType((("VALUE", types[0]), ("COUNT", INTEGER))))

    def initial(self) -> list[Struct]:
        """No values."""
        return []

    def add(self, state: list[Struct], value: object) -> list[Struct]:
        """One value more."""
        return self._changed(state, value, 1)

    def undo(self, state: list[Struct], value: object) -> list[Struct]:
        """One value less."""
        return self._changed(state, value, -1)

    def merge(self, left: list[Struct], right: list[Struct]) -> list[Struct]:
        """The values of two sessions."""
        merged = left
        for entry in right:
            merged = self._changed(merged, entry["VALUE"], entry["COUNT"])
        return merged

    def result(self, state: list[Struct]) -> object:
        """The only value."""
        return state[0]["VALUE"] if len(state) == 1 else None

    @staticmethod
    def _changed(state: list[Struct], value: object, by: int) -> list[Struct]:
        sought = identity(value)
        for position, entry in enumerate(state):
            if identity(entry["VALUE"]) == sought:
                count = entry["COUNT"] + by
                changed = [{"VALUE": value, "COUNT": count}] if count > 0 else []
                return state[:position] + changed + state[position + 1 :]
        return [*state, {"VALUE": value, "COUNT": by}] if by > 0 else state
