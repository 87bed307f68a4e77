"""Option objects of the DSL: Kafka Streams' own, immutable; each `with_…` gives a changed copy.

Operations take them where Kafka Streams takes them. The one exception is `Named`, which holds nothing but a name:
every operation that makes one node has the keyword `name=`, and that takes a string (or a `Named`, for ported code).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from hayase.core.errors import TopologyError
from hayase.core.names import check_name
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.type_variables import KN, KR, VN, VR, K, K_co, T, V, V_co
from hayase.dsl import functions
from hayase.processor.timestamps import ConsumedRecord, TimestampExtractor, callable_timestamp
from hayase.serde.protocol import Serde
from hayase.topology.nodes import Partitioner

Reset = AutoOffsetReset | Literal["earliest", "latest", "none"]
Extractor = TimestampExtractor | Callable[[ConsumedRecord, int], int]


@dataclass(frozen=True, slots=True)
class Named:
    """The name of one node."""

    name: str

    @classmethod
    def as_(cls, name: str) -> Named:
        """A name: 1 to 249 ASCII letters, digits, `.`, `_`, `-`."""
        return cls(check_name(name))


def name_of(name: str | Named | None) -> str | None:
    """The checked name in either spelling."""
    if name is None:
        return None
    return check_name(name.name if isinstance(name, Named) else name)


def check_serde(serde: Serde[T] | None, what: str) -> Serde[T] | None:
    """The serde, if it is one.

    Raises:
        TopologyError: `INVALID_SERDE`.
    """
    if serde is not None and not isinstance(serde, Serde):
        raise TopologyError(
            "INVALID_SERDE",
            f"{what} is {serde!r}; it must be a Serde, for example Serdes.string() or JsonSerde()",
        )
    return serde


@dataclass(frozen=True, slots=True)
class OptionalSerdes(Generic[K_co, V_co]):
    """The common options of keys and values: their serdes.

    Each kind of option says under `TYPE_CHECKING` which type another serde gives it.
    """

    key_serde: Serde[K_co] | None = None
    value_serde: Serde[V_co] | None = None

    def with_key_serde(self, serde: Serde) -> OptionalSerdes[object, V_co]:
        """A copy with another key serde."""
        return dataclasses.replace(self, key_serde=check_serde(serde, "key_serde"))

    def with_value_serde(self, serde: Serde) -> OptionalSerdes[K_co, object]:
        """A copy with another value serde."""
        return dataclasses.replace(self, value_serde=check_serde(serde, "value_serde"))


@dataclass(frozen=True, slots=True)
class NamedSerdes(OptionalSerdes[K_co, V_co]):
    """The same with the name of a node."""

    name: str | None = None

    @classmethod
    def as_(cls, name: str) -> Self:
        """Options with a name and nothing else."""
        return cls(name=check_name(name))

    def with_name(self, name: str) -> Self:
        """A copy with another name."""
        return dataclasses.replace(self, name=check_name(name))


@dataclass(frozen=True, slots=True)
class Consumed(NamedSerdes[K_co, V_co]):
    """Options of a source topic: serdes, event time, where to begin, and a name. Kafka Streams' `Consumed`.

    Attributes:
        key_serde: of the keys; `None`: the setting `default.key.serde`, else bytes.
        value_serde: of the values; `None`: the setting `default.value.serde`, else bytes.
        timestamp_extractor: where event time comes from; `None`: the setting `default.timestamp.extractor`.
        reset: where it begins without a position: an `AutoOffsetReset`; `None`: the setting `auto.offset.reset`.
        name: of the source node.

    Example:
        Consumed.with_(timestamp_extractor=field_timestamp("ordered_at"), name="orders-in")
    """

    timestamp_extractor: TimestampExtractor | None = None
    reset: AutoOffsetReset | None = None

    @classmethod
    def with_(
        cls,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        timestamp_extractor: Extractor | None = None,
        reset: Reset | None = None,
        name: str | None = None,
    ) -> Consumed[K, V]:
        """Options of a source topic, all at once; what is left out comes from the settings.

        Args:
            key_serde: of the keys; `None`: `default.key.serde`, else bytes.
            value_serde: of the values; `None`: `default.value.serde`, else bytes.
            timestamp_extractor: where event time comes from; a plain function of `(record, partition_time_ms)` is
                `callable_timestamp(function)`. `None`: `default.timestamp.extractor`.
            reset: where to begin without a position: `AutoOffsetReset`, or its name. `None`: `auto.offset.reset`.
            name: of the source node; `None`: a generated one.

        Raises:
            TopologyError: `INVALID_SERDE`, `INVALID_TIMESTAMP_EXTRACTOR`, `INVALID_RESET`, `INVALID_NAME`.

        Example:
            >>> from hayase import Serdes
            >>> str(Consumed.with_(Serdes.string(), Serdes.long(), reset="latest").reset)
            'latest'
        """
        if timestamp_extractor is not None and not isinstance(timestamp_extractor, TimestampExtractor):
            if not callable(timestamp_extractor):
                raise TopologyError(
                    "INVALID_TIMESTAMP_EXTRACTOR",
                    f"{timestamp_extractor!r} is no timestamp extractor; use record_timestamp(), field_timestamp('…'), "
                    "wall_clock_timestamp() or a function of (record, partition_time_ms)",
                )
            timestamp_extractor = callable_timestamp(timestamp_extractor)
        return Consumed(
            check_serde(key_serde, "key_serde"),
            check_serde(value_serde, "value_serde"),
            name_of(name),
            timestamp_extractor,
            None if reset is None else AutoOffsetReset.of(reset),
        )

    def with_timestamp_extractor(self, extractor: Extractor) -> Consumed[K_co, V_co]:
        """A copy with another timestamp extractor."""
        return Consumed.with_(self.key_serde, self.value_serde, extractor, self.reset, self.name)

    def with_offset_reset_policy(self, reset: Reset) -> Consumed[K_co, V_co]:
        """A copy with another begin where there is no position: an `AutoOffsetReset`, or its name."""
        return Consumed.with_(self.key_serde, self.value_serde, self.timestamp_extractor, reset, self.name)

    if TYPE_CHECKING:

        @classmethod
        def as_(cls, name: str) -> Consumed[Any, Any]:  # of a topic of any types
            """Options with a name and nothing else."""

        def with_key_serde(self, serde: Serde[KR]) -> Consumed[KR, V_co]:
            """A copy with another key serde."""

        def with_value_serde(self, serde: Serde[VR]) -> Consumed[K_co, VR]:
            """A copy with another value serde."""


@dataclass(frozen=True, slots=True)
class Produced(NamedSerdes[K_co, V_co]):
    """Options of a sink topic: serdes, a partitioner, and a name. Kafka Streams' `Produced`.

    Serdes that are `None` are those of the stream.

    Attributes:
        partitioner: chooses the partition of each record: `(topic, key, value, partitions)` gives a number, several
            (the record goes to each), none at all (it is dropped and counted), or `None` for the partition of the key;
            or an expression gives a number. Kafka Streams' `StreamPartitioner` (KIP-837).

    Example:
        Produced.with_(partitioner=lambda topic, key, value, partitions: value["shelf"] % partitions)
    """

    partitioner: Partitioner | None = None

    @classmethod
    def with_(
        cls,
        key_serde: Serde[KN] | None = None,
        value_serde: Serde[VN] | None = None,
        name: str | None = None,
        partitioner: Partitioner | None = None,
    ) -> Produced[KN, VN]:
        """Options of a sink topic, all at once; what is left out comes from the stream.

        Args:
            key_serde: of the keys; `None`: that of the stream, else `default.key.serde`.
            value_serde: of the values; `None`: that of the stream, or one for its schema, else `default.value.serde`.
            name: of the sink node; `None`: a generated one.
            partitioner: chooses the partition, see the class; `None`: Kafka's default, by the bytes of the key.

        Raises:
            TopologyError: `INVALID_SERDE`, `INVALID_NAME`, `INVALID_FUNCTION`: a partitioner of other parameters.

        Example:
            >>> from hayase import Serdes
            >>> Produced.with_(Serdes.string(), name="totals-out").name
            'totals-out'
        """
        return Produced(
            check_serde(key_serde, "key_serde"),
            check_serde(value_serde, "value_serde"),
            name_of(name),
            functions.partitioner(partitioner),
        )

    def with_stream_partitioner(self, partitioner: Partitioner) -> Produced[K_co, V_co]:
        """A copy with a partitioner."""
        return dataclasses.replace(self, partitioner=functions.partitioner(partitioner))

    if TYPE_CHECKING:

        def with_key_serde(self, serde: Serde[KR]) -> Produced[KR, V_co]:
            """A copy with another key serde."""

        def with_value_serde(self, serde: Serde[VR]) -> Produced[K_co, VR]:
            """A copy with another value serde."""


@dataclass(frozen=True, slots=True)
class Repartitioned(NamedSerdes[K_co, V_co]):
    """Options of the topic that `KStream.repartition` goes through. Kafka Streams' `Repartitioned`.

    Attributes:
        name: of the topic: `<application.id>-<name>-repartition`.
        number_of_partitions: of the topic; `None`: that of what the stream is joined with, else the largest upstream.
        partitioner: see `Produced`.
    """

    number_of_partitions: int | None = None
    partitioner: Partitioner | None = None

    @classmethod
    def with_(
        cls,
        key_serde: Serde[KN] | None = None,
        value_serde: Serde[VN] | None = None,
        name: str | None = None,
        number_of_partitions: int | None = None,
        partitioner: Partitioner | None = None,
    ) -> Repartitioned[KN, VN]:
        """Options of a repartition topic, all at once; what is left out comes from the stream.

        Args:
            key_serde: of the keys; `None`: that of the stream.
            value_serde: of the values; `None`: that of the stream.
            name: of the topic, `<application.id>-<name>-repartition`; `None`: a generated one, which changes when
                operators are added before it.
            number_of_partitions: see the class.
            partitioner: as in `Produced`.

        Raises:
            TopologyError: `INVALID_SERDE`, `INVALID_NAME`, `INVALID_PARTITIONS`: less than 1, `INVALID_FUNCTION`.

        Example:
            >>> Repartitioned.with_(name="by-user", number_of_partitions=6).number_of_partitions
            6
        """
        return Repartitioned(
            check_serde(key_serde, "key_serde"),
            check_serde(value_serde, "value_serde"),
            name_of(name),
            None if number_of_partitions is None else _check_partitions(number_of_partitions),
            functions.partitioner(partitioner),
        )

    def with_number_of_partitions(self, number: int) -> Repartitioned[K_co, V_co]:
        """A copy with so many partitions."""
        return dataclasses.replace(self, number_of_partitions=_check_partitions(number))

    def with_stream_partitioner(self, partitioner: Partitioner) -> Repartitioned[K_co, V_co]:
        """A copy with a partitioner."""
        return dataclasses.replace(self, partitioner=functions.partitioner(partitioner))

    if TYPE_CHECKING:

        def with_key_serde(self, serde: Serde[KR]) -> Repartitioned[KR, V_co]:
            """A copy with another key serde."""

        def with_value_serde(self, serde: Serde[VR]) -> Repartitioned[K_co, VR]:
            """A copy with another value serde."""


def _check_partitions(number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise TopologyError("INVALID_PARTITIONS", f"a topic has 1 partition or more, not {number!r}")
    return number


@dataclass(frozen=True, slots=True)
class Grouped(NamedSerdes[K_co, V_co]):
    """Options of a grouping: serdes of its repartition and its stores, and a name. Kafka Streams' `Grouped`.

    `name` names the repartition (`<name>-repartition`), and in `group_by` also the node that makes the new key.
    """

    @classmethod
    def with_(
        cls,
        key_serde: Serde[KN] | None = None,
        value_serde: Serde[VN] | None = None,
        name: str | None = None,
    ) -> Grouped[KN, VN]:
        """Options of a grouped stream or table, all at once; what is left out comes from the stream or table.

        Args:
            key_serde: of the new keys; `None`: as far as they are known, else `default.key.serde`.
            value_serde: of the values; `None`: that of the stream or table.
            name: of the repartition topic, if there is one, and its nodes; `None`: a generated one.

        Raises:
            TopologyError: `INVALID_SERDE`, `INVALID_NAME`.

        Example:
            >>> from hayase import Serdes
            >>> Grouped.with_(Serdes.string(), name="by-product").name
            'by-product'
        """
        return Grouped(check_serde(key_serde, "key_serde"), check_serde(value_serde, "value_serde"), name_of(name))

    if TYPE_CHECKING:

        def with_key_serde(self, serde: Serde[KR]) -> Grouped[KR, V_co]:
            """A copy with another key serde."""

        def with_value_serde(self, serde: Serde[VR]) -> Grouped[K_co, VR]:
            """A copy with another value serde."""
