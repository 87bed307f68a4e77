"""How built-in aggregates are stored: a form of our own that needs no schema, so that both forms can always read it."""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from hayase.core.errors import SerializationError, TopologyError
from hayase.kernel.aggregate.built_in import built_ins
from hayase.kernel.aggregate.built_in_numbers import BuiltIn
from hayase.serde import Serdes
from hayase.serde.evolution import AGGREGATE, Description
from hayase.serde.protocol import BARE_FIELD, Serde
from hayase.topology.operators import BuiltInAggregate, FieldAggregate

NULL_TAG, INT_TAG, FLOAT_TAG, BOOL_TAG, TEXT_TAG, BYTES_TAG, LIST_TAG, MAP_TAG = range(8)

_LONG = struct.Struct(">Bq")
_DOUBLE = struct.Struct(">Bd")
_LENGTH = struct.Struct(">BI")
_NULL = bytes(9)


class AggregateSerde(Serde[Any]):
    """Values of `agg(…)` as a store keeps them: for each stored value a tag (1 byte), then 8 bytes or length and bytes.

    Tags: 0 null, 1 whole number, 2 double, 3 truth value, 4 text, 5 bytes, 6 list, 7 record of fields; of the last two
    the length is that of all that follows, items (and names before them) being stored in the same way. avg keeps a sum
    and a count instead of its value. Reading gives the visible value (a dict, or the one field if `bare`). Writing a
    visible value works unless a field keeps more than its value; operators write the stored values by `pack`.

    Args:
        fields: in order; their inputs do not matter.
        bare: the one field is the value itself.
    """

    def __init__(self, fields: Sequence[FieldAggregate], *, bare: bool = False) -> None:
        self._fields = tuple(dataclasses.replace(field, input=None) for field in fields)
        self._bare = bare
        self._parts = built_ins(BuiltInAggregate(self._fields, bare))
        self._count = sum(len(part.stored_names) for part in self._parts)

    def __reduce__(self) -> tuple[object, ...]:
        return _remake, (self._fields, self._bare)

    @classmethod
    def of(cls, description: Description) -> AggregateSerde:
        """The serde that `description` is of."""
        return cls([FieldAggregate(**field) for field in description["fields"]], bare=description["bare"])

    def description(self) -> Description:
        """How it writes: fields with their functions, in order."""
        fields = [
            {"name": each.name, "function": each.function, "ignore_nulls": each.ignore_nulls, "size": each.size}
            for each in self._fields
        ]
        return {"serde": AGGREGATE, "fields": fields, "bare": self._bare}

    def to_bytes(self, value: Any) -> bytes:
        """Bytes of a visible value.

        Raises:
            SerializationError: a field keeps more than its value, as an avg its sum and count; or a value has another
                type.
        """
        if self._count != len(self._parts):
            raise SerializationError(
                "NOT_SERIALIZABLE", "an average cannot be stored without its sum and count, nor the like"
            )
        return self.pack([value] if self._bare else [value[field.name] for field in self._fields])

    def from_bytes(self, data: bytes) -> Any:
        """The visible value; raises SerializationError for bytes of other fields."""
        return visible(self._parts, self.unpack(data), self._bare)

    def pack(self, stored: Sequence[object]) -> bytes:
        """Bytes of the stored values in order; raises SerializationError for a type that has no tag."""
        return b"".join(map(_packed, stored))

    def unpack(self, data: bytes) -> list[Any]:
        """The stored values in order; raises SerializationError for bytes of other fields."""
        try:
            stored = list(_unpacked(data))
        except (struct.error, UnicodeDecodeError, IndexError) as error:
            raise SerializationError("VALUE_NOT_DESERIALIZABLE", f"no stored aggregate: {data[:40]!r}") from error
        if len(stored) != self._count:
            raise SerializationError(
                "VALUE_NOT_DESERIALIZABLE",
                f"the store holds {len(stored)} values in a row, this aggregate keeps {self._count}; were its fields "
                "changed? Give the store another name, or reset the application",
            )
        return stored


def _remake(fields: Sequence[FieldAggregate], bare: bool) -> AggregateSerde:
    return AggregateSerde(fields, bare=bare)


def visible(parts: Sequence[BuiltIn], stored: Sequence[object], bare: bool) -> Any:
    """The visible value of stored values: a dict, or the one field."""
    results: dict[str, object] = {}
    offset = 0
    for part in parts:
        end = offset + len(part.stored_names)
        results[part.name] = part.result(stored[offset:end])
        offset = end
    return results[parts[0].name] if bare else results


def aggregate_serde(aggregation: BuiltInAggregate, given: Serde | None = None) -> Serde:
    """The value serde for the store of a built-in aggregate: what goes into `StoreSpec.value_serde`.

    `count()` is stored as a Long, as in Kafka Streams; others as `AggregateSerde` says, unless a serde is given.
    It is for the store only: results are written to topics by the sink's serde.

    Args:
        aggregation: whose results are stored.
        given: from `Materialized`; must read back what it wrote: a number for a bare aggregate, else fields by name.

    Raises:
        TopologyError: a serde is given and a field keeps more than its value, as an avg does.
    """
    if given is not None:
        more = [part.name for part in built_ins(aggregation) if len(part.stored_names) > 1]
        if more:
            raise TopologyError(
                "INVALID_AGGREGATE",
                f"the store of an aggregate with {more[0]!r} (an avg, or an earliest that may be null) keeps more than "
                "its value, so it cannot have a value serde; leave it out of Materialized (the topic's serde is given "
                "to `to`)",
            )
        return given
    if aggregation.bare and aggregation.fields[0].function == "count":
        return Serdes.long()
    return AggregateSerde(aggregation.fields, bare=aggregation.bare)


def stored_field_names(aggregation: BuiltInAggregate) -> list[str]:
    """Names of the stored values when a given serde stores them; a bare one is `value`."""
    return [BARE_FIELD] if aggregation.bare else [field.name for field in aggregation.fields]


def _packed(value: Any) -> bytes:
    if value is None:
        return _NULL
    kind = type(value)
    try:
        if kind is int:
            return _LONG.pack(INT_TAG, value)
        if kind is float:
            return _DOUBLE.pack(FLOAT_TAG, math.nan if math.isnan(value) else value)  # one NaN for all
        if kind is bool:
            return _LONG.pack(BOOL_TAG, value)
        if kind is str:
            data: bytes = value.encode()
            return b"".join((_LENGTH.pack(TEXT_TAG, len(data)), data))
        if kind is bytes:
            return b"".join((_LENGTH.pack(BYTES_TAG, len(value)), value))
        if kind is list:
            data = b"".join(map(_packed, value))
            return b"".join((_LENGTH.pack(LIST_TAG, len(data)), data))
        if kind is dict:
            data = b"".join(_packed(each) for item in value.items() for each in item)
            return b"".join((_LENGTH.pack(MAP_TAG, len(data)), data))
    except (struct.error, UnicodeEncodeError) as error:
        raise SerializationError("NOT_SERIALIZABLE", f"{value!r} does not fit into a stored aggregate") from error
    raise SerializationError("NOT_SERIALIZABLE", f"an aggregate cannot keep a {kind.__name__}: {value!r}")


def _unpacked(data: bytes) -> list[Any]:
    stored: list[Any] = []
    offset = 0
    while offset < len(data):
        tag = data[offset]
        if tag in _WITH_LENGTH:
            (length,) = struct.unpack_from(">I", data, offset + 1)
            piece = data[offset + 5 : offset + 5 + length]
            if len(piece) != length:
                raise struct.error("cut off")
            stored.append(_WITH_LENGTH[tag](piece))
            offset += 5 + length
            continue
        if tag == FLOAT_TAG:
            stored.append(struct.unpack_from(">d", data, offset + 1)[0])
        else:
            (number,) = struct.unpack_from(">q", data, offset + 1)
            stored.append((None, number, None, bool(number))[tag])
        offset += 9
    return stored


def _unpacked_map(data: bytes) -> dict[str, Any]:
    items = _unpacked(data)
    return dict(zip(items[::2], items[1::2], strict=True))


_WITH_LENGTH: dict[int, Callable[[bytes], Any]] = {
    TEXT_TAG: bytes.decode,
    BYTES_TAG: bytes,
    LIST_TAG: _unpacked,
    MAP_TAG: _unpacked_map,
}
