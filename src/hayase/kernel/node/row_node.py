"""The row form, the reference: one record at a time, depth first, children in the order they were added."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from hayase.core.errors import UnknownStoreError
from hayase.core.metrics import Metrics
from hayase.core.records import Change, Record, RecordMetadata
from hayase.kernel.node.clocks import Clocks
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.punctuation import Punctuations
from hayase.serde.faults import is_fault
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.spec import StoreSpec
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import Operator

Op = TypeVar("Op", bound=Operator)
"""Class of a node's operator."""


class RowEnvironment(Protocol):
    """What a task offers its nodes during one epoch. Implemented by `hayase.task`."""

    @property
    def metrics(self) -> Metrics:
        """Counters of the epoch."""
        ...

    @property
    def clocks(self) -> Clocks:
        """Clocks of the task."""
        ...

    @property
    def wall_clock_ms(self) -> int:
        """The epoch's wall clock."""
        ...

    @property
    def partition(self) -> int:
        """Number of the task's partition."""
        ...

    def byte_store(self, name: str) -> ByteStore:
        """A store of this task, or a global table's store (read-only)."""
        ...

    def store_spec(self, name: str) -> StoreSpec:
        """What that store is; `caching` is false in it where caches are off altogether."""
        ...

    def metadata(self) -> RecordMetadata | None:
        """Where the current record was read; `None` while flushing."""
        ...

    def origin(self) -> object:
        """The current record, to come back to it later in the epoch."""
        ...

    def back_to(self, origin: object) -> None:
        """Make what `origin` gave the current record: errors name it from now on."""
        ...

    def processing_failed(self, node: str, error: Exception) -> None:
        """Ask the processing handler; returns if the node's record is to be dropped, else raises ProcessingError."""
        ...

    @property
    def application_id(self) -> str:
        """Of the application."""
        ...

    @property
    def app_configs(self) -> Mapping[str, object]:
        """See `ProcessingContext.app_configs`."""
        ...

    @property
    def task_id(self) -> str:
        """Of the task."""
        ...

    @property
    def stream_time_ms(self) -> int:
        """The greatest timestamp that the task has read, -1 before the first.

        Kept for tasks with processors, or stores with a time to live, only.
        """
        ...

    def is_global(self, name: str) -> bool:
        """Whether that is the store of a global table."""
        ...

    @property
    def punctuations(self) -> Punctuations:
        """What processors have scheduled."""
        ...

    @property
    def processors(self) -> dict[str, LivingProcessor]:
        """The processors of the user, by node; they live from epoch to epoch."""
        ...


class LivingProcessor(ABC):
    """A processor of the user, or a transformer, from its `init` to its `close`, which may be many epochs.

    Args:
        name: of its node.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def close(self) -> None:
        """The task leaves this process, or an attempt failed. Called outside of epochs.

        Raises:
            ProcessingError: `PROCESSOR_FAILED`.
        """


class Child(NamedTuple):
    """A child of a node; a sink has no operator."""

    name: str
    operator: Operator | None


class RowContext:
    """A node's access to its children and its task, valid for one epoch.

    A node reads the tables of nodes above it, so these are made before it, and a node before its children: they are
    connected when all are made.

    Args:
        name: of the node.
        env: the task.
        children: in the order they were added.
        tables: of the nodes made so far, by name.
        schemas: what the nodes of the task send, by name, where it is known: expressions see fields of these types.
        spill: takes over what caches hold back, if the epoch is too large for memory.
    """

    __slots__ = ("_nodes", "children", "env", "name", "schemas", "spill", "tables")

    def __init__(
        self,
        name: str,
        env: RowEnvironment,
        children: Sequence[Child],
        tables: Mapping[str, TableRows],
        schemas: Mapping[str, EdgeSchema] | None = None,
        spill: RowSpill | None = None,
    ) -> None:
        self.name = name
        self.spill = spill
        self.env = env
        self.children = children
        self._nodes: Sequence[RowNode] = ()
        self.tables = tables
        self.schemas = schemas or {}

    def connect(self, nodes: Sequence[RowNode]) -> None:
        """All nodes are made: these are the children."""
        self._nodes = nodes

    def forward(self, record: Record) -> None:
        """Run every child with the record, each to its full depth.

        An error in a child cuts off that child only, if the handler says so; its siblings run all the same.
        """
        for child in self._nodes:
            try:
                child.process(record)
            except Exception as error:  # user code may raise anything; the handler decides
                if not is_fault(error):
                    raise
                self.env.processing_failed(child.name, error)

    def forward_to(self, child: int, record: Record) -> None:
        """Run one child, by its position among the children."""
        node = self._nodes[child]
        try:
            node.process(record)
        except Exception as error:  # as in forward
            if not is_fault(error):
                raise
            self.env.processing_failed(node.name, error)

    def table(self, name: str) -> TableRows:
        """The rows of another node's table.

        Raises:
            UnknownStoreError: that node is no table that can be read.
        """
        try:
            return self.tables[name]
        except KeyError:
            raise UnknownStoreError("UNKNOWN_TABLE", f"node {name!r} has no rows to look up", node=self.name) from None


class RowNode(ABC):
    """One node in row form, made for one epoch.

    `process` is called for every record, then `flush` (nodes in the order they were added). Between epochs there is
    only what is in stores and clocks, and the processors of the user (`RowEnvironment.processors`).
    """

    def __init__(self, ctx: RowContext) -> None:
        self.name = ctx.name
        self.ctx = ctx

    @abstractmethod
    def process(self, record: Record) -> None:
        """Handle one record; what it sends on has been handled by all children when `forward` returns."""

    def flush(self) -> None:
        """End of the epoch: send on what a cache held back."""
        return

    def table_rows(self) -> TableRows | None:
        """How others read this node's table; `None` if it is no table, or one that may not be looked up."""
        return None


class OperatorRows(RowNode, Generic[Op]):
    """A node with one parent, whose operator says what it does."""

    def __init__(self, node: ProcessorNode, operator: Op, ctx: RowContext) -> None:
        super().__init__(ctx)
        self._parent = node.parents[0]
        self._operator = operator

    @property
    def edge(self) -> EdgeSchema | None:
        """What the parent sends, where it is known."""
        return self.ctx.schemas.get(self._parent)


class TableRows(Protocol):
    """A table as other nodes read it: never behind, whatever a cache holds back."""

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Value and timestamp of the row; `None` if there is none."""
        ...


class RowSpill(Protocol):
    """Keeps what the cache of one node holds back, on disk, until the end of the epoch.

    Implemented by `hayase.task`.
    """

    def attach(self, take: Callable[[], dict[Any, tuple[Record, object]]]) -> None:
        """`take` hands over, whenever it is called, the last update of each key since the call before, and its origin.

        In order of last update; `record.value` is a `Change` whose old value is that before the first of these updates.
        """
        ...

    def drain(self) -> Iterator[tuple[Record, object]]:
        """Each key's last update and its origin, in order of last update, with the old value from the epoch's start."""
        ...


class TableEmitter:
    """Sends a table's updates on: at once, or (cache on) once per key at the end of the epoch.

    With the cache on: the last new value, with the old value from the epoch's start, in the order of last update;
    a row that was made and removed within the epoch sends nothing (Kafka Streams' caching stores do the same).
    Keys must be hashable or are kept by their serialized bytes, which `key_bytes` gives. While an update is sent at the
    end, the record that made it is the current one: an error names it.
    """

    def __init__(self, ctx: RowContext, *, caching: bool, key_bytes: Callable[[Any], Any]) -> None:
        self._ctx = ctx
        self._key_bytes = key_bytes
        self._held: dict[object, tuple[Record, object, object]] | None = {} if caching else None
        self._origin = ctx.env.origin
        self._spill = ctx.spill if caching else None
        if self._spill is not None:
            self._spill.attach(self._take)

    def emit(self, record: Record, place: object = None) -> None:
        """Take an update: `record.value` is a `Change`, `new` and `old` both `None` if nothing is there and was not.

        `place` stands for what `key_bytes` gives, where it is known already.
        """
        held = self._held
        if held is None:
            self._ctx.forward(record)
            return
        if place is None:
            place = self._key_bytes(record.key)
        earlier = held.pop(place, None)
        held[place] = (record, record.value.old if earlier is None else earlier[1], self._origin())

    def _take(self) -> dict[object, tuple[Record, object]]:
        if not self._held:
            return {}
        held, self._held = self._held, {}
        return {
            place: (record if record.value.old is old else record.with_value(Change(record.value.new, old)), origin)
            for place, (record, old, origin) in held.items()
        }

    def flush(self) -> None:
        """Send what was held back."""
        if self._spill is not None:
            for record, origin in self._spill.drain():
                if record.value.new is not None or record.value.old is not None:
                    self._ctx.env.back_to(origin)
                    self._ctx.forward(record)
            return
        if not self._held:
            return
        held, self._held = self._held, {}
        for record, old, origin in held.values():
            new = record.value.new
            if new is not None or old is not None:
                self._ctx.env.back_to(origin)
                self._ctx.forward(record.with_value(Change(new, old)))
