"""The joins of a stream: with another stream, with a table, with a global table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, overload

from hayase.core.join_windows import JoinWindows
from hayase.core.type_variables import KR, VO, VR, K, V
from hayase.dsl.functions import Fielded, JoinedFields, Joiner
from hayase.dsl.joins.joiners import stream_global, stream_table
from hayase.dsl.joins.stream_stream import stream_stream
from hayase.dsl.options.joined import Joined
from hayase.dsl.options.options import name_of
from hayase.dsl.options.stream_joined import StreamJoined
from hayase.dsl.stream_state import Name, StreamState, bind_arguments, check_option, of_same_builder
from hayase.topology.operators import JoinKind

if TYPE_CHECKING:
    from hayase.dsl.kstream import KStream
    from hayase.dsl.ktable import GlobalKTable, KTable


class Joining(Generic[K, V]):
    """What `KStream` has to do with joins."""

    _state: StreamState

    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: JoinedFields,
        joined: Joined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, Any]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[KR, VO],
        key_mapper: Callable[[K, V], KR | None] | Fielded,
        joiner: Callable[[V, VO], VR],
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[KR, VO],
        key_mapper: Callable[[K, V], KR | None] | Fielded,
        joiner: Callable[[K, V, VO], VR],
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[KR, VO],
        key_mapper: Callable[[K, V], KR | None] | Fielded,
        joiner: JoinedFields,
        *,
        name: Name = None,
    ) -> KStream[K, Any]: ...
    @overload
    def join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V, VO], VR],
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V, VO], VR],
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KStream[K, VO],
        joiner: JoinedFields,
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, Any]: ...
    def join(self, other: Any, *arguments: Any, name: Name = None, **keywords: Any) -> KStream[K, Any]:
        """Join each record with the row of a table, or with the records of another stream that are near in time.

        * `join(table, joiner, joined=None)`: the row of the record's key; without a row there is no result.
          Repartitions if the stream was re-keyed; both topics must have the same number of partitions. Only records of
          the stream trigger; the table is looked up as it is when the record is processed, a versioned one as it was at
          the record's timestamp, for which the record may wait (`Joined.with_grace_period`). Results have the record's
          timestamp.
        * `join(global_table, key_mapper, joiner)`: the row of the key that `key_mapper` makes; no such demands.
        * `join(stream, joiner, windows, joined=None)`: every record of the other stream that has the same key and lies
          in the window, once per pair, when the later of the two is processed; several by their time, then in the order
          they arrived. Both streams must have the same number of partitions; one that was re-keyed is repartitioned.
          Results have the larger timestamp and the headers of the record that came later. Null keys and null values are
          dropped and counted. Lateness is no reason to refuse a record: it meets what the other side still keeps
          (`JoinWindows.retention_ms` behind the latest record there), as in Kafka Streams.

        The joiner is `(left, right)` or `(key, left, right)`, or fields of `left(…)` and `right(…)`.

        Example:
            orders.join(users, {"id": left("id"), "city": right("city")})
            clicks.join(views, {"page": left("page"), "ad": right("ad")},
            JoinWindows.of_time_difference_with_no_grace(minute))
        """
        return self._join(other, arguments, keywords, name, "inner")

    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO | None], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO | None], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: JoinedFields,
        joined: Joined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, Any]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[KR, VO],
        key_mapper: Callable[[K, V], KR | None] | Fielded,
        joiner: Callable[[V, VO | None], VR],
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[KR, VO],
        key_mapper: Callable[[K, V], KR | None] | Fielded,
        joiner: Callable[[K, V, VO | None], VR],
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[KR, VO],
        key_mapper: Callable[[K, V], KR | None] | Fielded,
        joiner: JoinedFields,
        *,
        name: Name = None,
    ) -> KStream[K, Any]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V, VO | None], VR],
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V, VO | None], VR],
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        joiner: JoinedFields,
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, Any]: ...
    def left_join(self, other: Any, *arguments: Any, name: Name = None, **keywords: Any) -> KStream[K, Any]:
        """As `join`, but a record that meets nothing gives a result with `right` null.

        So does one with a null key, at once.

        With another stream that result comes once the record's window and grace are over: as soon as a record of either
        stream, with any key, is processed while stream time (the largest timestamp of both) is greater than the
        record's time + after + grace (KIP-633). It has the record's own timestamp and the headers of the record that
        set it off. Such results come by time, then right before left, then by the bytes of the key. A record that late
        itself gives its result at once if it meets nothing.
        """
        return self._join(other, arguments, keywords, name, "left")

    @overload
    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V | None, VO | None], VR],
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V | None, VO | None], VR],
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, VR]: ...
    @overload
    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: JoinedFields,
        windows: JoinWindows,
        joined: StreamJoined[K, V, VO] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, Any]: ...
    def outer_join(
        self,
        other: KStream[K, Any],
        joiner: Joiner,
        windows: JoinWindows,
        joined: StreamJoined[Any, Any, Any] | None = None,
        *,
        name: Name = None,
    ) -> KStream[K, Any]:
        """As `left_join` with another stream, for both sides.

        A right record that meets nothing gives one with `left` null.

        That is due when stream time is greater than its time + before + grace.

        Example:
            payments.outer_join(refunds, lambda payment, refund: (payment, refund), windows)
        """
        return self._join(other, (joiner, windows, joined), {}, name, "outer")

    def _join(
        self, other: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], name: Name, kind: JoinKind
    ) -> KStream[K, Any]:
        from hayase.dsl.kstream import KStream
        from hayase.dsl.ktable import GlobalKTable, KTable

        what = {"inner": "join", "left": "left_join", "outer": "outer_join"}[kind]
        kinds: tuple[type, ...] = (KStream,) if kind == "outer" else (KTable, GlobalKTable, KStream)
        found = of_same_builder(self._state.graph, other, kinds, what)
        if isinstance(found, GlobalKTable):
            key_mapper, joiner = bind_arguments(what, arguments, keywords, ("key_mapper", "joiner"), required=2)
            return KStream(stream_global(self._state, found, key_mapper, joiner, name_of(name), kind == "left"))
        if isinstance(found, KTable):
            joiner, joined = bind_arguments(what, arguments, keywords, ("joiner", "joined"), required=1)
            options = _named(check_option(joined, Joined, what), name)
            return KStream(stream_table(self._state, found, joiner, options, kind == "left"))
        joiner, windows, joined = bind_arguments(what, arguments, keywords, ("joiner", "windows", "joined"), required=2)
        both = check_option(joined, StreamJoined, what)
        both = both if name is None else replace(both, name=name_of(name))
        return KStream(stream_stream(self._state, found._state, joiner, windows, both, kind))


def _named(options: Joined[Any, Any, Any], name: Name) -> Joined[Any, Any, Any]:
    return options if name is None else replace(options, name=name_of(name))
