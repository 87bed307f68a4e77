"""Where the rows of a table can be read while the topology is being built, and whether its updates carry old values."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from hayase.state.stores.spec import StoreSpec

if TYPE_CHECKING:
    from hayase.dsl.graph import Graph


class TableMaterialization:
    """Where the rows of a table can be read: its own store, or its parent's through the node's function.

    Args:
        graph: of the topology.
        spec: the store it keeps, or would keep if it is read.
        parent: the table it is computed from, if it need not keep rows itself.
        keep: whether it keeps a store in any case.

    Attributes:
        store: name of the store it keeps, if any.
        old_values: its updates carry the old value.
    """

    def __init__(self, graph: Graph, spec: StoreSpec | None, parent: TableMaterialization | None, keep: bool) -> None:
        self._graph = graph
        self._spec = spec
        self._parent = parent
        self.store: str | None = None
        self.old_values = False
        if keep and spec is not None:
            self._keep(spec)

    def _keep(self, spec: StoreSpec) -> str:
        self.store = self._graph.store(spec)
        return self.store

    @property
    def history_ms(self) -> int | None:
        """Of a versioned table, how long what its rows were is kept; `None` of others."""
        if self.store is not None:
            return self._spec.retention_ms if self._spec is not None and self._spec.versioned else None
        return None if self._parent is None else self._parent.history_ms

    @property
    def forgets(self) -> bool:
        """Whether it, or a table it is computed from, has a time to live.

        Then not every row that goes is taken back.
        """
        own = self._spec is not None and self._spec.ttl_ms is not None
        return own or (self._parent is not None and self._parent.forgets)

    def stores_to_read(self) -> tuple[str, ...]:
        """The stores that hold the rows; a table that could keep rows but does not begins to."""
        if self.store is not None:
            return (self.store,)
        if self._parent is not None:
            return self._parent.stores_to_read()
        return () if self._spec is None else (self._keep(self._spec),)

    def send_old_values(self, *, force: bool = False) -> bool:
        """Let the updates carry old values if that needs no further store; whether they do.

        As in Kafka Streams this looks at the stores that are there when it is called: one that a later join
        adds does not count. With `force` the table they come from begins to keep its rows, so that they always do.
        """
        if force and self.store is None and self._parent is None and self._spec is not None:
            self._keep(self._spec)
        if self.store is not None or (self._parent is not None and self._parent.send_old_values(force=force)):
            self.old_values = True
        return self.old_values

    def uncache(self) -> None:
        """Let every update of what is stored be passed on at once."""
        if self._spec is not None:
            self._spec = dataclasses.replace(self._spec, caching=False)
        if self.store is not None:
            self._graph.uncache(self.store)
        elif self._parent is not None:
            self._parent.uncache()


class JoinView(TableMaterialization):
    """Where the rows of a join of two tables can be read: its own store, or those of both tables."""

    def __init__(
        self, graph: Graph, spec: StoreSpec | None, left: TableMaterialization, right: TableMaterialization
    ) -> None:
        super().__init__(graph, spec, None, keep=spec is not None)
        self._sides = left, right

    @property
    def forgets(self) -> bool:
        """See TableMaterialization."""
        return super().forgets or any(side.forgets for side in self._sides)

    def stores_to_read(self) -> tuple[str, ...]:
        """See TableMaterialization."""
        if self.store is not None:
            return (self.store,)
        return tuple(dict.fromkeys(name for side in self._sides for name in side.stores_to_read()))

    def send_old_values(self, *, force: bool = False) -> bool:
        """See TableMaterialization; a join always can, as both tables keep their rows.

        Both are asked for old values, even if the join has a store of its own (`KTableKTableJoinMerger`): a filter that
        knows the old value drops needless deletions. Its old result is the one with the other side's row as it is now,
        which is right because every update of both sides is passed on: with caches a result would be named that was
        never sent (KAFKA-4609).
        """
        if not self.old_values:
            for side in self._sides:
                side.send_old_values(force=True)
        self.old_values = True
        return True

    def uncache(self) -> None:
        """See TableMaterialization."""
        if self.store is not None:
            super().uncache()
            return
        for side in self._sides:
            side.uncache()


class SuppressView(TableMaterialization):
    """Where the rows of a suppressed table can be read: in its buffer what was sent last, else its parent's."""

    def __init__(self, graph: Graph, parent: TableMaterialization, buffer: str) -> None:
        super().__init__(graph, None, parent, keep=False)
        self._buffer = buffer

    def stores_to_read(self) -> tuple[str, ...]:
        """See TableMaterialization."""
        return (self._buffer, *super().stores_to_read())
