"""What a projection gives: rows to write and rows to delete."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Generic, TypeVar
from uuid import UUID

import msgspec

from hayase.core.errors import ProcessingError, TopologyError
from hayase.serde.pydantic_models import is_model

K = TypeVar("K")
V = TypeVar("V")


class Upsert:
    """Some columns of a row: those of the key, and those that change; the others stay as they are.

    Example:
        >>> Upsert(order_id="17", paid=True).columns
        {'order_id': '17', 'paid': True}
    """

    __slots__ = ("columns",)

    def __init__(self, **columns: object) -> None:
        self.columns: dict[str, object] = columns

    def __repr__(self) -> str:
        return f"Upsert({', '.join(f'{name}={value!r}' for name, value in self.columns.items())})"


class Delete:
    """A row that is deleted, by the columns of its key.

    Example:
        >>> Delete(order_id="17").key
        {'order_id': '17'}
    """

    __slots__ = ("key",)

    def __init__(self, **key: object) -> None:
        self.key: dict[str, object] = key

    def __repr__(self) -> str:
        return f"Delete({', '.join(f'{name}={value!r}' for name, value in self.key.items())})"


@dataclasses.dataclass(frozen=True, slots=True)
class TableChange(Generic[K, V]):
    """A change of a table of the DSL: the new value of a key; `None`: the key is gone."""

    key: K
    value: V | None


Row = dict[str, object]
"""Columns and their values."""
Rows = object
"""What a projection gives: a row (an object of the target's row type), `Upsert`, `Delete`, several of them, `None`."""
Projection = Callable[[Any], Rows]

_COLUMN_TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "bigint",
    float: "double precision",
    str: "text",
    bytes: "bytea",
    Decimal: "numeric",
    dt.datetime: "timestamptz",
    dt.date: "date",
    UUID: "uuid",
    dict: "jsonb",
    list: "jsonb",
}


class RowShape:
    """The columns of a row type, and which of them are the key.

    Args:
        row: a dataclass, `msgspec.Struct` or Pydantic model.
        key: names of the columns of the primary key.

    Raises:
        TopologyError: `INVALID_READ_MODEL`.
    """

    def __init__(self, row: type, key: Sequence[str]) -> None:
        if not isinstance(row, type) or not (
            dataclasses.is_dataclass(row) or issubclass(row, msgspec.Struct) or is_model(row)
        ):
            raise invalid(f"rows are described by a dataclass, a msgspec Struct or a Pydantic model, not by {row!r}")
        self.row = row
        try:
            hints = typing.get_type_hints(row)
        except NameError as error:
            raise invalid(f"the types of the columns of {row.__name__} are not known: {error}") from error
        self.columns: dict[str, str] = {
            name: _column_type(row, name, hint) for name, hint in hints.items() if name in _fields_of(row)
        }
        self.key = tuple(key)
        self._others = tuple(name for name in self.columns if name not in self.key)
        unknown = [name for name in self.key if name not in self.columns]
        if not self.key or unknown:
            raise invalid(
                f"the key of the rows is {list(key)}; give one or more of the columns {', '.join(self.columns)}"
            )

    def changes(self, given: Rows) -> Iterable[tuple[dict[str, object], dict[str, object] | None]]:
        """Key and other columns of each row that a projection gave; `None` instead of columns: it is deleted.

        Raises:
            ProcessingError: `INVALID_ROW`.
        """
        if given is None:
            return
        several: Iterable[object] = given if isinstance(given, (list, tuple, typing.Iterator)) else (given,)
        for each in several:
            if isinstance(each, self.row):
                key: Row = {name: getattr(each, name) for name in self.key}
                if None in key.values():
                    raise _wrong(each, f"has no {_first_null(key)!r}, which is of the key")
                yield key, {name: getattr(each, name) for name in self._others}
                continue
            if isinstance(each, Upsert):
                values = dict(each.columns)
            elif isinstance(each, Delete):
                yield self._key_of(each.key, each), None
                continue
            else:
                raise _wrong(each, f"is no {self.row.__name__}, Upsert or Delete")
            key = self._key_of(values, each)
            yield key, {name: value for name, value in values.items() if name not in key}

    def _key_of(self, values: Mapping[str, object], given: object) -> dict[str, object]:
        unknown = [name for name in values if name not in self.columns]
        if unknown:
            raise _wrong(given, f"has the column {unknown[0]!r}; there are {', '.join(self.columns)}")
        key = {name: values.get(name) for name in self.key}
        if None in key.values():
            raise _wrong(given, f"has no {_first_null(key)!r}, which is of the key")
        if isinstance(given, Delete) and len(values) != len(key):
            raise _wrong(given, f"has more columns than the key, {', '.join(self.key)}")
        return key


def _first_null(key: Row) -> str:
    return next(name for name, value in key.items() if value is None)


def _fields_of(row: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(row):
        return tuple(field.name for field in dataclasses.fields(row))
    if issubclass(row, msgspec.Struct):
        return row.__struct_fields__
    return tuple(row.model_fields)  # type: ignore[attr-defined]  # a Pydantic model, by `is_model`


def _column_type(row: type, name: str, hint: object) -> str:
    members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    members = tuple(each for each in members if each is not type(None))
    root = typing.get_origin(members[0]) or members[0] if len(members) == 1 else None
    found = _COLUMN_TYPES.get(root) if isinstance(root, type) else None
    if found is None:
        raise invalid(
            f"the column {name!r} of {row.__name__} is of type {hint}; columns are "
            f"{', '.join(each.__name__ for each in _COLUMN_TYPES)}, each or None"
        )
    return found


def _wrong(given: object, why: str) -> ProcessingError:
    return ProcessingError("INVALID_ROW", f"the projection gave {given!r:.300}, which {why}")


def invalid(message: str) -> TopologyError:
    """An error of a read model that cannot be."""
    return TopologyError("INVALID_READ_MODEL", message)


class RowFold:
    """Rows in memory, to which changes are applied.

    Attributes:
        rows: by key.
    """

    def __init__(self, shape: RowShape) -> None:
        self._shape = shape
        self.rows: dict[tuple[str, ...], Row] = {}

    def apply(self, changes: Iterable[tuple[Row, Row | None]]) -> None:
        """Take changes of rows, as `RowShape.changes` gives them."""
        for key, columns in changes:
            place = place_of(key)
            if columns is None:
                self.rows.pop(place, None)
            else:
                row = self.rows.get(place) or dict.fromkeys(self._shape.columns)
                self.rows[place] = {**row, **key, **columns}


def place_of(key: Mapping[str, object]) -> tuple[str, ...]:
    """The key of a row, as all databases give it back."""
    return tuple(str(comparable(value)) for value in key.values())


def comparable(value: object) -> object:
    """A value as all databases give it back: for comparisons."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).astimezone(dt.UTC).isoformat()
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, default=_in_json, ensure_ascii=False, sort_keys=True)
    if isinstance(value, str) and value[:1] in "[{":
        return _canonical(value)
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def _canonical(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, sort_keys=True)
    except ValueError:
        return text


def _in_json(value: Any) -> object:
    return value.isoformat() if isinstance(value, (dt.date, dt.time)) else str(value)
