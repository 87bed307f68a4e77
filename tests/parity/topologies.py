"""Random topologies in the format of the golden cases, one for each seed."""

from __future__ import annotations

import random
from typing import Any

from tests.golden.cases import Case

TEXT = {"key_serde": "string", "value_serde": "string"}
KEPT = {"store_key": "string", "store_value": "string"}
JOINED = {"key_serde": "string", "left_serde": "string", "right_serde": "string"}


def var(name: str) -> Any:
    """A variable of an expression."""
    return {"var": name}


def call(function: str, *args: Any, **more: Any) -> Any:
    """A function of an expression."""
    return {"fn": function, "args": list(args), **more}


BOTH = call("concat", call("str", var("left")), call("str", var("right")))
NOT_X = call("ne", var("value"), {"const": "x"})
SHORT = call("if", call("gt", call("length", var("value")), {"const": 6}), {"const": "x"}, var("value"))


class Random:
    """One topology while it is made: streams and tables of text, from which each step takes some.

    Values that grow are cut, so that they meet again.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._seed = seed
        self._nodes: list[Any] = []
        self._streams: list[str] = []
        self._tables: list[str] = []
        self._topics: list[str] = []

    def case(self) -> Case:
        """The topology and its input."""
        for _ in range(self._random.randint(1, 2)):
            self._streams.append(self._read("stream"))
        for _ in range(self._random.randint(0, 2)):
            self._tables.append(self._read("table"))
        for _ in range(self._random.randint(2, 7)):
            self._step()
        for number, node in enumerate([*self._streams, *self._tables][-4:]):
            stream = self._add("to_stream", node) if node in self._tables else node
            self._add("to", stream, topic=f"out{number}", key="string", value="string")
        config = {"optimize": True} if self._random.random() < 0.25 else {}
        return {
            "name": f"random/{self._seed}/r", "family": "random", "topology_name": str(self._seed), "seed": "r",
            "about": "", "tags": [], "config": config, "topology": self._nodes, "inputs": self._inputs(),
        }  # fmt: skip

    def _add(self, op: str, *parents: str, **args: Any) -> str:
        name = f"n{len(self._nodes)}"
        self._nodes.append({"id": name, "op": op, "from": list(parents), "args": args})
        return name

    def _read(self, op: str) -> str:
        topic = f"in{len(self._topics)}"
        self._topics.append(topic)
        if op == "table":
            return self._add("table", topic=topic, key="string", value="string", **self._kept(0.4, serdes=False))
        return self._add("stream", topics=[topic], key="string", value="string")

    def _kept(self, chance: float, *, serdes: bool = True) -> dict[str, Any]:
        if self._random.random() > chance:
            return {}
        return {"store": f"s{len(self._nodes)}", **(KEPT if serdes else {})}

    def _step(self) -> None:
        pick = self._random.choice
        stream = pick(self._streams)
        table = pick(self._tables) if self._tables else None
        kinds = ["map_values", "filter", "select_key", "merge", "reduce", "to_table"]
        if table is not None:
            kinds += ["table_filter", "table_map", "regroup", "regroup", "stream_table", "table_table", "table_table"]
        made = getattr(self, f"_{pick(kinds)}")(stream, table)
        (self._tables if made[0] == "table" else self._streams).append(made[1])

    def _map_values(self, stream: str, _: str | None) -> tuple[str, str]:
        return "stream", self._add("map_values", stream, value=SHORT)

    def _filter(self, stream: str, _: str | None) -> tuple[str, str]:
        return "stream", self._add("filter", stream, predicate=NOT_X)

    def _select_key(self, stream: str, _: str | None) -> tuple[str, str]:
        return "stream", self._add("select_key", stream, key=var("value"))

    def _merge(self, stream: str, _: str | None) -> tuple[str, str]:
        return "stream", self._add("merge", stream, self._random.choice(self._streams))

    def _reduce(self, stream: str, _: str | None) -> tuple[str, str]:
        grouped = self._add("group_by_key", stream, **TEXT)
        return "table", self._add("reduce", grouped, reducer=var("value"), **self._kept(1))

    def _to_table(self, stream: str, _: str | None) -> tuple[str, str]:
        return "table", self._add("to_table", stream, **self._kept(1))

    def _table_filter(self, _: str, table: str) -> tuple[str, str]:
        return "table", self._add("filter", table, predicate=NOT_X, **self._kept(0.4))

    def _table_map(self, _: str, table: str) -> tuple[str, str]:
        return "table", self._add("map_values", table, value=SHORT, **self._kept(0.4))

    def _regroup(self, _: str, table: str) -> tuple[str, str]:
        by = self._random.choice([var("value"), {"const": "all"}])
        grouped = self._add("group_by", table, key=by, value=var("value"), **TEXT)
        smaller = call("min", var("agg"), var("value"))
        return "table", self._add("reduce", grouped, adder=smaller, subtractor=var("agg"), **self._kept(1))

    def _stream_table(self, stream: str, table: str) -> tuple[str, str]:
        kind = self._random.choice(["inner", "left"])
        return "stream", self._add("join", stream, table, type=kind, joiner=BOTH, **JOINED)

    def _table_table(self, _: str, table: str) -> tuple[str, str]:
        kind = self._random.choice(["inner", "left", "outer"])
        others = [each for each in self._tables if each != table]
        if (
            not others
        ):  # with itself: Kafka Streams names old results there that it never sent, and a regrouping takes them out
            return self._table_filter(_, table)
        other = self._random.choice(others)
        return "table", self._add("join", table, other, type=kind, joiner=BOTH, **self._kept(0.5))

    def _inputs(self) -> list[Any]:
        pick, time = self._random.choice, 0
        found = []
        for _ in range(30):
            time = max(0, time + self._random.randint(-5, 10))
            found.append(
                {"topic": pick(self._topics), "key": pick("kl"), "value": pick(["x", "y", None]), "timestamp": time}
            )
        return found
