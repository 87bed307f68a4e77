"""Views of the test driver's stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hayase.core.errors import UnknownStoreError
from hayase.state.stores.protocol import TaskState
from hayase.state.stores.views import open_read_only_view, with_interface
from hayase.task.time_to_live import live_store
from hayase.topology.topology import Topology


def open_view(topology: Topology, name: str, task_of: Callable[[str], TaskState]) -> Any:
    """A read-only view of a store, with its serdes; a custom store with its own interface.

    Raises:
        UnknownStoreError: the topology has no such store.
    """
    spec = topology.stores.get(name)
    if spec is None:
        raise UnknownStoreError(
            "UNKNOWN_STORE", f"the topology has no store {name!r}; it has {sorted(topology.stores)}", store=name
        )
    return with_interface(spec, open_read_only_view(spec, live_store(spec, task_of(name).store)))
