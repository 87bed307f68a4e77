"""The column form: one Polars frame an epoch through each node. Means exactly what the row form means.

A frame has
    __key            the key: one column, a struct if composite; null where the key is null
    the value's fields by name (a bare value: `value`)
    __null           whether the value is null (then its fields are null)
    __ts             timestamp, Int64 milliseconds
    __window_start, __window_end   Int64, on edges whose key is windowed
    __o0, __o1, …    Int64, where the record stands in the epoch; frames ascend by these
    __h              Int64, index of the input record whose headers it carries, or of headers that a node kept from an
                     earlier epoch (`keep_headers`); only if there are any
and on table edges `__old.<field>` and `__old_null` (whether there was no row before). `__old…` columns are there only
if the edge's schema says `old_values`.

`__o0` is the record's index in the task's merged input, 0 … n-1. What a cache sends at the end of the epoch has `__o0 =
n`, `__o1` = the node's position in the topology, `__o2` = rank of the last update. An operator that can send several
rows per row appends the next `__o` column. Two frames are merged by the order columns they share, then by parent, then
by the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import polars as pl

from hayase.core.metrics import Metrics
from hayase.core.records import Headers
from hayase.kernel.node.clocks import Clocks
from hayase.kernel.node.edge import EdgeSchema
from hayase.serde import changes
from hayase.serde.faults import is_fault
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.spec import StoreSpec
from hayase.topology.nodes import ProcessorNode

KEY = "__key"
NULL = "__null"
TS = "__ts"
WINDOW_START = "__window_start"
WINDOW_END = "__window_end"
HEADERS = "__h"
OLD = changes.OLD
OLD_NULL = changes.OLD_NULL
ORDER = "__o"

T = TypeVar("T")


Order = tuple[int, ...]
"""What the order columns of a row say."""


class TableColumns(Protocol):
    """A table as other nodes of the task read it in columns."""

    def at_start(self, keys: pl.Series) -> pl.DataFrame:
        """The rows of those keys at the epoch's start.

        The value's fields, `__null` (no row) and `__ts`, aligned with `keys`.
        """
        ...

    def changes(self) -> pl.DataFrame:
        """Every update of this epoch, uncached and in order.

        `__key`, the value's fields, `__null`, `__ts` and order columns.
        """
        ...


class ColumnSpill(Protocol):
    """Keeps what the cache of one node holds back, until the end of the epoch. Implemented by `hayase.task`."""

    def add(
        self,
        keys: Sequence[bytes],
        rows: pl.DataFrame,
        start: Sequence[bytes | None],
        finish: Callable[[pl.DataFrame, list[bytes | None], ColumnContext], pl.DataFrame],
        origins: pl.DataFrame,
    ) -> None:
        """Take the last updates of a chunk.

        Args:
            keys: say which updates are of the same row of the table; each different.
            rows: the updates, aligned with `keys`, in order of last update, without order columns.
            start: what was stored before the chunk, aligned with `keys`.
            finish: makes what is sent of rows and of what was stored at the epoch's start, at the end of the epoch.
            origins: the order columns that the updates had.
        """
        ...


class FailureHandler(Protocol):
    """Handles records that fail."""

    def processing_failed(self, order: Order, error: Exception) -> None:
        """The record of a row failed; returns if it is to be dropped. `order` is what the row's order columns say."""
        ...


class ColumnContext(Protocol):
    """A node's access to its task, valid for one epoch. Implemented by `hayase.task`."""

    metrics: Metrics
    clocks: Clocks
    wall_clock_ms: int
    input_count: int
    """Number of records in the task's merged input: `__o0` of what is sent at the end of the epoch."""
    position: int
    """The node's position in its sub-topology: `__o1` of what is sent at the end of the epoch."""
    partition: int
    """Number of the task's partition."""
    spill: ColumnSpill | None
    """Takes over what the node's cache holds back, if the epoch is processed in several chunks."""

    def byte_store(self, name: str) -> ByteStore:
        """A store of this task, or a global table's store (read-only)."""
        ...

    def store_spec(self, name: str) -> StoreSpec:
        """What that store is."""
        ...

    def table(self, name: str) -> TableColumns:
        """Another node's table; that node has run already."""
        ...

    def headers_of(self, frame: pl.DataFrame) -> Sequence[Headers]:
        """The headers of each row, by `__h`."""
        ...

    def keep_headers(self, headers: Sequence[Headers]) -> int:
        """Give rows headers that no record of the epoch has: the `__h` of the first of them, the others follow it."""
        ...

    def sent(self, name: str) -> pl.DataFrame:
        """What another node sent; that node has run already."""
        ...

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` gives: it is called by the first of the nodes that ask for the name while a frame is run."""
        ...

    def processing_failed(self, order: Order, error: Exception) -> None:
        """The record of a row failed: returns if it is to be dropped, else raises ProcessingError.

        `order` is what the row's order columns say, at least the first three (`order_of`).
        """
        ...

    def sends_at_end(self, origins: pl.DataFrame) -> None:
        """Say what the node's cache sends at the end of the epoch: the order columns that those updates had, by `__o2`.

        An error in what is sent names the record that made it.
        """
        ...


class ColumnNode(ABC):
    """One node in column form, compiled once per application; keeps nothing between epochs."""

    def __init__(self, name: str, output: EdgeSchema) -> None:
        self.name = name
        self.output = output

    @abstractmethod
    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The node's whole epoch: one frame per parent edge in, one for all children out.

        Frames may be empty, never missing columns.

        An epoch too large for memory is run in chunks of the merged order, `ctx.spill` being set: then what a cache
        would send goes there instead, and what is sent has no rows of the end of the epoch. After the chunks it is run
        again with what other caches held back as input.
        """

    def table_columns(self) -> TableColumns | None:
        """After `run`: how others read this node's table; `None` if it is none."""
        return None


@dataclass(frozen=True, slots=True)
class CompileContext:
    """What compiling a node to columns may look at.

    Attributes:
        stores: specs of the stores.
        tables: edge schemas of the table nodes that were compiled before, by node name.
        read_tables: names of nodes whose table another node of the task looks up (they must keep uncached changes).
        caching: whether caches are on at all (`statestore.cache.max.bytes` above 0).
        nodes: the processors of the sub-topology in order; from them `kernel.frame.order` finds the order of records
            that reach a node on several ways. Empty: as if no record did.
    """

    stores: Mapping[str, StoreSpec]
    tables: Mapping[str, EdgeSchema]
    read_tables: frozenset[str]
    caching: bool
    nodes: tuple[ProcessorNode, ...] = ()


def order_columns(frame: pl.DataFrame) -> list[str]:
    """The frame's order columns, `__o0` first."""
    columns: list[str] = []
    while (name := f"{ORDER}{len(columns)}") in frame.columns:
        columns.append(name)
    return columns


def order_of(frame: pl.DataFrame, row: int) -> Order:
    """What the order columns of a row say."""
    return frame.select(order_columns(frame)).row(row)


class Failed:
    """A FailureHandler that drops what fails, and keeps it, for who decides later whether it counts."""

    def __init__(self) -> None:
        self.errors: list[tuple[Order, Exception]] = []

    def processing_failed(self, order: Order, error: Exception) -> None:
        """See FailureHandler."""
        self.errors.append((order, error))

    def by_row(self, frame: pl.DataFrame) -> dict[int, Exception]:
        """The errors by number of the row in a frame whose order columns they name."""
        if not self.errors:
            return {}
        rows = {order: row for row, order in enumerate(frame.select(order_columns(frame)).iter_rows())}
        return {rows[order]: error for order, error in self.errors}


def evaluate(frame: pl.DataFrame, build: Callable[[pl.DataFrame], pl.DataFrame], ctx: FailureHandler) -> pl.DataFrame:
    """`build(frame)`, leaving out the rows on which it raises if the handler says so.

    For stateless work only: `build` may be called again with parts of the frame. The failing rows are found by halving,
    and handed to `ctx.processing_failed` in order.
    """
    try:
        return build(frame)
    except Exception as error:  # expressions and user code may raise anything; the handler decides
        if not is_fault(error):
            raise
        if frame.height == 0:
            raise
        if frame.height == 1:
            ctx.processing_failed(order_of(frame, 0), error)
            return build(frame.clear())
    half = frame.height // 2
    return pl.concat([evaluate(frame[:half], build, ctx), evaluate(frame[half:], build, ctx)], how="vertical_relaxed")
