"""`StreamJoined`: how the two sides of a join of streams are kept."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from hayase.core.names import check_name
from hayase.core.type_variables import KN, KR, VN, VON, VR, K_co, V_co, VO_co
from hayase.dsl.options.joined import JoinSerdes
from hayase.dsl.options.options import check_serde, name_of
from hayase.dsl.options.store_suppliers import WindowStoreSupplier, check_supplier
from hayase.serde.protocol import Serde


@dataclass(frozen=True, slots=True)
class StreamJoined(JoinSerdes[K_co, V_co, VO_co]):
    """Serdes, names and stores of a join of two streams; each `with_…` gives a changed copy.

    Attributes:
        key_serde: of the keys of both sides; `None`: that of the left stream, else that of the right one.
        value_serde: of the left values; `None`: the stream's.
        other_value_serde: of the right values; `None`: the stream's.
        name: begins the names of the join's nodes and of its repartitions (`<name>-left`, `<name>-right`).
        store_name: begins the names of its stores.
        this_store: the store of the left side; `None`: one that is named after the join's node.
        other_store: the store of the right side.

    Example:
        >>> from hayase import Serdes
        >>> StreamJoined.with_(Serdes.string()).with_name("clicks-and-views").name
        'clicks-and-views'
    """

    store_name: str | None = None
    this_store: WindowStoreSupplier | None = None
    other_store: WindowStoreSupplier | None = None

    @classmethod
    def with_(
        cls,
        key_serde: Serde[KN] | None = None,
        value_serde: Serde[VN] | None = None,
        other_value_serde: Serde[VON] | None = None,
        name: str | None = None,
        store_name: str | None = None,
    ) -> StreamJoined[KN, VN, VON]:
        """Serdes and names of a stream-stream join, all at once; suppliers of its stores are set apart.

        Args:
            key_serde: of the keys of both sides.
            value_serde: of the left values; `None`: that of the left stream.
            other_value_serde: of the right values; `None`: that of the right stream.
            name: begins the names of the nodes and repartitions.
            store_name: begins the names of the two window stores; without it they cannot be queried by a fixed name.

        Raises:
            TopologyError: `INVALID_SERDE`, `INVALID_NAME`.

        Example:
            >>> from hayase import Serdes
            >>> StreamJoined.with_(Serdes.string(), store_name="near").store_name
            'near'
        """
        return StreamJoined(
            check_serde(key_serde, "key_serde"),
            check_serde(value_serde, "value_serde"),
            name_of(name),
            check_serde(other_value_serde, "other_value_serde"),
            None if store_name is None else check_name(store_name),
        )

    @classmethod
    def as_(cls, store_name: str) -> Self:
        """Only the beginning of the stores' names, as in Kafka Streams."""
        return cls(store_name=check_name(store_name))

    def with_store_name(self, store_name: str) -> StreamJoined[K_co, V_co, VO_co]:
        """A copy with another beginning of the stores' names."""
        return dataclasses.replace(self, store_name=check_name(store_name))

    def with_this_store_supplier(self, supplier: WindowStoreSupplier) -> StreamJoined[K_co, V_co, VO_co]:
        """A copy with a store for the left side: see `Stores.persistent_window_store`.

        Raises:
            TopologyError: `INVALID_STORE`: no supplier of a window store that keeps duplicates.
        """
        return dataclasses.replace(self, this_store=check_supplier(supplier))

    def with_other_store_supplier(self, supplier: WindowStoreSupplier) -> StreamJoined[K_co, V_co, VO_co]:
        """A copy with a store for the right side."""
        return dataclasses.replace(self, other_store=check_supplier(supplier))

    if TYPE_CHECKING:

        def with_key_serde(self, serde: Serde[KR]) -> StreamJoined[KR, V_co, VO_co]:
            """A copy with another key serde."""

        def with_value_serde(self, serde: Serde[VR]) -> StreamJoined[K_co, VR, VO_co]:
            """A copy with another value serde."""

        def with_other_value_serde(self, serde: Serde[VR]) -> StreamJoined[K_co, V_co, VR]:
            """A copy with another serde of the right values."""
