"""Which class does which built-in aggregate."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from hayase.kernel.aggregate.built_in import Average, BuiltIn, Count, Extreme, Sum
from hayase.kernel.aggregate.built_in_values import ByOffset, Collected
from hayase.topology.operators import BuiltInAggregate, FieldAggregate

_CLASSES: dict[str, type[BuiltIn]] = {
    "count": Count,
    "sum": Sum,
    "min": Extreme,
    "max": Extreme,
    "avg": Average,
    "earliest": ByOffset,
    "latest": ByOffset,
    "collect_list": Collected,
    "collect_set": Collected,
}


def built_ins(aggregation: BuiltInAggregate, types: Sequence[pl.DataType | None] | None = None) -> list[BuiltIn]:
    """The fields of an aggregate, made ready.

    Args:
        aggregation: the fields.
        types: type of each field's input, `None` where it is unknown or there is no input.

    Raises:
        TopologyError: `INVALID_AGGREGATE`: a function does not take this type.
    """
    known = types if types is not None else [None] * len(aggregation.fields)
    return [_class_of(field)(field, dtype) for field, dtype in zip(aggregation.fields, known, strict=True)]


def _class_of(field: FieldAggregate) -> type[BuiltIn]:
    kind = _CLASSES[field.function]
    return Collected if kind is ByOffset and field.size is not None else kind
