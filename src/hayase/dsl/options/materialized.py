"""`Materialized`: how the rows of a table are kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from hayase.core.errors import TopologyError
from hayase.core.names import check_name
from hayase.core.type_variables import KN, KR, VN, VR, K_co, V_co
from hayase.core.windows import to_ms
from hayase.dsl.options.options import OptionalSerdes, check_serde
from hayase.dsl.options.store_suppliers import VersionedStoreSupplier
from hayase.serde.protocol import Serde
from hayase.state.stores.spec import StoreType


@dataclass(frozen=True, slots=True)
class Materialized(OptionalSerdes[K_co, V_co]):
    """Options of a table's store: name, serdes, caching, retention, changelog. Kafka Streams' `Materialized`.

    Attributes:
        name: of the store; a named store can be queried. `None`: a generated name, and stateless operations on tables
            keep no store.
        key_serde: `None`: the input's.
        value_serde: `None`: `Serdes.long()` for a count, the fields' for built-in aggregates, the input's for a reduce,
            else what the function's return annotation says, else `default.value.serde`, else JSON.
        caching: updates of one key are passed on once an epoch (default) instead of one by one.
        retention_ms: window stores: how long windows are kept; at least size plus grace, which is the default.
        logging: whether the store has a changelog; without one it is empty again where it is lost.
        store_type: on disk or in memory; `None`: the setting `dsl.store.suppliers.class` or `default.dsl.store`, else
            disk.
        versioned: the versioned store that it was made of.
        ttl_ms: how long a row is there after its timestamp; `None`: forever.
    """

    name: str | None = None
    caching: bool = True
    retention_ms: int | None = None
    logging: bool = True
    store_type: StoreType | None = None
    versioned: VersionedStoreSupplier | None = None
    ttl_ms: int | None = None

    @classmethod
    def as_(cls, name: str | StoreType | VersionedStoreSupplier) -> Self:
        """A named store; one of that type with a generated name; or a versioned one, which makes the table versioned.

        A versioned table knows what its rows were. Its latest row is the one with the greatest timestamp, not the one
        that came last; joins and aggregations take no notice of what comes out of order, and a join with a stream looks
        up the row that was valid at the record's timestamp (KIP-914). All tables can be versioned but global and
        windowed ones; filters and `map_values` of a versioned table are versioned without a store of their own. An
        update of an aggregate or a join whose timestamp is older than the history of its own store is refused and
        counted as a dropped record. There is no cache: every update is passed on.

        Example:
            >>> from datetime import timedelta
            >>> from hayase import Stores
            >>> Materialized.as_(Stores.persistent_versioned_key_value_store("prices", timedelta(hours=1))).name
            'prices'
        """
        if isinstance(name, VersionedStoreSupplier):
            return cls(name=name.name, store_type=StoreType.PERSISTENT, versioned=name)
        return cls(store_type=name) if isinstance(name, StoreType) else cls(name=check_name(name))

    @classmethod
    def with_(cls, key_serde: Serde[KN] | None = None, value_serde: Serde[VN] | None = None) -> Materialized[KN, VN]:
        """Serdes of the store, with a generated name: the store cannot be queried.

        Args:
            key_serde: of the keys; `None`: that of the stream or table, else the default.
            value_serde: of the stored values; `None`: as far as the operation knows them, else the default.

        Raises:
            TopologyError: `INVALID_SERDE`.

        Example:
            >>> from hayase import Serdes
            >>> Materialized.with_(Serdes.string(), Serdes.long()).name is None
            True
        """
        return Materialized(
            key_serde=check_serde(key_serde, "key_serde"), value_serde=check_serde(value_serde, "value_serde")
        )

    def with_caching_enabled(self) -> Materialized[K_co, V_co]:
        """A copy with a cache: in each epoch only the last update of a key is sent on."""
        return dataclasses.replace(self, caching=True)

    def with_caching_disabled(self) -> Materialized[K_co, V_co]:
        """A copy without a cache: every update is sent on."""
        return dataclasses.replace(self, caching=False)

    def with_retention(self, retention: timedelta) -> Materialized[K_co, V_co]:
        """A copy with another retention: how long a window or session store keeps windows.

        A window is kept until the task's stream time is `retention` beyond its start (of a session: its end); until
        then queries and joins find it. Retention does not accept late records: that is the grace of the windows. By
        default windows are kept for window size plus grace, sliding windows for twice the time difference plus grace,
        sessions for inactivity gap plus grace. Expired windows are removed bit by bit, and nothing is sent. Kafka
        Streams' `Materialized.withRetention`.

        Args:
            retention: in whole milliseconds; at least the default.

        Raises:
            TopologyError: `INVALID_DURATION`; and from the aggregation `INVALID_RETENTION`: less than the default.

        Example:
            >>> from datetime import timedelta
            >>> Materialized.as_("counts").with_retention(timedelta(days=1)).retention_ms
            86400000
        """
        return dataclasses.replace(self, retention_ms=to_ms("retention", retention))

    def with_ttl(self, ttl: timedelta) -> Materialized[K_co, V_co]:
        """A copy with a time to live: rows expire that long after their last update. Not in Kafka Streams.

        A row is there as long as the stream time of its task (the greatest timestamp that the task has read, from
        whatever topic) is less than the row's timestamp plus `ttl`. From then on it is hidden: neither the operation
        that keeps it, for which its key is new again, nor joins, nor queries. An aggregate begins again with its
        initializer. By event time alone: without records nothing expires, one record from the future makes all rows
        expire at once, and one that is already too old when it comes leaves no row to be seen. So what an application
        gives does not depend on when it ran, where the input was cut into epochs, or whether it had to be restored. The
        timestamp of an aggregate is the greatest of its records'.

        Nothing is sent when a row expires: what was sent before stands, and tables made of it keep what they have,
        unless they have a time to live of their own. There is no cache: every update is passed on. Where there is a
        time to live, tasks run in rows. Expired rows are removed bit by bit as epochs go by, so
        `approximate_num_entries` may count some of them. It may be changed, added or left out at any start: what counts
        is the time to live of the program that runs.

        Raises:
            TopologyError: `INVALID_DURATION`; and where the store is made `TTL_NOT_POSSIBLE`: windows, sessions and
                versioned tables forget by their retention; a global table has no stream time; the groups of a grouped
                table must not forget what is taken out of them later, nor must a table that is grouped; a store without
                changelog has none to remember its time.

        Example:
            >>> from hayase import *
            >>> from hayase.testing import TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> visits = builder.stream("visits", Consumed.with_(Serdes.string(), Serdes.string())).group_by_key()
            >>> _ = visits.count(Materialized.as_("recent").with_ttl(timedelta(minutes=30)))
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     topic = driver.create_input_topic("visits", Serdes.string(), Serdes.string())
            ...     for user, minute in [("ada", 0), ("ada", 20), ("bob", 49), ("bob", 50)]:
            ...         topic.pipe_input(user, "page", timestamp_ms=minute * 60_000)
            ...         print(driver.store("recent").get("ada"))
            ValueAndTimestamp(value=1, timestamp_ms=0)
            ValueAndTimestamp(value=2, timestamp_ms=1200000)
            ValueAndTimestamp(value=2, timestamp_ms=1200000)
            None
        """
        return dataclasses.replace(self, ttl_ms=to_ms("ttl", ttl, minimum_ms=1))

    def with_store_type(self, store_type: StoreType) -> Materialized[K_co, V_co]:
        """A copy whose store is kept on disk or in memory (KIP-591); the type may be its name as text.

        What is in memory lasts as long as the application runs, and takes memory of every machine that works on it
        (`state.memory.dir`). With a changelog (the default) it is restored at every start. Stores of one
        sub-topology that have changelogs lie together, because their epochs are one transaction: in memory if all of
        them are to be there, else on disk.

        Raises:
            TopologyError: `INVALID_STORE_TYPE`.

        Example:
            >>> Materialized.as_("sessions").with_store_type(StoreType.IN_MEMORY).store_type
            <StoreType.IN_MEMORY: 'in_memory'>
        """
        if store_type not in list(StoreType):
            allowed = ", ".join(f"StoreType.{each.name}" for each in StoreType)
            raise TopologyError("INVALID_STORE_TYPE", f"the type of a store is {store_type!r}; allowed are {allowed}")
        return dataclasses.replace(self, store_type=StoreType(store_type))

    def with_logging_enabled(self, config: Mapping[str, str] | None = None) -> Materialized[K_co, V_co]:
        """A copy whose store has a changelog, which is the default.

        Args:
            config: must be empty. In Kafka Streams these are settings of the changelog's topic; here the changelog
                is in the checkpoint, and `state.history.retention.ms` says how long it is kept.

        Raises:
            TopologyError: `CHANGELOG_IS_NO_TOPIC`.
        """
        if config:
            raise TopologyError(
                "CHANGELOG_IS_NO_TOPIC",
                f"with_logging_enabled got {dict(config)!r}, settings of a topic; a changelog is kept in "
                "checkpoint.dir and is no topic. Leave them out; state.history.retention.ms says how long older "
                "epochs stay",
            )
        return dataclasses.replace(self, logging=True)

    def with_logging_disabled(self) -> Materialized[K_co, V_co]:
        """A copy whose store has no changelog: a lost store begins empty, as in Kafka Streams.

        It is lost when its machine is, when it was in memory and the application has stopped, when its tasks move to
        another machine, and when an epoch has to be finished that another attempt had begun. What was sent before
        stands, and is not sent again. No followers have it, and it cannot be read as of an older epoch. Nothing is
        lost while all goes well, nor by a restart on the same machine if the store is on disk.
        Without effect on a global table: its topic is its changelog.
        """
        return dataclasses.replace(self, logging=False)

    if TYPE_CHECKING:

        def with_key_serde(self, serde: Serde[KR]) -> Materialized[KR, V_co]:
            """A copy with another key serde."""

        def with_value_serde(self, serde: Serde[VR]) -> Materialized[K_co, VR]:
            """A copy with another value serde."""
