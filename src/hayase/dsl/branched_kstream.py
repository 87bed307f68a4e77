"""Splitting a stream into branches."""

from __future__ import annotations

from dataclasses import replace
from typing import Generic

from hayase.core.errors import TopologyError
from hayase.core.names import check_name
from hayase.core.type_variables import K, V
from hayase.dsl import functions
from hayase.dsl.inference import check_predicate, visible_columns
from hayase.dsl.kstream import KStream
from hayase.dsl.options.branched import Branched
from hayase.dsl.stream_state import StreamState, check_option
from hayase.topology.operators import Branch, Split
from hayase.topology.operators.functions import Predicate


class _Branches(dict[str, KStream[K, V]]):
    """The streams of a split by name; a name that is not there is an error that lists the names."""

    def __missing__(self, name: object) -> KStream[K, V]:
        raise KeyError(
            f"there is no branch {name!r}; there are: {', '.join(self) or 'none'}. A branch's name is that of the "
            "split followed by its own"
        )


class BranchedKStream(Generic[K, V]):
    """The branches of a split so far: a record goes to the first one whose predicate is true.

    Ended by `default_branch` or `no_default_branch`, which give the streams by name, in order of the branches. A
    branch's name is that of the split followed by the branch's own, or by its position, beginning with `1`; the
    default branch's position is `0`.

    Example:
        parts = (
            orders.split(name="order-")
            .branch(pl.col("amount") > 1000, Branched.as_("large"))
            .default_branch(Branched.as_("small"))
        )
        parts["order-large"].to("large-orders")
    """

    def __init__(self, state: StreamState, name: str | None) -> None:
        self._state = state
        self._name = state.graph.names.name_or_next(name, "KSTREAM-BRANCH-")
        self._predicates: list[Predicate] = []
        self._default = False
        self._ended = False
        self._branches: dict[str, KStream[K, V]] = {}
        state.graph.processor(self._name, (state.node,), lambda: Split(tuple(self._predicates), self._default))

    def branch(self, predicate: Predicate[K, V], branched: Branched | None = None) -> BranchedKStream[K, V]:
        """Add a branch for the records for which `predicate`, and none of the earlier ones, is true.

        Args:
            predicate: as in `KStream.filter`; a null result is false.
            branched: name of the branch, and what becomes of its stream; default: named by its position.

        Raises:
            TopologyError: `SPLIT_ENDED`: after `default_branch` or `no_default_branch`; what `KStream.filter` raises.
        """
        self._check_open("branch")
        function = functions.predicate(predicate, "branch")
        check_predicate(function, visible_columns(self._state.key, self._state.value), "branch")
        self._predicates.append(function)
        self._add(branched, index=len(self._predicates) - 1, suffix=str(len(self._predicates)))
        return self

    def default_branch(self, branched: Branched | None = None) -> dict[str, KStream[K, V]]:
        """End the split with a branch for all other records; the streams by name.

        Raises:
            TopologyError: `SPLIT_ENDED`: it has ended already.
        """
        self._check_open("default_branch")
        self._ended = self._default = True
        self._add(branched, index=len(self._predicates), suffix="0")
        return _Branches(self._branches)

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """End the split without a default branch; the streams by name. Records that match no predicate are dropped.

        They are not counted as dropped records.

        Raises:
            TopologyError: `SPLIT_ENDED`: it has ended already.
        """
        self._check_open("no_default_branch")
        self._ended = True
        return _Branches(self._branches)

    def _check_open(self, what: str) -> None:
        if self._ended:
            raise TopologyError("SPLIT_ENDED", f"{what}: this split has ended; call split() again for another one")

    def _add(self, branched: Branched | None, index: int, suffix: str) -> None:
        options = check_option(branched, Branched, "branch")
        graph = self._state.graph
        name = check_name(self._name + (suffix if options.name is None else options.name))
        graph.names.next("KSTREAM-BRANCHCHILD-")  # Kafka Streams counts on although the name is not used
        graph.processor(name, (self._name,), Branch(index))
        stream: KStream[K, V] = KStream(replace(self._state, node=name))
        if options.consumer is not None:
            options.consumer(stream)
        elif options.function is not None:
            result = options.function(stream)
            if result is not None:
                self._branches[name] = result
        else:
            self._branches[name] = stream
