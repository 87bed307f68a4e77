"""`Stores`: stores that processors of yours use, and stores that operations make."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hayase.core.errors import TopologyError
from hayase.core.names import check_name
from hayase.core.windows import to_ms
from hayase.dsl.options.options import check_serde
from hayase.dsl.options.store_suppliers import VersionedStoreSupplier, WindowStoreSupplier, ttl_not_possible
from hayase.serde.protocol import Serde
from hayase.state.stores.spec import StoreInterface, StoreKind, StoreSpec, StoreType


class Stores:
    """Describes stores for `StreamsBuilder.add_state_store` and `Topology.add_state_store` (Kafka Streams' `Stores`).

    `persistent_…` describe stores that an operation makes, with serdes of its own.

    All can be queried while the application runs. Where one is kept, and whether it has a changelog from which it is
    restored where it is lost, is said by `store_type` (default: on disk) and `logging` (default: it has); what
    that means is with `Materialized.with_store_type` and `with_logging_disabled`.

    Example:
        >>> from hayase import Serdes
        >>> Stores.key_value_store("seen", Serdes.string(), Serdes.long()).name
        'seen'
    """

    @staticmethod
    def key_value_store(
        name: str,
        key_serde: Serde,
        value_serde: Serde,
        *,
        store_type: StoreType = StoreType.PERSISTENT,
        logging: bool = True,
    ) -> StoreSpec:
        """A store of keys and values, without timestamps. Kafka Streams' `Stores.keyValueStoreBuilder`.

        One store for each partition of the tasks that use it. `range` and `all` go by the bytes of the serialized key,
        which is the order of the keys only where the serde keeps it: `Serdes.string()` does, `Serdes.json()` does not.
        Putting `None` deletes. What a task writes is visible to queries, and restored after a crash, epoch by epoch.

        Args:
            name: of the store, unique in the topology.
            key_serde: of the keys. A key must always serialize to the same bytes.
            value_serde: of the values.
            store_type: where it is kept: on disk, or in memory with the same contents.
            logging: whether it has a changelog; without one it begins empty where its local files are lost.

        Raises:
            TopologyError: `INVALID_NAME`, `INVALID_SERDE`, `INVALID_STORE_TYPE`.

        Example:
            >>> from hayase import *
            >>> from hayase.testing import TopologyTestDriver
            >>> class LastTwo(Processor):
            ...     def init(self, context):
            ...         self.context, self.last = context, context.get_state_store("last")
            ...
            ...     def process(self, record):
            ...         self.context.forward(record.with_value(f"{self.last.get(record.key)}, {record.value}"))
            ...         self.last.put(record.key, record.value)
            >>> builder = StreamsBuilder()
            >>> _ = builder.add_state_store(Stores.key_value_store("last", Serdes.string(), Serdes.string()))
            >>> clicks = builder.stream("clicks", Consumed.with_(Serdes.string(), Serdes.string()))
            >>> clicks.process(LastTwo, "last").to("pairs", Produced.with_(Serdes.string(), Serdes.string()))
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     topic = driver.create_input_topic("clicks", Serdes.string(), Serdes.string())
            ...     topic.pipe_input("ada", "home")
            ...     topic.pipe_input("ada", "shop")
            ...     driver.store("last").get("ada")
            'shop'
        """
        return _kept(_spec(name, "key_value", key_serde, value_serde), store_type, logging)

    @staticmethod
    def timestamped_key_value_store(
        name: str,
        key_serde: Serde,
        value_serde: Serde,
        *,
        ttl: timedelta | None = None,
        store_type: StoreType = StoreType.PERSISTENT,
        logging: bool = True,
    ) -> StoreSpec:
        """As `key_value_store`, each value with a timestamp: it gives and takes `ValueAndTimestamp`.

        Args:
            name: of the store.
            key_serde: of the keys.
            value_serde: of the values.
            ttl: a row is there as long as the task's stream time (`ProcessingContext.current_stream_time_ms`) is less
                than its timestamp plus this; see `Materialized.with_ttl`. `None`: forever. Other kinds of stores have
                no such thing: those of windows, sessions and versions have a retention, and `key_value_store` has no
                timestamps.
            store_type: where it is kept.
            logging: whether it has a changelog; with a TTL it must have one.

        Raises:
            TopologyError: `INVALID_NAME`, `INVALID_DURATION`; `TTL_NOT_POSSIBLE`: without a changelog.

        Example:
            >>> from hayase import Serdes
            >>> Stores.timestamped_key_value_store("seen", Serdes.string(), Serdes.long(), ttl=timedelta(days=1)).ttl_ms
            86400000
        """
        spec = _spec(name, "timestamped_key_value", key_serde, value_serde)
        if ttl is not None:
            if not logging:
                raise ttl_not_possible(name, "its time is kept with changelogs, so it needs logging=True")
            spec = replace(spec, ttl_ms=to_ms("ttl", ttl, minimum_ms=1))
        return _kept(spec, store_type, logging)

    @staticmethod
    def window_store(
        name: str,
        key_serde: Serde,
        value_serde: Serde,
        *,
        window_size: timedelta,
        retention: timedelta,
        store_type: StoreType = StoreType.PERSISTENT,
        logging: bool = True,
    ) -> StoreSpec:
        """Values by key and start of a window.

        Args:
            name: of the store.
            key_serde: of the keys.
            value_serde: of the values.
            window_size: length of the windows, for the end of a window in what is read.
            retention: how long a window can be read after its start, in the store's own time (the latest start
                written).
            store_type: where it is kept.
            logging: whether it has a changelog.

        Raises:
            TopologyError: the retention is shorter than a window.
        """
        spec = _windows("window", name, key_serde, value_serde, window_size, retention)
        return _kept(spec, store_type, logging)

    @staticmethod
    def timestamped_window_store(
        name: str,
        key_serde: Serde,
        value_serde: Serde,
        *,
        window_size: timedelta,
        retention: timedelta,
        store_type: StoreType = StoreType.PERSISTENT,
        logging: bool = True,
    ) -> StoreSpec:
        """As `window_store`, each value with a timestamp: it gives and takes `ValueAndTimestamp`."""
        spec = _windows("timestamped_window", name, key_serde, value_serde, window_size, retention)
        return _kept(spec, store_type, logging)

    @staticmethod
    def session_store(
        name: str,
        key_serde: Serde,
        value_serde: Serde,
        *,
        retention: timedelta,
        store_type: StoreType = StoreType.PERSISTENT,
        logging: bool = True,
    ) -> StoreSpec:
        """Values by key and session, from its start to its end.

        Args:
            name: of the store.
            key_serde: of the keys.
            value_serde: of the values.
            retention: how long a session can be read after its end, in the store's own time (the latest end written).
            store_type: where it is kept.
            logging: whether it has a changelog.
        """
        retention_ms = to_ms("retention", retention, minimum_ms=1)
        return _kept(_spec(name, "session", key_serde, value_serde, retention_ms), store_type, logging)

    @staticmethod
    def versioned_key_value_store(
        name: str,
        key_serde: Serde,
        value_serde: Serde,
        *,
        history_retention: timedelta,
        segment_interval: timedelta | None = None,
        store_type: StoreType = StoreType.PERSISTENT,
        logging: bool = True,
    ) -> StoreSpec:
        """Keys and values, and what the values were (KIP-889): `put(key, value, timestamp_ms)`, `get(key, as_of_ms)`.

        Args:
            name: of the store.
            key_serde: of the keys.
            value_serde: of the values.
            history_retention: how long what was is kept, in the store's own time (the greatest timestamp written).
            segment_interval: see `persistent_versioned_key_value_store`.
            store_type: where it is kept.
            logging: whether it has a changelog.

        Raises:
            TopologyError: `INVALID_NAME`, `INVALID_DURATION`.
        """
        supplier = Stores.persistent_versioned_key_value_store(name, history_retention, segment_interval)
        spec = _spec(name, "versioned_key_value", key_serde, value_serde, supplier.history_ms)
        return _kept(replace(spec, segment_interval_ms=supplier.segment_interval_ms), store_type, logging)

    @staticmethod
    def custom_store(interface: StoreInterface, over: StoreSpec) -> StoreSpec:
        """A store with an interface of your own (Kafka Streams' custom `StateStore`), kept as one of the others.

        What is written through it is state as any other: part of the epoch, with changelog, restore, history and
        followers.

        Args:
            interface: called with the store that `over` describes; what it returns is what `get_state_store` gives to a
                processor. A class whose `__init__` takes the store is one. It is called once for each processor and
                epoch, so what is to last must be in the store. Of processors that a global store is not written by, of
                the test driver and of `QueriedStore.interface()` it gets the store without the methods that write.
            over: the store that keeps it, and its name; from any of the functions here that take serdes.

        Raises:
            TopologyError: `INVALID_STORE`: `interface` cannot be called, or `over` is not a store, or a custom one.

        Not guaranteed: that built-in queries and `StreamsApp.store` say anything useful: they see the store that keeps
        it.

        Example:
            >>> from hayase import Serdes
            >>> class Counters:
            ...     def __init__(self, store):
            ...         self._store = store
            ...
            ...     def add(self, name, number=1):
            ...         self._store.put(name, self.read(name) + number)
            ...
            ...     def read(self, name):
            ...         return self._store.get(name) or 0
            >>> Stores.custom_store(Counters, Stores.key_value_store("visits", Serdes.string(), Serdes.long())).name
            'visits'
        """
        if not callable(interface):
            raise TopologyError(
                "INVALID_STORE", f"the interface of a custom store is called with it; {interface!r} is not"
            )
        if not isinstance(over, StoreSpec) or over.interface is not None:
            raise TopologyError(
                "INVALID_STORE",
                f"a custom store is kept in one that Stores.key_value_store(…) and its like describe, not in {over!r}",
            )
        return replace(over, interface=interface)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention: timedelta, segment_interval: timedelta | None = None
    ) -> VersionedStoreSupplier:
        """A versioned store for a table: `Materialized.as_(…)` makes the table versioned (KIP-889, KIP-914).

        Args:
            name: of the store.
            history_retention: how long what was is kept, in the store's own time (the greatest timestamp written). An
                update that is older is refused and counted as a dropped record.
            segment_interval: what has expired is deleted by so much time at once; by default 1/3 to 1/24 of the
                history.

        Raises:
            TopologyError: `INVALID_NAME`, `INVALID_DURATION`.

        Example:
            >>> Stores.persistent_versioned_key_value_store("prices", timedelta(minutes=10)).history_ms
            600000
        """
        interval_ms = None if segment_interval is None else to_ms("segment_interval", segment_interval, minimum_ms=1)
        return VersionedStoreSupplier(check_name(name), to_ms("history_retention", history_retention), interval_ms)

    @staticmethod
    def persistent_window_store(
        name: str, retention_period: timedelta, window_size: timedelta, *, retain_duplicates: bool
    ) -> WindowStoreSupplier:
        """A window store for `StreamJoined`.

        Args:
            name: of the store.
            retention_period: how long a record is kept: for a join before plus after plus grace of its window.
            window_size: how long a window is: for a join before plus after.
            retain_duplicates: whether several values of one key and start are kept; a join needs that.

        Raises:
            TopologyError: `INVALID_NAME`, `INVALID_DURATION`, `RETENTION_TOO_SHORT`.

        Example:
            >>> Stores.persistent_window_store(
            ...     "views", timedelta(hours=3), timedelta(hours=2), retain_duplicates=True
            ... ).retention_ms
            10800000
        """
        size_ms, retention_ms = to_ms("window_size", window_size), to_ms("retention_period", retention_period)
        _check_retention(name, size_ms, retention_ms)
        return WindowStoreSupplier(check_name(name), retention_ms, size_ms, retain_duplicates)


def _kept(spec: StoreSpec, store_type: StoreType, logging: bool) -> StoreSpec:
    if store_type not in list(StoreType):
        raise TopologyError("INVALID_STORE_TYPE", f"the type of store {spec.name!r} is {store_type!r}; see StoreType")
    return replace(spec, store_type=StoreType(store_type), logging=logging)


def _windows(
    kind: StoreKind, name: str, key_serde: Serde, value_serde: Serde, size: timedelta, retention: timedelta
) -> StoreSpec:
    size_ms, retention_ms = to_ms("window_size", size, minimum_ms=1), to_ms("retention", retention, minimum_ms=1)
    _check_retention(name, size_ms, retention_ms)
    return _spec(name, kind, key_serde, value_serde, retention_ms, size_ms)


def _check_retention(name: str, size_ms: int, retention_ms: int) -> None:
    if retention_ms < size_ms:
        raise TopologyError(
            "RETENTION_TOO_SHORT",
            f"the retention of store {name!r} is {retention_ms} ms; a window is {size_ms} ms long",
        )


def _spec(
    name: str,
    kind: StoreKind,
    key_serde: Serde,
    value_serde: Serde,
    retention_ms: int | None = None,
    size_ms: int | None = None,
) -> StoreSpec:
    key, value = check_serde(key_serde, f"key_serde of {name!r}"), check_serde(value_serde, f"value_serde of {name!r}")
    if key is None or value is None:
        raise TopologyError("INVALID_SERDE", f"store {name!r} needs a key_serde and a value_serde")
    return StoreSpec(check_name(name), kind, key, value, retention_ms, size_ms, caching=False)
