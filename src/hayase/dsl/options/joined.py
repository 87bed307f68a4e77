"""`Joined` and `TableJoined`: options of joins with tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Generic

from hayase.core.names import check_name
from hayase.core.type_variables import KN, KR, VN, VON, VR, K, K_co, V_co, VO_co
from hayase.core.windows import to_ms
from hayase.dsl import functions
from hayase.dsl.options.options import NamedSerdes, check_serde, name_of
from hayase.serde.protocol import Serde

KeyPartitioner = Callable[[str, K, None, int], int | Collection[int] | None]
"""The partition of a row by its key: `(topic, key, None, partitions)`; `None`: that of Kafka's default."""


@dataclass(frozen=True, slots=True)
class JoinSerdes(NamedSerdes[K_co, V_co], Generic[K_co, V_co, VO_co]):
    """The common options of joins: serdes of the keys and of the values of both sides, and a name."""

    other_value_serde: Serde[VO_co] | None = None

    def with_other_value_serde(self, serde: Serde) -> JoinSerdes[K_co, V_co, object]:
        """A copy with another serde of the right values."""
        return dataclasses.replace(self, other_value_serde=check_serde(serde, "other_value_serde"))


@dataclass(frozen=True, slots=True)
class Joined(JoinSerdes[K_co, V_co, VO_co]):
    """Options of a stream-table join: serdes, a name, and a grace period. Kafka Streams' `Joined`.

    The serdes serve the repartition of the stream, and its buffer, if it needs one.

    Attributes:
        other_value_serde: of the table's values.
        grace_ms: how long records wait for rows that come late; `None`: not at all.
    """

    grace_ms: int | None = None

    @classmethod
    def with_(
        cls,
        key_serde: Serde[KN] | None = None,
        value_serde: Serde[VN] | None = None,
        other_value_serde: Serde[VON] | None = None,
        name: str | None = None,
        grace_period: timedelta | None = None,
    ) -> Joined[KN, VN, VON]:
        """Options of a stream-table join, all at once; what is left out comes from the stream and the table.

        Args:
            key_serde: of the keys of both sides.
            value_serde: of the stream's values.
            other_value_serde: of the table's values.
            name: of the repartition of the stream, if there is one, and of the join's nodes.
            grace_period: how long records of the stream wait, in stream time, for rows that come late (KIP-923); needs
                a versioned table whose history is at least as long. `None`: they do not wait.

        Raises:
            TopologyError: `INVALID_SERDE`, `INVALID_NAME`, `INVALID_DURATION`.

        Example:
            >>> from datetime import timedelta
            >>> Joined.with_(name="orders-and-users", grace_period=timedelta(seconds=5)).grace_ms
            5000
        """
        return Joined(
            check_serde(key_serde, "key_serde"),
            check_serde(value_serde, "value_serde"),
            name_of(name),
            check_serde(other_value_serde, "other_value_serde"),
            None if grace_period is None else to_ms("grace_period", grace_period),
        )

    def with_grace_period(self, grace_period: timedelta) -> Joined[K_co, V_co, VO_co]:
        """A copy with a grace period: records wait for rows of the versioned table that come late (KIP-923).

        A record is joined as soon as a record of the stream is processed whose timestamp is greater by the grace period
        or more; records of the table do not count. What is due comes by time, then by the bytes of the key, then in the
        order of arrival; a record that is late by more than the grace period is joined at once, and so is one with a
        null key (left joins). The table must be versioned, with a history that is not shorter.

        Example:
            >>> from datetime import timedelta
            >>> Joined().with_grace_period(timedelta(seconds=5)).grace_ms
            5000
        """
        return dataclasses.replace(self, grace_ms=to_ms("grace_period", grace_period))

    if TYPE_CHECKING:

        def with_key_serde(self, serde: Serde[KR]) -> Joined[KR, V_co, VO_co]:
            """A copy with another key serde."""

        def with_value_serde(self, serde: Serde[VR]) -> Joined[K_co, VR, VO_co]:
            """A copy with another value serde."""

        def with_other_value_serde(self, serde: Serde[VR]) -> Joined[K_co, V_co, VR]:
            """A copy with another serde of the right values."""


@dataclass(frozen=True, slots=True)
class TableJoined:
    """Options of a foreign-key join of two tables: partitioners and a name. Kafka Streams' `TableJoined`.

    A partitioner is `(topic, key, None, partitions)` and gives a number, or `None` for the partition of the key; needed
    where a table's topic is not partitioned by Kafka's default.

    Attributes:
        partitioner: where rows of the left table are, by its key; `None`: where they were read.
        other_partitioner: where rows of the right table are, by its key; `None`: Kafka's default.
        name: begins the names of all nodes and internal topics of the join.
    """

    partitioner: KeyPartitioner | None = None
    other_partitioner: KeyPartitioner | None = None
    name: str | None = None

    @classmethod
    def with_(
        cls,
        partitioner: KeyPartitioner | None = None,
        other_partitioner: KeyPartitioner | None = None,
        name: str | None = None,
    ) -> TableJoined:
        """Options of a foreign-key join, all at once; see the class.

        Raises:
            TopologyError: `INVALID_NAME`, `INVALID_FUNCTION`: a partitioner of other parameters.

        Example:
            >>> TableJoined.with_(name="orders-and-users").name
            'orders-and-users'
        """
        form = "(topic, key, None, partitions)"
        for function in (partitioner, other_partitioner):
            if function is not None:
                functions.callable_of(function, 4, "a partitioner of TableJoined", form)
        return cls(partitioner, other_partitioner, name_of(name))

    @classmethod
    def as_(cls, name: str) -> TableJoined:
        """Options with a name and nothing else."""
        return cls(name=check_name(name))
