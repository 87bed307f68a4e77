"""Built-in aggregates for `agg(...)`: both forms know them, so they run in columns.

Example:
    grouped.agg(n=count(), revenue=sum_("amount"), last=max_(timestamp()))
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hayase.core.errors import TopologyError
from hayase.dsl import functions
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import Named
from hayase.topology.operators import AggregateFunction, AggregateLoop, FieldAggregate

Input = str | pl.Expr
"""A field of the value by name, or an expression over the record."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate without its name; made by the functions of this module."""

    function: AggregateFunction
    input: pl.Expr | None
    ignore_nulls: bool = True
    size: int | None = None
    wraps: bool = False
    loop: AggregateLoop | None = None


def aggregate_arguments(
    materialized: Materialized[object, object] | None,
    named: Named | None,
    fields: dict[str, Aggregate | Materialized[object, object] | Named | str],
) -> tuple[Materialized[object, object] | None, Named | None, tuple[FieldAggregate, ...]]:
    """The arguments of `agg`: its options, which may be among the keywords, and the fields.

    Raises:
        TopologyError: `INVALID_FIELDS`, `INVALID_FIELD_NAME`, `INVALID_AGGREGATE`.
    """
    if isinstance(option := fields.get("materialized"), Materialized):
        materialized = option
        del fields["materialized"]
    if isinstance(name := fields.get("name"), str | Named):
        named = Named(name) if isinstance(name, str) else name
        del fields["name"]
    if not fields:
        raise TopologyError("INVALID_FIELDS", "agg got no fields; for example agg(n=count(), total=sum_('amount'))")
    field_aggregates: list[FieldAggregate] = []
    for field, aggregate in fields.items():
        functions.check_field_name(field, "agg")
        if not isinstance(aggregate, Aggregate):
            raise TopologyError(
                "INVALID_AGGREGATE",
                f"agg: {field} is {aggregate!r}; use one of count(), sum_, min_, max_, avg, "
                "earliest_by_offset, latest_by_offset, collect_list, collect_set",
            )
        field_aggregates.append(
            FieldAggregate(
                field,
                aggregate.function,
                aggregate.input,
                aggregate.ignore_nulls,
                aggregate.size,
                aggregate.wraps,
                aggregate.loop,
            )
        )
    return materialized, named, tuple(field_aggregates)


def count(of: Input | None = None) -> Aggregate:
    """The number of records, or of non-null values of `of`; a 64-bit integer."""
    return Aggregate("count", None if of is None else _expression("count", of))


def sum_(of: Input) -> Aggregate:
    """The sum of the non-null values, 0 if there are none. Whole numbers are 64-bit; overflowing is an error."""
    return Aggregate("sum", _expression("sum_", of))


def min_(of: Input) -> Aggregate:
    """The smallest non-null value, null if there is none."""
    return Aggregate("min", _expression("min_", of))


def max_(of: Input) -> Aggregate:
    """The largest non-null value, null if there is none."""
    return Aggregate("max", _expression("max_", of))


def avg(of: Input) -> Aggregate:
    """The mean of the non-null values as a double, null if there is none."""
    return Aggregate("avg", _expression("avg", of))


def earliest_by_offset(of: Input, n: int | None = None, *, ignore_nulls: bool = True) -> Aggregate:
    """The first value; with `n` the list of the first `n` values. ksqlDB's function of that name.

    First is what the task processed first: of records of one partition the one with the smallest offset.

    Args:
        of: text, a number, a truth value, bytes, a list or a struct of these.
        n: how many values; `None`: one, not as a list.
        ignore_nulls: null is no value; else it is one like any other. Without values the result is null, or empty.

    Example:
        grouped.agg(opened=earliest_by_offset("price"), last_three=latest_by_offset("price", 3))
    """
    return _kept("earliest", "earliest_by_offset", of, n, ignore_nulls)


def latest_by_offset(of: Input, n: int | None = None, *, ignore_nulls: bool = True) -> Aggregate:
    """The last value; with `n` the list of the last `n` values, oldest first. Otherwise as `earliest_by_offset`."""
    return _kept("latest", "latest_by_offset", of, n, ignore_nulls)


def collect_list(of: Input, *, ignore_nulls: bool = False, max_size: int | None = None) -> Aggregate:
    """All values as a list in the order of processing.

    The whole list is in the table's row: with a row that many records go into, give a `max_size`.

    Args:
        of: as in `earliest_by_offset`.
        ignore_nulls: leave nulls out; ksqlDB does not.
        max_size: values that would make the list longer are skipped (ksqlDB's `ksql.functions.collect_list.limit`).
    """
    return _kept("collect_list", "collect_list", of, max_size, ignore_nulls)


def collect_set(of: Input, *, ignore_nulls: bool = False, max_size: int | None = None) -> Aggregate:
    """The different values as a list in the order of their first occurrence; of text, numbers, truth values or bytes.

    `ignore_nulls` and `max_size` as in `collect_list`.
    """
    return _kept("collect_set", "collect_set", of, max_size, ignore_nulls)


def _kept(function: AggregateFunction, name: str, of: Input, size: int | None, ignore_nulls: bool) -> Aggregate:
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise TopologyError("INVALID_AGGREGATE", f"{name} keeps 1 value or more, not {size!r}")
    return Aggregate(function, _expression(name, of), ignore_nulls, size)


def _expression(function: str, of: Input) -> pl.Expr:
    if isinstance(of, str):
        return pl.col(of)
    if isinstance(of, pl.Expr):
        return of
    raise TopologyError(
        "INVALID_EXPRESSION", f"{function} takes the name of a field or a Polars expression, not {of!r}"
    )
