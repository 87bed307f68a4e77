"""Stores with a time to live: what readers see of them, and bounded work that makes room again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hayase.state.stores.protocol import ByteStore, TaskState
from hayase.state.stores.spec import StoreSpec
from hayase.state.stores.ttl_store import TtlStore
from hayase.task.clocks import CLOCK_STORE, task_stream_time

_LEAST = 1000
_PER_WRITE = 2
_PIECE = 50_000


def live_store(spec: StoreSpec, store_of: Callable[[str], ByteStore]) -> ByteStore:
    """A store as it is read between two epochs.

    Args:
        spec: what it is.
        store_of: the stores of its task, as they are in one and the same epoch.
    """
    data = store_of(spec.name)
    if spec.ttl_ms is None:
        return data
    stream_time_ms = task_stream_time(store_of(CLOCK_STORE))
    return TtlStore(data, spec.ttl_ms, lambda: stream_time_ms)


def remove_expired(state: TaskState, stores: Mapping[str, TtlStore], after_piece: Callable[[], None]) -> None:
    """Delete some of the rows that have expired: called at the end of an epoch, goes on where the last one stopped.

    It looks at two rows for each row that the epoch wrote, at least at 1000, so that however much is written, a store
    holds about as many rows again as are alive, and no epoch goes through all of it.

    Args:
        state: of the task; its clocks remember where each store's turn goes on.
        stores: by name.
        after_piece: called from time to time: time to spill, perhaps.
    """
    clock_store = state.store(CLOCK_STORE)
    for name, store in stores.items():
        if store.expired_until_ms < 0:
            continue
        key = f"time-to-live/{name}".encode()
        before = clock_store.get(key) or b""
        cursor, left, around = before, max(_LEAST, _PER_WRITE * store.writes), not before
        while left > 0:
            cursor, seen = store.remove_expired(cursor, min(left, _PIECE))
            left -= seen
            if not cursor and around:
                break
            around = around or not cursor
            if seen == _PIECE:
                after_piece()
        if cursor != before:
            clock_store.put(key, cursor or None)
