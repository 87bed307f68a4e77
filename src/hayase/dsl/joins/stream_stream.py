"""Joins of two streams, within a window of time."""

from __future__ import annotations

from dataclasses import replace

from hayase.core.errors import TopologyError
from hayase.core.join_windows import JoinWindows
from hayase.dsl.functions import Joiner
from hayase.dsl.inference import Known, concrete_serde
from hayase.dsl.joins.joiners import check_same_key, joiner_of
from hayase.dsl.options.store_suppliers import WindowStoreSupplier
from hayase.dsl.options.stream_joined import StreamJoined
from hayase.dsl.stream_state import StreamState, repartitioned_for_join
from hayase.serde import JsonSerde, Serdes
from hayase.serde.protocol import Serde
from hayase.state.stores.spec import StoreSpec, StoreType
from hayase.topology.operators import JoinKind, Merge, StreamJoinWindow, StreamStreamJoin


def stream_stream(
    left: StreamState,
    right: StreamState,
    joiner: Joiner,
    windows: JoinWindows,
    joined: StreamJoined[object, object, object],
    kind: JoinKind,
) -> StreamState:
    """Add a join of two streams; the stream it sends. Names and their order are Kafka Streams'."""
    what = {"inner": "join", "left": "left_join", "outer": "outer_join"}[kind]
    if not isinstance(windows, JoinWindows):
        raise TopologyError(
            "INVALID_OPTION",
            f"{what} takes JoinWindows, not {windows!r}; e.g. "
            "JoinWindows.of_time_difference_with_no_grace(timedelta(minutes=5))",
        )
    same = left is right
    if joined.key_serde is None:
        check_same_key(left.key, right.key, what, "left stream")
    left, right = _with_serdes(left, right, joined)
    function, schema = joiner_of(joiner, left.key, left.value, right.value, what)
    if left.rekeyed:
        left = repartitioned_for_join(left, f"{joined.name}-left" if joined.name else None)
    if right.rekeyed:
        other_side = left.node if same and joined.name is None else None
        right = repartitioned_for_join(right, f"{joined.name}-right" if joined.name else None, other_side)
    names = _Names(left, kind, joined)
    specs = _specs(names, left, right, windows, joined)
    graph = left.graph
    stores = {side: graph.store(spec) for side, spec in specs.items()}
    unmatched = None
    if kind != "inner":
        unmatched = graph.store(StoreSpec(names.unmatched, "key_value", Serdes.bytes(), Serdes.bytes(), caching=False))
    graph.processor(names.windows["left"], (left.node,), StreamJoinWindow(stores["left"]), (stores["left"],))
    graph.processor(names.windows["right"], (right.node,), StreamJoinWindow(stores["right"]), (stores["right"],))
    for side, other in (("left", "right"), ("right", "left")):
        operator = StreamStreamJoin(
            "left" if side == "left" else "right",
            windows,
            kind == "outer" or (kind == "left" and side == "left"),
            names.windows[side],
            names.windows[other],
            stores[side],
            stores[other],
            unmatched,
            names.merge,
            function,
            schema,
        )
        read = (stores[other],) if unmatched is None else (stores[other], unmatched)
        graph.processor(names.joins[side], (names.windows[side],), operator, read)
    graph.processor(names.merge, (names.joins["left"], names.joins["right"]), Merge())
    return replace(left, node=names.merge, value=Known(None, schema))


class _Names:
    """Names of the nodes and stores of a join, made in Kafka Streams' order."""

    def __init__(self, state: StreamState, kind: JoinKind, joined: StreamJoined[object, object, object]) -> None:
        def named(suffix: str, generated: str) -> str:
            return generated if joined.name is None else joined.name + suffix

        names = state.graph.names
        this, other = (
            ("OUTERTHIS" if kind == "outer" else "JOINTHIS"),
            ("JOINOTHER" if kind == "inner" else "OUTEROTHER"),
        )
        this_suffix = "-outer-this-join" if kind == "outer" else "-this-join"
        other_suffix = "-other-join" if kind == "inner" else "-outer-other-join"
        self.windows = {
            "left": named("-this-windowed", names.next("KSTREAM-WINDOWED-")),
            "right": named("-other-windowed", names.next("KSTREAM-WINDOWED-")),
        }
        generated = {"left": names.next(f"KSTREAM-{this}-"), "right": names.next(f"KSTREAM-{other}-")}
        self.joins = {"left": named(this_suffix, generated["left"]), "right": named(other_suffix, generated["right"])}
        self.merge = named("-merge", names.next("KSTREAM-MERGE-"))
        self.stores = {side: f"{name}-store" for side, name in generated.items()}
        if joined.store_name is not None:
            self.stores = {
                "left": f"{joined.store_name}{this_suffix}-store",
                "right": f"{joined.store_name}{other_suffix}-store",
            }
        base = joined.store_name if joined.this_store is None else joined.this_store.name
        shared = "-outer-shared-join" if kind == "outer" else "-left-shared-join"
        number = generated["left"].rpartition("-")[2]
        self.unmatched = f"KSTREAM-OUTERSHARED-{number}-store" if base is None else f"{base}{shared}-store"


def _with_serdes(
    left: StreamState, right: StreamState, joined: StreamJoined[object, object, object]
) -> tuple[StreamState, StreamState]:
    """Both streams with the serdes they are kept by; keys by the same one, or equal keys would not meet."""
    key = joined.key_serde or left.key.serde or right.key.serde

    def one(state: StreamState, value: Serde | None) -> StreamState:
        return replace(
            state,
            key=state.key if key is None else Known(key, state.key.inferred),
            value=state.value if value is None else Known(value),
        )

    return one(left, joined.value_serde), one(right, joined.other_value_serde)


def _specs(
    names: _Names,
    left: StreamState,
    right: StreamState,
    windows: JoinWindows,
    joined: StreamJoined[object, object, object],
) -> dict[str, StoreSpec]:
    suppliers = {"left": joined.this_store, "right": joined.other_store}
    if (
        joined.this_store is not None
        and joined.other_store is not None
        and joined.this_store.name == joined.other_store.name
    ):
        raise TopologyError(
            "DUPLICATE_STORE",
            f"both sides of a join are to be kept in {joined.this_store.name!r}; each needs a store of its own",
        )
    specs = {}
    for side, state in (("left", left), ("right", right)):
        supplier = suppliers[side]
        if supplier is not None:
            _check(supplier, windows)
        name = names.stores[side] if supplier is None else supplier.name
        specs[side] = StoreSpec(
            name,
            "window",
            concrete_serde(left.key.or_else(right.key), "key", name),
            concrete_serde(state.value, "value", name, fallback=JsonSerde()),
            retention_ms=windows.retention_ms if supplier is None else supplier.retention_ms,
            window_size_ms=windows.size_ms,
            caching=False,
            store_type=None if supplier is None else StoreType.PERSISTENT,
            retain_duplicates=True,
        )
    return specs


def _check(supplier: WindowStoreSupplier, windows: JoinWindows) -> None:
    if supplier.window_size_ms != windows.size_ms or supplier.retention_ms != windows.retention_ms:
        raise TopologyError(
            "INVALID_STORE",
            f"store {supplier.name!r} has a window size of {supplier.window_size_ms} ms and a retention of "
            f"{supplier.retention_ms} ms; this join needs {windows.size_ms} ms (before plus after) and "
            f"{windows.retention_ms} ms (the same plus grace)",
        )
