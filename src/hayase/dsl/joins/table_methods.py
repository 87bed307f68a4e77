"""The joins of a table with another table: by key and by foreign key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Never, overload

from hayase.core.type_variables import KR, VO, VR, K, V
from hayase.dsl.functions import Fielded, JoinedFields, Joiner
from hayase.dsl.joins.foreign_key import foreign_key_join
from hayase.dsl.joins.table_table import table_table
from hayase.dsl.options.joined import TableJoined
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import name_of
from hayase.dsl.stream_state import Name, bind_arguments, check_option, of_same_builder
from hayase.dsl.table_state import TableState
from hayase.topology.operators import JoinKind

if TYPE_CHECKING:
    from hayase.dsl.ktable import KTable


class TableJoining(Generic[K, V]):
    """What `KTable` has to do with joins."""

    _state: TableState

    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: JoinedFields,
        materialized: Materialized[K, Never] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, Any]: ...
    @overload
    def join(
        self, other: KTable[K, VO], joiner: JoinedFields, materialized: Materialized[K, VR], *, name: Name = None
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[V], KR | None] | Fielded,
        joiner: Callable[[V, VO], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[V], KR | None] | Fielded,
        joiner: Callable[[K, V, VO], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[V], KR | None] | Fielded,
        joiner: JoinedFields,
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, Any] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, Any]: ...
    @overload
    def join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[K, V], KR | None],
        joiner: Callable[[V, VO], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[K, V], KR | None],
        joiner: Callable[[K, V, VO], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[K, V], KR | None],
        joiner: JoinedFields,
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, Any] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, Any]: ...
    def join(self, other: Any, *arguments: Any, name: Name = None, **keywords: Any) -> KTable[K, Any]:
        """Join the rows of two tables, by the same key or by a foreign key.

        * `join(other, joiner, materialized=None)`: rows with the same key; a key that one table does not have has no
          row. An update of either side is joined with the other side's row as it is then; the row's timestamp is the
          larger of the two. A delete, and any update whose result is null, is passed on as a delete if the other side
          has a row, whether there was a result before or not. Both topics must have the same number of partitions.
        * `join(other, foreign_key_extractor, joiner, table_joined=None, materialized=None)`: each row with the row of
          `other` whose key `foreign_key_extractor` gives: a function of `(value)` or `(key, value)`, an expression, or
          a field's name. Results have the keys of this table. An update of a right row is joined with all left rows
          that name it, in the order of their keys' bytes, at the right row's timestamp; an update of a left row gives a
          result at the larger timestamp of the two. A row whose foreign key is null has no result and is counted as
          dropped. Any numbers of partitions. Questions and answers travel between the tasks (KIP-213): results of an
          epoch come out in the next one; an answer for a row that has changed since is dropped and counted.

        The joiner is `(left, right)` or `(key, left, right)`, or fields of `left(…)` and `right(…)`; a null result is
        no row. Both tables begin to keep their rows if they do not yet; the result is kept if its store is named. In a
        join by key the caches of the two tables are off, in one by foreign key that of `other`, unlike in Kafka
        Streams: with them a row that goes on both sides, or comes and goes on the other one, within an epoch would
        leave its result behind.

        Kafka Streams' `KTable.join`.

        Example:
            >>> from hayase import Consumed, Produced, Serdes, StreamsBuilder
            >>> from hayase.testing import TopologyTestDriver
            >>> builder = StreamsBuilder()
            >>> orders = builder.table("orders", Consumed.with_(Serdes.string(), Serdes.json()))
            >>> users = builder.table("users", Consumed.with_(Serdes.string(), Serdes.string()))
            >>> named = orders.join(
            ...     users, lambda order: order["user"], lambda order, user: f"{order['item']} for {user}"
            ... )
            >>> named.to_stream().to("out", Produced.with_(Serdes.string(), Serdes.string()))
            >>> with TopologyTestDriver(builder.build()) as driver:
            ...     given = driver.create_input_topic("orders", Serdes.string(), Serdes.json())
            ...     given.pipe_input("o1", {"user": "7", "item": "tea"})
            ...     for name in ("Ann", "Anna"):
            ...         driver.create_input_topic("users", Serdes.string(), Serdes.string()).pipe_input("7", name)
            ...     driver.create_output_topic("out", Serdes.string(), Serdes.string()).read_key_values_to_list()
            [('o1', 'tea for Ann'), ('o1', 'tea for Anna')]
        """
        return self._join(other, arguments, keywords, name, "inner")

    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO | None], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO | None], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: JoinedFields,
        materialized: Materialized[K, Never] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, Any]: ...
    @overload
    def left_join(
        self, other: KTable[K, VO], joiner: JoinedFields, materialized: Materialized[K, VR], *, name: Name = None
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[V], KR | None] | Fielded,
        joiner: Callable[[V, VO | None], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[V], KR | None] | Fielded,
        joiner: Callable[[K, V, VO | None], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[V], KR | None] | Fielded,
        joiner: JoinedFields,
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, Any] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, Any]: ...
    @overload
    def left_join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[K, V], KR | None],
        joiner: Callable[[V, VO | None], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[K, V], KR | None],
        joiner: Callable[[K, V, VO | None], VR | None],
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KR, VO],
        foreign_key_extractor: Callable[[K, V], KR | None],
        joiner: JoinedFields,
        table_joined: TableJoined | None = None,
        materialized: Materialized[K, Any] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, Any]: ...
    def left_join(self, other: Any, *arguments: Any, name: Name = None, **keywords: Any) -> KTable[K, Any]:
        """As `join`, but every row of this table gives one; `right` is null where there is no other row."""
        return self._join(other, arguments, keywords, name, "left")

    @overload
    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V | None, VO | None], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V | None, VO | None], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, VR]: ...
    @overload
    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: JoinedFields,
        materialized: Materialized[K, Never] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, Any]: ...
    @overload
    def outer_join(
        self, other: KTable[K, VO], joiner: JoinedFields, materialized: Materialized[K, VR], *, name: Name = None
    ) -> KTable[K, VR]: ...
    def outer_join(
        self,
        other: KTable[K, Any],
        joiner: Joiner,
        materialized: Materialized[K, Any] | None = None,
        *,
        name: Name = None,
    ) -> KTable[K, Any]:
        """As `join` by key, but every row of either table gives one; `left` or `right` is null where there is none."""
        return self._join(other, (joiner, materialized), {}, name, "outer")

    def _join(
        self, other: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], name: Name, kind: JoinKind
    ) -> KTable[K, Any]:
        from hayase.dsl.ktable import KTable

        what = {"inner": "join", "left": "left_join", "outer": "outer_join"}[kind]
        other = of_same_builder(self._state.graph, other, KTable, what)
        extracts = len(arguments) > 1 and not isinstance(arguments[1], Materialized | None)
        if extracts or "foreign_key_extractor" in keywords or (len(arguments) == 1 and "joiner" in keywords):
            parameters = ("foreign_key_extractor", "joiner", "table_joined", "materialized")
            extractor, joiner, joined, kept = bind_arguments(what, arguments, keywords, parameters, required=2)
            table_joined = check_option(joined, TableJoined, what)
            if name is not None:
                table_joined = replace(table_joined, name=name_of(name))
            options = check_option(kept, Materialized, what)
            return KTable(
                foreign_key_join(
                    self._state, other._state, extractor, joiner, table_joined, options, is_left=kind == "left"
                )
            )
        joiner, kept = bind_arguments(what, arguments, keywords, ("joiner", "materialized"), required=1)
        options = None if kept is None else check_option(kept, Materialized, what)
        return KTable(table_table(self._state, other._state, joiner, options, name_of(name), kind))
