"""Builds the topology of a golden case through the public DSL, with plain callables."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from tests.golden.arguments import (
    DynamicTopic,
    Function,
    aggregator_of,
    extractor_of,
    joiner_of,
    merger_of,
    of_key_value,
    plain,
    predicate_of,
    reducer_of,
    serde_of,
    windows_of,
)
from tests.golden.cases import Case, Unsupported
from tests.golden.functions import evaluate
from tests.golden.processors import TransformSteps, store_of, supplier_of

from hayase.core.join_windows import JoinWindows
from hayase.core.windows import EmitStrategy
from hayase.dsl import (
    Branched,
    BufferConfig,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Produced,
    Repartitioned,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TableJoined,
)
from hayase.state.stores.spec import StoreSpec
from hayase.topology.topology import Topology


def unsupported(case: Case) -> str | None:
    """What of a case is not there yet, `None` if it can be built (or is refused by intention)."""
    try:
        build(case)
    except Unsupported as reason:
        return str(reason)
    except Exception:
        return None
    return None


@dataclass
class Built:
    """What `build` makes.

    `side_effects` grows while the topology runs: a `(node, key, value)` for each call of a peek, in order.
    """

    topology: Topology
    side_effects: list[tuple[str, Any, Any]] = field(default_factory=list)


def build(case: Case) -> Built:
    """The topology of a case.

    Raises:
        Unsupported: an operation or option is not there yet.
        TopologyError: the case is one that Kafka Streams refuses to build.
    """
    interpreter = Interpreter()
    interpreter.add(case)
    return Built(interpreter.finish(optimize=bool(case["config"].get("optimize"))), interpreter.side_effects)


class Interpreter:
    """One method per operation; each gets its node, its arguments and what its parents made."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder()
        self.topology = Topology()
        self.made: dict[str, Any] = {}
        self.side_effects: list[tuple[str, Any, Any]] = []

    def add(self, case: Case) -> None:
        """Make the nodes of a case; raises as `build`."""
        for node in case["topology"]:
            build_node = getattr(self, f"_op_{node['op']}", None)
            if build_node is None:
                raise Unsupported(node["op"])
            parents = [self.made[parent] for parent in node.get("from", [])]
            self.made[node["id"]] = build_node(node, node.get("args", {}), *parents)

    def finish(self, *, optimize: bool) -> Topology:
        """The topology of all that was added."""
        if self.topology.nodes:
            return self.topology
        return self.builder.build({"topology.optimization": "all" if optimize else "none"})

    def _materialized(self, args: Any) -> Materialized | None:
        if "store" not in args:
            return None
        made = Materialized.as_(args["store"])
        if "history_ms" in args:
            history = timedelta(milliseconds=args["history_ms"])
            made = Materialized.as_(Stores.persistent_versioned_key_value_store(args["store"], history))
        if "store_key" in args:
            made = made.with_key_serde(serde_of(args["store_key"]))
        if "store_value" in args:
            made = made.with_value_serde(serde_of(args["store_value"]))
        if "retention_ms" in args:
            made = made.with_retention(timedelta(milliseconds=args["retention_ms"]))
        return made

    def _consumed(self, args: Any) -> Consumed:
        extractor = extractor_of(args.get("timestamp_extractor"))
        return Consumed.with_(serde_of(args["key"]), serde_of(args["value"]), extractor, name=args.get("name"))

    def _op_stream(self, _: Any, args: Any) -> Any:
        topics = re.compile(args["pattern"]) if "pattern" in args else args["topics"]
        return self.builder.stream(topics, self._consumed(args))

    def _op_table(self, _: Any, args: Any) -> Any:
        return self.builder.table(args["topic"], self._consumed(args), self._materialized(args))

    def _op_global_table(self, _: Any, args: Any) -> Any:
        return self.builder.global_table(args["topic"], self._consumed(args), self._materialized(args))

    def _filter(self, method: str, args: Any, parent: Any) -> Any:
        options = () if (made := self._materialized(args)) is None else (made,)
        return getattr(parent, method)(predicate_of(args["predicate"]), *options, name=args.get("name"))

    def _op_state_store(self, _: Any, args: Any) -> None:
        self.builder.add_state_store(self._store(args))

    def _store(self, args: Any) -> StoreSpec:
        made = store_of(args, serde_of)
        if made is None:
            raise Unsupported(f"{args['kind']} stores of processors")
        return made

    def _supplier(self, node: Any, args: Any, *, fixed_key: bool = False) -> Any:
        return supplier_of(args, self._log_of(node), plain, fixed_key=fixed_key)

    def _log_of(self, node: Any) -> Callable[[Any], None]:
        return lambda value: self.side_effects.append((node["id"], None, value))

    def _op_process(self, node: Any, args: Any, parent: Any) -> Any:
        return parent.process(self._supplier(node, args), *args.get("stores", ()), name=args.get("name"))

    def _op_process_values(self, node: Any, args: Any, parent: Any) -> Any:
        supplier = self._supplier(node, args, fixed_key=True)
        return parent.process_values(supplier, *args.get("stores", ()), name=args.get("name"))

    def _op_papi_source(self, node: Any, args: Any) -> str:
        key, value = serde_of(args["key"]), serde_of(args["value"])
        self.topology.add_source(node["id"], *args["topics"], key_serde=key, value_serde=value)
        return str(node["id"])

    def _op_papi_processor(self, node: Any, args: Any, *parents: str) -> str:
        self.topology.add_processor(node["id"], self._supplier(node, args), *parents)
        return str(node["id"])

    def _op_papi_store(self, _: Any, args: Any) -> None:
        self.topology.add_state_store(self._store(args), *args["processors"])

    def _op_papi_sink(self, node: Any, args: Any, *parents: str) -> None:
        key, value = serde_of(args["key"]), serde_of(args["value"])
        self.topology.add_sink(node["id"], args["topic"], *parents, key_serde=key, value_serde=value)

    def _op_filter(self, _: Any, args: Any, parent: Any) -> Any:
        return self._filter("filter", args, parent)

    def _op_filter_not(self, _: Any, args: Any, parent: Any) -> Any:
        return self._filter("filter_not", args, parent)

    def _op_map_values(self, _: Any, args: Any, parent: Any) -> Any:
        options = () if (made := self._materialized(args)) is None else (made,)
        return parent.map_values(of_key_value(args["value"]), *options, name=args.get("name"))

    def _op_transform_values(self, node: Any, args: Any, parent: Any) -> Any:
        made = partial(TransformSteps, args, self._log_of(node), plain)
        options = {"materialized": self._materialized(args), "name": args.get("name")}
        return parent.transform_values(made, *args.get("stores", ()), **options)

    def _op_map(self, _: Any, args: Any, parent: Any) -> Any:
        key, value = of_key_value(args["key"]), of_key_value(args["value"])
        return parent.map(lambda k, v: (key(k, v), value(k, v)))

    def _op_select_key(self, _: Any, args: Any, parent: Any) -> Any:
        return parent.select_key(of_key_value(args["key"]))

    def _op_flat_map_values(self, _: Any, args: Any, parent: Any) -> Any:
        items = of_key_value(args["items"])
        return parent.flat_map_values(lambda key, value: items(key, value) or [])

    def _op_flat_map(self, _: Any, args: Any, parent: Any) -> Any:
        def pairs(key: Any, value: Any) -> list[tuple[Any, Any]]:
            found = {"key": plain(key), "value": value}
            items = [{**found, "it": item} for item in evaluate(args["items"], found) or []]
            return [(evaluate(args["key"], each), evaluate(args["value"], each)) for each in items]

        return parent.flat_map(pairs)

    def _op_foreach(self, node: Any, args: Any, parent: Any) -> Any:
        parent.foreach(self._side_effect(node), name=args.get("name"))

    def _op_peek(self, node: Any, args: Any, parent: Any) -> Any:
        return parent.peek(self._side_effect(node), name=args.get("name"))

    def _side_effect(self, node: Any) -> Function:
        return lambda key, value: self.side_effects.append((node["id"], plain(key), value))

    def _op_merge(self, _: Any, args: Any, parent: Any, other: Any) -> Any:
        return parent.merge(other)

    def _op_split(self, _: Any, args: Any, parent: Any) -> Any:
        branched = parent.split(name=args["name"])
        for branch in args["branches"]:
            branched = branched.branch(predicate_of(branch["predicate"]), Branched.as_(branch["name"]))
        default = args.get("default")
        found = branched.no_default_branch() if default is None else branched.default_branch(Branched.as_(default))
        return {name.removeprefix(args["name"]): stream for name, stream in found.items()}

    def _op_branch(self, _: Any, args: Any, parent: Any) -> Any:
        return parent[args["branch"]]

    def _op_to(self, _: Any, args: Any, parent: Any) -> Any:
        topic = args.get("topic")
        if "topic_expr" in args:
            topic = DynamicTopic(of_key_value(args["topic_expr"]))
        parent.to(topic, Produced.with_(serde_of(args["key"]), serde_of(args["value"]), args.get("name")))

    def _op_repartition(self, _: Any, args: Any, parent: Any) -> Any:
        made = Repartitioned.with_(
            serde_of(args.get("key")), serde_of(args.get("value")), args.get("name"), args.get("partitions")
        )
        return parent.repartition(made)

    def _op_to_table(self, _: Any, args: Any, parent: Any) -> Any:
        return parent.to_table(self._materialized(args))

    def _op_to_stream(self, _: Any, args: Any, parent: Any) -> Any:
        return parent.to_stream(of_key_value(args["key"]) if "key" in args else None)

    def _op_group_by_key(self, _: Any, args: Any, parent: Any) -> Any:
        return parent.group_by_key(self._grouped(args))

    def _op_group_by(self, _: Any, args: Any, parent: Any) -> Any:
        if "value" in args:
            key, value = of_key_value(args["key"]), of_key_value(args["value"])
            return parent.group_by(lambda k, v: (key(k, v), value(k, v)), self._grouped(args))
        return parent.group_by(of_key_value(args["key"]), self._grouped(args))

    def _grouped(self, args: Any) -> Grouped:
        return Grouped.with_(serde_of(args["key_serde"]), serde_of(args["value_serde"]))

    def _op_cogroup(self, _: Any, args: Any, *parents: Any) -> Any:
        made, *others = zip(parents, map(aggregator_of, args["aggregators"]), strict=True)
        found = made[0].cogroup(made[1])
        for grouped, aggregator in others:
            found = found.cogroup(grouped, aggregator)
        return found

    def _op_windowed_by(self, _: Any, args: Any, parent: Any) -> Any:
        made = parent.windowed_by(windows_of(args))
        return made.emit_strategy(EmitStrategy.on_window_close()) if "emit" in args else made

    def _op_suppress(self, _: Any, args: Any, parent: Any) -> Any:
        given = args["buffer"]
        buffer = BufferConfig.unbounded()
        if "max_records" in given:
            buffer = BufferConfig.max_records(given["max_records"])
        if given.get("when_full") == "shutdown":
            buffer = buffer.shut_down_when_full()
        if args["until"] == "window_closes":
            return parent.suppress(Suppressed.until_window_closes(buffer))
        return parent.suppress(Suppressed.until_time_limit(timedelta(milliseconds=args["limit_ms"]), buffer))

    def _op_count(self, _: Any, args: Any, parent: Any) -> Any:
        return parent.count(self._materialized(args))

    def _op_reduce(self, _: Any, args: Any, parent: Any) -> Any:
        if "adder" in args:
            return parent.reduce(reducer_of(args["adder"]), reducer_of(args["subtractor"]), self._materialized(args))
        reducer = args["reducer"]
        return parent.reduce(reducer_of(reducer), self._materialized(args))

    def _op_aggregate(self, _: Any, args: Any, parent: Any) -> Any:
        steps: list[Function] = [lambda: evaluate(args["initializer"], {})]
        steps += [aggregator_of(args[name]) for name in ("aggregator", "adder", "subtractor") if name in args]
        if "merger" in args:
            steps.append(merger_of(args["merger"]))
        return parent.aggregate(*steps, self._materialized(args))

    def _op_join(self, _: Any, args: Any, parent: Any, other: Any) -> Any:
        if "windows" in args:
            return self._stream_join(args, parent, other)
        method = {"inner": "join", "left": "left_join", "outer": "outer_join"}.get(args["type"])
        if hasattr(parent, "to_stream") and method is not None:
            return self._table_join(getattr(parent, method), args, other)
        if method is None or not hasattr(parent, method) or hasattr(other, "group_by_key"):
            raise Unsupported("this kind of join")
        join = getattr(parent, method)
        if "global_key" in args:
            return join(other, of_key_value(args["global_key"]), joiner_of(args["joiner"]), name=args.get("name"))
        serdes = (serde_of(args.get(side)) for side in ("key_serde", "left_serde", "right_serde"))
        joined = Joined.with_(*serdes, name=args.get("name"))
        if "grace_ms" in args:
            joined = joined.with_grace_period(timedelta(milliseconds=args["grace_ms"]))
        return join(other, joiner_of(args["joiner"]), joined)

    def _table_join(self, join: Function, args: Any, other: Any) -> Any:
        if "foreign_key" in args:
            kept = self._materialized(args)
            if kept is None:
                kept = Materialized.with_(serde_of(args.get("store_key")), serde_of(args.get("store_value")))
            named = TableJoined.as_(args["name"]) if "name" in args else None
            return join(other, of_key_value(args["foreign_key"]), joiner_of(args["joiner"]), named, kept)
        return join(other, joiner_of(args["joiner"]), self._materialized(args), name=args.get("name"))

    def _stream_join(self, args: Any, parent: Any, other: Any) -> Any:
        join = getattr(parent, {"inner": "join", "left": "left_join", "outer": "outer_join"}[args["type"]])
        before, after, grace = (
            timedelta(milliseconds=args["windows"][f"{name}_ms"]) for name in ("before", "after", "grace")
        )
        windows = JoinWindows.of_time_difference_and_grace(max(before, after), grace).before(before).after(after)
        serdes = (serde_of(args.get(side)) for side in ("key_serde", "left_serde", "right_serde"))
        return join(other, joiner_of(args["joiner"]), windows, StreamJoined.with_(*serdes, name=args.get("name")))
