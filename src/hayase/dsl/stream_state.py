"""The state of a stream while its topology is built, and checks of what operations are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import polars as pl

from hayase.core.errors import TopologyError
from hayase.dsl import functions
from hayase.dsl.functions import ValueFunction
from hayase.dsl.graph import Graph
from hayase.dsl.inference import (
    Known,
    concrete_serde,
    infer,
    result_schema,
    transport_serde,
    value_schema,
    visible_columns,
)
from hayase.dsl.options.options import Grouped, Named, OptionalSerdes, Repartitioned
from hayase.serde.faults import shown
from hayase.serde.protocol import Schema, Serde
from hayase.topology.operators import Fields
from hayase.topology.operators.functions import KeyValueMapper

Option = TypeVar("Option")


class _PartState(Protocol):
    @property
    def graph(self) -> Graph: ...


class _Part(Protocol):
    @property
    def _state(self) -> _PartState: ...


Part = TypeVar("Part", bound=_Part)
"""A stream, a table or a global table."""

Name = str | Named | None
"""Name of a node; `None`: a generated one."""


@dataclass(frozen=True)
class StreamState:
    """The state of a stream: its node, and what is known of keys and values.

    Attributes:
        graph: of the topology.
        node: the node that sends its records.
        key: what is known about keys.
        value: what is known about values.
        rekeyed: the key changed since the records were last partitioned by it; a later operation that needs
            records of one key together repartitions first.
    """

    graph: Graph
    node: str
    key: Known
    value: Known
    rekeyed: bool = False


def check_option(given: Option | None, kind: type[Option], what: str) -> Option:
    """The option object, or one without options."""
    if given is None:
        return kind()
    if not isinstance(given, kind):
        raise TopologyError(
            "INVALID_OPTION", f"{what} takes a {kind.__name__} here, not {shown(given)}{_hint(given, kind)}"
        )
    return given


def _hint(given: object, kind: type[object]) -> str:
    if isinstance(given, str) and hasattr(kind, "as_"):
        return f"; write {kind.__name__}.as_({given!r})"
    if isinstance(given, Serde) and hasattr(kind, "with_"):
        return f"; write {kind.__name__}.with_(KEY_SERDE, VALUE_SERDE)"
    if isinstance(given, OptionalSerdes):
        return f"; give it by name, as {type(given).__name__.lower()}="
    return ""


def of_same_builder(graph: Graph, other: object, kinds: tuple[type[Part], ...], what: str) -> Part:
    """The other stream or table, if it is one of those kinds and comes from the same StreamsBuilder.

    Raises:
        TopologyError: `INVALID_ARGUMENT`, `FOREIGN_STREAM`.
    """
    if not isinstance(other, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise TopologyError("INVALID_ARGUMENT", f"{what} takes a {names}, not {other!r}")
    if other._state.graph is not graph:
        raise TopologyError("FOREIGN_STREAM", f"{what}: the two come from different StreamsBuilders")
    return other


def bind_arguments(
    what: str, given: tuple[object, ...], keywords: dict[str, object], names: tuple[str, ...], required: int
) -> tuple[Any, ...]:
    """Arguments of an overload by position or by name; `None` for optional ones that are not given.

    What takes them checks them.
    """
    bound = dict(zip(names, given, strict=False))
    wrong = len(given) > len(names) or bool(keywords.keys() - set(names)) or bool(keywords.keys() & bound.keys())
    bound.update(keywords)
    if wrong or any(name not in bound for name in names[:required]):
        raise TopologyError(
            "INVALID_JOIN",
            f"{what} takes ({', '.join(names)}) after this kind of stream or table, and name="
            f"{_lacking([name for name in names[:required] if name not in bound])}",
        )
    return tuple(bound.get(name) for name in names)


def _lacking(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"; {' and '.join(names)} {'is' if len(names) == 1 else 'are'} missing"


def mapped_values(
    mapper: ValueFunction, columns: tuple[dict[str, pl.DataType], bool], what: str
) -> tuple[KeyValueMapper | pl.Expr | Fields, Schema | None]:
    """A value mapper and the schema of its results."""
    function = functions.value_mapper(mapper, what)
    if isinstance(function, pl.Expr | tuple):
        return function, value_schema(function, columns, what)
    return function, result_schema(function)


def grouped_state(state: StreamState, options: Grouped[object, object] | Repartitioned[object, object]) -> StreamState:
    """The stream with the serdes that the options give."""
    return replace(
        state,
        key=state.key if options.key_serde is None else Known(options.key_serde),
        value=state.value if options.value_serde is None else Known(options.value_serde),
    )


def repartitioned(state: StreamState, prefix: str) -> StreamState:
    """The stream behind a repartition whose names begin with `prefix`."""
    graph = state.graph
    names = graph.repartition_names(prefix)
    key = transport_serde(state.key, "key", prefix)
    node = graph.repartition(state.node, names, key, state.value.serde)
    return replace(state, node=node, key=Known(key, state.key.inferred), rekeyed=False)


def repartitioned_for_join(state: StreamState, name: str | None, other_side: str | None = None) -> StreamState:
    """The stream behind the repartition that its joins read; `name` begins the names of one for this join alone.

    `other_side` is the source of the other side of a join of this stream with itself.
    """
    graph, prefix = state.graph, name or state.node
    key = transport_serde(state.key, "key", prefix)
    node = graph.join_repartition(
        state.node, prefix, lambda names: graph.repartition(state.node, names, key, state.value.serde), other_side
    )
    return replace(state, node=node, key=Known(key, state.key.inferred), rekeyed=False)


def through_topic(state: StreamState, options: Repartitioned[object, object]) -> StreamState:
    """The stream behind an internal topic."""
    state = grouped_state(state, options)
    graph = state.graph
    prefix = options.name or graph.names.next("KSTREAM-REPARTITION-")
    serdes = concrete_serde(state.key, "key", prefix), concrete_serde(state.value, "value", prefix)
    if isinstance(options.partitioner, pl.Expr):
        infer(options.partitioner, visible_columns(state.key, state.value), "the partitioner")
    node = graph.internal_topic(
        state.node, graph.repartition_names(prefix), serdes, options.number_of_partitions, options.partitioner
    )
    key, value = Known(serdes[0], state.key.inferred), Known(serdes[1], state.value.inferred)
    return replace(state, node=node, key=key, value=value, rekeyed=False)
