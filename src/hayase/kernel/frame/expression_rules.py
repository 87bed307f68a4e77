"""What an expression must be to mean the same for one record and for a batch of them."""

from __future__ import annotations

import io
from collections.abc import Iterable

import msgspec
import polars as pl

from hayase.core.errors import TopologyError


def check_expression(node: str, expression: pl.Expr) -> pl.Expr:
    """The expression, if its result for a record depends on that record alone.

    Raises:
        TopologyError: `INVALID_EXPRESSION`: it looks at other records (`sum`, `shift`, `over`, …), changes their number
            (`explode`, `filter`), or selects fields by pattern or type.
    """
    if expression.meta.has_multiple_outputs():
        raise TopologyError(
            "INVALID_EXPRESSION",
            f"{expression} selects fields by pattern or type; name each field by pl.col('…')",
            node=node,
        )
    for part in _parts(expression):
        if not _per_record(part):
            raise TopologyError(
                "INVALID_EXPRESSION",
                f"{expression} does not work record by record, because of {part}: an expression sees one record. "
                "Use group_by and an aggregate to combine records; give formats and categories explicitly",
                node=node,
            )
    return expression


def _parts(expression: pl.Expr) -> Iterable[pl.Expr]:
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(part.meta.pop())


def _per_record(part: pl.Expr) -> bool:
    try:
        meta = part.meta
        return meta.is_row_separable() and (meta.is_length_preserving() or meta.is_scalar())
    except pl.exceptions.PolarsError:  # the answer depends on the types of the fields (Python functions, list.eval)
        return True


_CALLS_PYTHON = frozenset(
    {"AnonymousFunction", "FoldHorizontal", "ReduceHorizontal", "CumFoldHorizontal", "CumReduceHorizontal"}
)
_FOREIGN = frozenset({"FfiPlugin", "Plugin", "PythonUdf", "PythonFunction"})
_RANDOM = frozenset({"Random", "Sample"})


def is_pure_expression(expression: pl.Expr) -> bool:
    """Whether the same record always gives the same result: no Python function, plugin or randomness anywhere in it.

    Example:
        >>> is_pure_expression(pl.col("amount") * 2), is_pure_expression(pl.col("amount").map_elements(abs))
        (True, False)
    """
    try:
        tree = msgspec.json.decode(expression.meta.serialize(format="json"))
    except (pl.exceptions.PolarsError, msgspec.DecodeError):  # Polars cannot write down a Python function
        return False
    return not any(_is_impure(name, below) for name, below in _named(tree))


def _named(tree: object) -> Iterable[tuple[str, object]]:
    """The names in a serialized expression, each with what is below it."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield from part.items()
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(each for each in part if isinstance(each, dict | list))


def _is_impure(name: str, below: object) -> bool:
    if name in _CALLS_PYTHON or name in _FOREIGN or name in _RANDOM:
        return True
    # A random order without a seed; a function that another function calls.
    return (name == "seed" and below is None) or name == "callback"


def canonical_text(expression: pl.Expr) -> str:
    """A pure expression as text that is the same in every process in which it is built.

    The values of `is_in` are sorted: given as a Python set they come in another order in each process.
    """
    tree = msgspec.json.decode(expression.meta.serialize(format="json"))
    for name, below in _named(tree):
        if name == "Function" and isinstance(below, dict) and "IsIn" in str(below.get("function")):
            below["input"] = [_sorted_literal(part) for part in below["input"]]
    return msgspec.json.encode(tree).decode()


def _sorted_literal(part: object) -> object:
    if not (isinstance(part, dict) and "Literal" in part):
        return part
    literal = pl.Expr.deserialize(io.BytesIO(msgspec.json.encode(part)), format="json")
    values = pl.select(literal).to_series()
    if isinstance(values.dtype, pl.List | pl.Array):
        values = values.explode()
    return [str(values.dtype), sorted(map(repr, values.to_list()))]
