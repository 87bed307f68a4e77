"""Random topologies with windows, sessions, stream and foreign-key joins, suppress, processors, versioned tables."""

from __future__ import annotations

from typing import Any

from tests.golden.cases import Case
from tests.parity.topologies import BOTH, JOINED, KEPT, NOT_X, SHORT, TEXT, Random, call, var

WINDOWED_KEY = call(
    "concat",
    call("field", var("key"), path="key"),
    {"const": "@"},
    call("str", call("field", var("key"), path="start")),
)
ADDED = call("concat", call("coalesce", var("agg"), {"const": ""}), var("value"))


class Wide(Random):
    """As `Random`, without listed deviations: no left or outer joins of streams, no emit on close, no timers.

    What an initializer
    begins and what is suppressed become streams at once, for Kafka Streams names old values there that it never sent.
    Windowed tables become streams under keys of text.
    """

    def case(self) -> Case:
        """The topology and its input."""
        case = super().case()
        return {**case, "name": case["name"].replace("random", "wide"), "family": "wide"}

    def _step(self) -> None:
        if self._random.random() < 0.3:
            super()._step()
            return
        stream = self._random.choice(self._streams)
        table = self._random.choice(self._tables) if self._tables else None
        kinds = [
            "windowed",
            "windowed",
            "session",
            "sliding",
            "stream_stream",
            "stream_stream",
            "cogroup",
            "process",
            "process_values",
            "split",
            "flat_map",
            "repartition",
            "versioned_reduce",
            "count",
        ]
        if table is not None:
            kinds += [
                "foreign_key",
                "foreign_key",
                "suppress",
                "transform",
                "versioned_regroup",
                "versioned_join",
                "count_table",
            ]
        if len([node for node in self._nodes if node["op"] == "global_table"]) < 1:
            kinds.append("global_join")
        made = getattr(self, f"_{self._random.choice(kinds)}")(stream, table)
        (self._tables if made[0] == "table" else self._streams).append(made[1])

    def _number(self, *choices: int) -> int:
        return self._random.choice(choices)

    def _grouped(self, stream: str) -> str:
        if self._random.random() < 0.3:
            return self._add("group_by", stream, key=call("coalesce", var("value"), {"const": "none"}), **TEXT)
        return self._add("group_by_key", stream, **TEXT)

    def _aggregated(self, windows: str, *, sessions: bool) -> str:
        """Its values are texts."""
        kept = {"store": f"s{len(self._nodes)}", **KEPT}
        kind = self._random.choice(["reduce", "aggregate", "count"])
        if kind == "reduce":
            return self._add("reduce", windows, reducer=ADDED, **kept)
        if kind == "count":
            counted = self._add("count", windows, store=f"s{len(self._nodes)}", store_key="string")
            return self._add("map_values", counted, value=call("str", var("value")))
        merger = {"merger": call("concat", var("left"), {"const": "|"}, var("right"))} if sessions else {}
        return self._add("aggregate", windows, initializer={"const": ""}, aggregator=ADDED, **merger, **kept)

    def _from_windows(self, grouped: str, **windows: Any) -> tuple[str, str]:
        closes = self._random.random()
        table = self._aggregated(self._add("windowed_by", grouped, **windows), sessions=windows["type"] == "session")
        if closes < 0.3 and self._nodes[-1]["op"] != "map_values":
            table = self._add("suppress", table, until="window_closes", buffer={"type": "unbounded"})
        elif closes > 0.8 and self._nodes[-1]["op"] == "reduce":
            table = self._add("filter", table, predicate=NOT_X)
        stream = self._add("to_stream", table, key=WINDOWED_KEY)
        return "stream", self._add("map_values", stream, value=SHORT)

    def _windowed(self, stream: str, _: str | None) -> tuple[str, str]:
        size = self._number(10, 20)
        windows = {"type": "tumbling", "size_ms": size}
        if self._random.random() < 0.5:
            windows = {"type": "hopping", "size_ms": size, "advance_ms": self._number(5, 7, 10)}
        return self._from_windows(self._grouped(stream), **windows, grace_ms=self._number(0, 5, 50))

    def _session(self, stream: str, _: str | None) -> tuple[str, str]:
        return self._from_windows(
            self._grouped(stream), type="session", gap_ms=self._number(3, 8), grace_ms=self._number(0, 5, 50)
        )

    def _sliding(self, stream: str, _: str | None) -> tuple[str, str]:
        return self._from_windows(
            self._grouped(stream), type="sliding", difference_ms=self._number(4, 12), grace_ms=self._number(0, 5, 50)
        )

    def _stream_stream(self, stream: str, _: str | None) -> tuple[str, str]:
        other = self._random.choice(self._streams)
        windows = {
            "before_ms": self._number(0, 5, 10),
            "after_ms": self._number(0, 5, 10),
            "grace_ms": self._number(5, 30),
        }
        joined = self._add("join", stream, other, type="inner", joiner=BOTH, windows=windows, **JOINED)
        return "stream", self._add("map_values", joined, value=SHORT)

    def _cogroup(self, stream: str, _: str | None) -> tuple[str, str]:
        first = self._grouped(stream)
        second = self._grouped(self._random.choice(self._streams))
        both = self._add("cogroup", first, second, aggregators=[ADDED, SHORT])
        table = self._add("aggregate", both, initializer={"const": ""}, store=f"s{len(self._nodes)}", **KEPT)
        return "stream", self._add("to_stream", table)

    def _store(self, kind: str = "key_value") -> str:
        store = f"p{len(self._nodes)}"
        self._add("state_store", kind=kind, store=store, key="string", value="string")
        return store

    def _remembering(self, store: str) -> list[Any]:
        known = call("coalesce", call("store_get", var("key"), store=store), {"const": "-"})
        has_key = call("not", call("is_null", var("key")))
        return [{
            "do": "if", "cond": has_key,
            "then": [
                {"do": "forward", "value": call("concat", known, call("str", var("value")))},
                {"do": "put", "store": store, "key": var("key"), "value": SHORT},
            ],
        }]  # fmt: skip

    def _process(self, stream: str, _: str | None) -> tuple[str, str]:
        store = self._store()
        made = self._add("process", stream, stores=[store], on_record=self._remembering(store))
        return "stream", self._add("map_values", made, value=SHORT)

    def _process_values(self, stream: str, _: str | None) -> tuple[str, str]:
        store = self._store()
        made = self._add("process_values", stream, stores=[store], on_record=self._remembering(store))
        return "stream", self._add("map_values", made, value=SHORT)

    def _split(self, stream: str, _: str | None) -> tuple[str, str]:
        name = f"sp{len(self._nodes)}-"
        branches = [{"name": "x", "predicate": call("eq", var("value"), {"const": "x"})}]
        made = self._add("split", stream, name=name, branches=branches, default="rest")
        self._streams.append(self._add("branch", made, branch="x"))
        return "stream", self._add("branch", made, branch="rest")

    def _flat_map(self, stream: str, _: str | None) -> tuple[str, str]:
        items = call("list", call("str", var("value")), {"const": "f"})
        return "stream", self._add("flat_map", stream, items=items, key=var("it"), value=var("value"))

    def _repartition(self, stream: str, _: str | None) -> tuple[str, str]:
        return "stream", self._add("repartition", stream, key="string", value="string", name=f"r{len(self._nodes)}")

    def _versions(self) -> dict[str, Any]:
        return {"store": f"s{len(self._nodes)}", **KEPT, "history_ms": self._number(5, 20, 100)}

    def _versioned_reduce(self, stream: str, _: str | None) -> tuple[str, str]:
        grouped = self._grouped(stream)
        return "table", self._add("reduce", grouped, reducer=SHORTER, **self._versions())

    def _versioned_regroup(self, _: str, table: str) -> tuple[str, str]:
        grouped = self._add("group_by", table, key=var("value"), value=var("value"), **TEXT)
        smaller = call("min", var("agg"), var("value"))
        return "table", self._add("reduce", grouped, adder=smaller, subtractor=var("agg"), **self._versions())

    def _versioned_join(self, stream: str, table: str) -> tuple[str, str]:
        others = [each for each in self._tables if each != table]
        if not others:
            return self._to_versioned(stream, table)
        other, kind = self._random.choice(others), self._random.choice(["inner", "left", "outer"])
        return "stream", self._add(
            "to_stream", self._add("join", table, other, type=kind, joiner=BOTH, **self._versions())
        )

    def _to_versioned(self, stream: str, _: str | None) -> tuple[str, str]:
        return "table", self._add("to_table", stream, **self._versions())

    def _count(self, stream: str, _: str | None) -> tuple[str, str]:
        counted = self._add("count", self._grouped(stream), store=f"s{len(self._nodes)}", store_key="string")
        return "stream", self._add("to_stream", self._add("map_values", counted, value=call("str", var("value"))))

    def _count_table(self, _: str, table: str) -> tuple[str, str]:
        grouped = self._add("group_by", table, key=var("value"), value=var("value"), **TEXT)
        counted = self._add("count", grouped, store=f"s{len(self._nodes)}", store_key="string")
        return "stream", self._add("to_stream", self._add("map_values", counted, value=call("str", var("value"))))

    def _foreign_key(self, _: str, table: str) -> tuple[str, str]:
        other = self._random.choice(self._tables)
        kind = self._random.choice(["inner", "left"])
        key = (
            call("coalesce", var("value"), {"const": "k"})
            if self._random.random() < 0.2
            else call("if", call("eq", var("value"), {"const": "x"}), {"const": "k"}, {"const": "l"})
        )
        return "table", self._add(
            "join",
            table,
            other,
            type=kind,
            joiner=BOTH,
            foreign_key=key,
            **(self._versions() if self._random.random() < 0.2 else KEPT),
        )

    def _suppress(self, _: str, table: str) -> tuple[str, str]:
        limit = self._number(0, 5, 20)
        held = self._add("suppress", table, until="time_limit", limit_ms=limit, buffer={"type": "unbounded"})
        return "stream", self._add("to_stream", held)

    def _transform(self, _: str, table: str) -> tuple[str, str]:
        value = call("if", call("is_null", var("value")), {"const": None}, call("concat", var("value"), {"const": "!"}))
        return "table", self._add("transform_values", table, value=value, **self._kept(0.4))

    def _global_join(self, stream: str, _: str | None) -> tuple[str, str]:
        topic = "global"
        self._topics.append(topic)
        table = self._add("global_table", topic=topic, key="string", value="string", store=f"s{len(self._nodes)}")
        kind = self._random.choice(["inner", "left"])
        key = call("if", call("eq", var("value"), {"const": "x"}), {"const": "k"}, {"const": "l"})
        return "stream", self._add("join", stream, table, type=kind, joiner=BOTH, global_key=key)


SHORTER = call("min", var("agg"), var("value"))
