"""Whatever is done to the topologies of a shared runtime, each has the result that it has alone."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.spark.place import Place
from tests.unit.app.query_in_process import QueryInProcess, embedded_place, runtime_in

from hayase import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Repartitioned,
    Serdes,
    State,
    StreamsBuilder,
    StreamsRuntime,
    Topology,
    count,
)
from hayase.runtime.driver import shared_query

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

TEXT, JSON = Serdes.string(), Serdes.json(schema={"id": pl.Int64})
KEYS = 5
STEPS = 14
WAIT_S = 60.0


def _first() -> dict[str, int]:
    return {"n": 0, "id": -1}


def _next(key: str, value: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {"n": before["n"] + 1, "id": value["id"]}


def _by_rest(key: str, value: dict[str, int]) -> str:
    return f"k{value['id'] % 3}"


def _all(key: str, value: dict[str, int]) -> bool:
    return True


def built(shape: str, sink: str, version: int) -> Topology:
    """One of four shapes; its versions have the same results, and other nodes, numbers and topics of their own."""
    builder = StreamsBuilder()
    stream: Any = builder.stream("in", Consumed.with_(TEXT, JSON))
    if version == 1:
        stream = stream.filter(_all)
    if version == 2:
        stream.group_by(_by_rest, Grouped.with_(TEXT, JSON, name="more")).agg(Materialized.as_("more"), n=count())
    written = Produced.with_(TEXT, Serdes.json())
    if shape == "copy":
        stream.to(sink, written)
        return builder.build()
    if shape == "by rest":
        grouped = stream.group_by(_by_rest, Grouped.with_(TEXT, JSON, name="by-rest"))
    elif shape == "through a topic" and version != 1:
        again = Repartitioned.as_("again").with_key_serde(TEXT).with_value_serde(JSON)
        grouped = stream.select_key(_by_rest, name="rekeyed").repartition(again).group_by_key()
    elif shape == "through a topic":
        grouped = stream.group_by(_by_rest, Grouped.with_(TEXT, JSON, name="at-once"))
    else:
        grouped = stream.group_by_key()
    stored = Materialized.as_("counts").with_key_serde(TEXT).with_value_serde(Serdes.json())
    grouped.aggregate(_first, _next, stored, name="count").to_stream().to(sink, written)
    return builder.build()


SHAPES = {"copies": "copy", "counts": "by key", "rests": "by rest", "around": "through a topic"}
"""Names of topologies, and what they are."""


class Interleaving:
    """Random steps on a runtime and its topologies, and what has to come of it; `span_ms` 0: each job is a round."""

    def __init__(self, seed: int, place: Place, span_ms: int) -> None:
        self.random = random.Random(seed)
        self.place = place
        self.span_ms = span_ms
        self.ids = 0
        self.given: list[tuple[str, int]] = []
        self.begins: dict[str, dict[int, int]] = {}
        """Topology → where the outputs of its present identity begin."""
        self.versions = dict.fromkeys(SHAPES, 0)
        self.absent = set(SHAPES)
        self.said: list[str] = []
        place.topic("in")
        for name in SHAPES:
            place.topic(f"out-{name}")
            self.begins[name] = {0: 0, 1: 0}
        self.runtime = self._opened()

    def step(self) -> None:
        """One that is possible now."""
        here = sorted(SHAPES.keys() - self.absent)
        possible: list[Callable[[], None]] = [self.put, self.put, self.wait_a_moment]
        if self.absent:
            possible += [lambda: self.add(self.random.choice(sorted(self.absent)))] * 2
        if here:
            name = self.random.choice(here)
            possible += [
                lambda: self.remove(name, delete_state=False),
                lambda: self.remove(name, delete_state=True),
                lambda: self.tell("pause", name, self.runtime.pause),
                lambda: self.tell("resume", name, self.runtime.resume),
                lambda: self.tell("restart", name, self.runtime.restart),
                lambda: self.replace(name),
                lambda: self.replace(name),
                self.open_again,
            ]
        self.random.choice(possible)()

    def put(self) -> None:
        records = [(f"k{self.random.randrange(KEYS)}", self.ids + i) for i in range(self.random.choice((1, 3, 12)))]
        self.said.append(f"put {len(records)}")
        self.ids += len(records)
        self.given += records
        self.place.put("in", [(key, {"id": id_}, id_) for key, id_ in records])

    def wait_a_moment(self) -> None:
        time.sleep(self.random.uniform(0.0, 0.3))

    def add(self, name: str) -> None:
        self.said.append(f"add {name}")
        self.runtime.add_topology(name, self._topology(name), self._settings())
        self.absent.discard(name)

    def remove(self, name: str, *, delete_state: bool) -> None:
        self.said.append(f"remove {name}{' with its state' if delete_state else ''}")
        self.runtime.remove_topology(name, delete_state=delete_state)
        self.absent.add(name)
        if delete_state:
            partitions = enumerate(self.place.partitions(f"out-{name}"))
            self.begins[name] = {number: len(rows) for number, rows in partitions}

    def tell(self, what: str, name: str, ask: Callable[[str], object]) -> None:
        self.said.append(f"{what} {name}")
        ask(name)

    def replace(self, name: str) -> None:
        self.versions[name] = self.random.randrange(3)
        self.said.append(f"replace {name} by version {self.versions[name]}")
        self.runtime.replace_topology(name, self._topology(name))

    def open_again(self) -> None:
        """The runtime ends, and another one remembers the topologies."""
        self.said.append("a new runtime")
        assert self.runtime.close()
        self.runtime = self._opened()

    def come_to_the_end(self) -> None:
        for name in sorted(self.absent):
            self.add(name)
        for name in SHAPES:
            self.runtime.resume(name)
        self.put()
        deadline = time.monotonic() + WAIT_S
        while not all(len(self.outputs(name)) >= len(self.given) for name in SHAPES):
            states = {name: (app.state, app.error) for name, app in self.runtime.topologies.items()}
            assert all(state in (State.REBALANCING, State.RUNNING) for state, _ in states.values()), (states, self.said)
            assert time.monotonic() < deadline, (states, self.said)
            time.sleep(0.02)
        assert self.runtime.close(timedelta(seconds=60))

    def outputs(self, name: str) -> list[tuple[str | None, dict[str, int]]]:
        """Of a topology's present identity, partition by partition."""
        return [
            (row.key, row.value)
            for number, rows in enumerate(self.place.partitions(f"out-{name}"))
            for row in rows[self.begins[name][number] :]
        ]

    def check(self) -> None:
        """Each input is in each topology's outputs once, in order by key, and counts go up by one."""
        for name, shape in SHAPES.items():
            outputs = self.outputs(name)
            expected = [(key, id_) if shape in ("copy", "by key") else (f"k{id_ % 3}", id_) for key, id_ in self.given]
            assert Counter((key, value["id"]) for key, value in outputs) == Counter(expected), (name, self.said)
            of_keys: dict[Any, list[dict[str, int]]] = {}
            for key, value in outputs:
                of_keys.setdefault(key, []).append(value)
            for key, values in of_keys.items():
                if shape in ("copy", "by key"):  # the others merge two partitions
                    assert [value["id"] for value in values] == [i for k, i in expected if k == key], (name, self.said)
                if shape != "copy":
                    assert [value["n"] for value in values] == [*range(1, len(values) + 1)], (name, self.said)

    def _topology(self, name: str) -> Topology:
        return built(SHAPES[name], f"out-{name}", self.versions[name])

    def _settings(self) -> dict[str, object]:
        return {
            "commit.interval.ms": self.random.choice((0, 20)),
            "max.records.per.epoch": self.random.choice((5, 20, 1000)),
            "statestore.cache.max.bytes": 0,
        }

    def _opened(self) -> StreamsRuntime:
        runtime = runtime_in(self.place, epoch_span_max_ms=self.span_ms)
        runtime.start()
        return runtime


def expect_results_as_alone(seed: int, span_ms: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_query, "SharedQuery", QueryInProcess)
    with embedded_place(folder) as place:
        steps = Interleaving(seed, place, span_ms)
        try:
            for _ in range(STEPS):
                steps.step()
            steps.come_to_the_end()
            steps.check()
        finally:
            steps.runtime.close(timedelta(0))


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 40))])
def test_each_topology_has_the_result_that_it_has_alone(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_results_as_alone(seed, 300, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "seed", [*range(40, 42), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(42, 60))]
)
def test_each_topology_has_the_result_that_it_has_alone_where_each_job_is_a_round(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_results_as_alone(seed, 0, tmp_path, monkeypatch)
