"""The stores of an application, read: as they are, as they were, several at one epoch, and by queries."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from hayase.app.store_schemas import check_readable
from hayase.compiler.options import configured
from hayase.core.config import StreamsConfig
from hayase.core.type_variables import R
from hayase.query.access import History, PinnedStores, StoreAccess
from hayase.query.request import StateQueryRequest, StateQueryResult
from hayase.query.stores import StoreHandle
from hayase.storage.open import open_blobs
from hayase.topology.topology import Topology


class StoreReading:
    """The part of `StreamsApp` that reads stores, from checkpoint and state folder, without the run."""

    config: StreamsConfig
    topology: Topology

    def store(self, name: str, *, as_of_epoch: int | None = None, as_of: datetime | int | None = None) -> StoreHandle:
        """A store to read, whether the application runs here, elsewhere, or not at all.

        Until the first epoch is complete it is empty.

        As of an older epoch its state is built, from snapshots and deltas in the checkpoint, in a folder of its own
        beside the current one, which takes time and room; the last few are kept there. How old it may be: at least
        `state.history.retention.ms`, and back to the last snapshot; `history` tells.

        Args:
            name: of the store.
            as_of_epoch: as it was after that epoch; without it and `as_of` every call sees the last finished one.
            as_of: as it was after the last epoch that was begun at or before that time, by the wall clock of the
                machine that planned it (not the time of events); an aware datetime, or milliseconds since 1970.

        Raises:
            UnknownStoreError: the topology has no store of that name.
            CheckpointError: `STORE_SCHEMA_CHANGED`: the checkpoint holds keys or values that this topology cannot read.
            StateError: `NO_STATE`: the application never started with these settings; `HISTORY_GONE`,
                `TIME_BEFORE_HISTORY`: too long ago, says what is the oldest epoch; `NAIVE_DATETIME`;
                `STORE_NOT_LOGGED`: it has no changelog and therefore no past. From the calls of the handle
                `STATE_NOT_THERE`: also of a store in memory while the application does not run.
            ConfigError: `INVALID_AS_OF`: the epoch is not complete yet, or both were given.
        """
        if as_of_epoch is None and as_of is None:  # older values may have been written before a migration
            self._check_readable(name)
        return self._access().store(name, as_of_epoch=as_of_epoch, as_of=as_of)

    def query(self, request: StateQueryRequest[R]) -> StateQueryResult[R]:
        """Query a store, partition by partition (Kafka Streams' `KafkaStreams.query`, KIP-796).

        Partitions are read after one and the same epoch where that can be had, as `store(...).all()` does; each result
        has its position, which bounds the next query: to see at least what this one saw, in this store or another.
        Unlike in Kafka Streams global stores can be asked too, and whatever runs on the machine can ask, running
        application or not.

        Raises:
            UnknownStoreError: the topology has no store of that name.
            StateError: `NO_STATE`: the application never started with these settings; `FOREIGN_STATE`. What goes wrong
                in one partition is in its result.

        Example:
            >>> request = StateQueryRequest.in_store("totals").with_query(KeyQuery.with_key("ada"))  # doctest: +SKIP
            >>> app.query(request).only_partition_result.result  # doctest: +SKIP
            {'n': 3}
        """
        self._check_readable(request.store)
        return self._access().query(request)

    def pin(
        self,
        *names: str,
        as_of_epoch: int | None = None,
        as_of: datetime | int | None = None,
        max_time: timedelta = timedelta(seconds=10),
    ) -> AbstractContextManager[PinnedStores]:
        """Several stores, all their partitions after one and the same epoch, for as long as a `with` lasts.

        Pins a snapshot of each partition; if their epochs differ, for the application is in mid-epoch, it tries again
        for half a second, then takes those of a follower. Single calls on `store(...)` handles make no such promise
        between calls. Use it in one thread, and keep it short: what it sees cannot be overwritten meanwhile.

        Args:
            names: of the stores.
            as_of_epoch: see `store`.
            as_of: see `store`.
            max_time: reading longer is an error (`SCAN_TOO_LONG`).

        Raises:
            StateError: `EPOCHS_DIFFER`: it was not possible, and there is no follower that is far enough; what `store`
                raises.
            UnknownStoreError, ConfigError: as `store`.

        Example:
            >>> with app.pin("orders", "totals") as pinned:  # doctest: +SKIP
            ...     print(pinned.epoch, pinned.store("totals").get("ada").value, len(pinned.store("orders").all()))
        """
        for name in names if as_of_epoch is None and as_of is None else ():
            self._check_readable(name)
        return self._access().pin(names, as_of_epoch=as_of_epoch, as_of=as_of, max_seconds=max_time.total_seconds())

    def history(self, name: str) -> History:
        """The epochs at which a store can be opened with `as_of_epoch`.

        Raises:
            UnknownStoreError, StateError: as `store`.
        """
        return self._access().history(name)

    def _check_readable(self, name: str) -> None:
        """Once for each store: a program of other serdes would read nonsense."""
        readable: set[str] = self.__dict__.setdefault("_readable_stores", set())
        if name in readable:
            return
        blobs = open_blobs(self.config.checkpoint_dir, fsync=False)
        check_readable(blobs, configured(self.topology, self.config), name)
        readable.add(name)

    def _access(self) -> StoreAccess:
        return StoreAccess(self.topology, self.config)
