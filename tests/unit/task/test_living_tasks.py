"""Processors live as long as their task stays in a process, and end where another process or attempt has run it."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.query.local_app import LocalApp

from hayase import Consumed, Processor, Produced, Serdes, Stores, StreamsBuilder, Topology
from hayase.core.errors import ProcessingError
from hayase.core.failpoints import VARIABLE, FailpointError
from hayase.core.records import TopicPartition
from hayase.log.protocol import RecordBatch
from hayase.task.outputs import TopicOutput

TEXT, LONG, JSON = Serdes.string(), Serdes.long(), Serdes.json()


class Numbering(Processor[Any, Any, Any, Any]):
    """Sends how many records it and its store have seen."""

    calls: list[str] = []

    def init(self, context: Any) -> None:
        self.context, self.store, self.seen = context, context.get_state_store("seen"), 0
        self.calls.append("init")

    def process(self, record: Any) -> None:
        if record.value["item"] == "bad":
            raise ValueError("bad")
        self.seen += 1
        self.store.put("n", (self.store.get("n") or 0) + 1)
        self.context.forward(record.with_value(self.seen * 100 + self.store.get("n")))

    def close(self) -> None:
        self.calls.append(f"close {self.seen}")


def topology() -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store("seen", TEXT, LONG))
    builder.stream("orders", Consumed.with_(TEXT, JSON)).process(Numbering, "seen").to(
        "out", Produced.with_(TEXT, LONG)
    )
    return builder.build()


@pytest.fixture
def apps(tmp_path: Path) -> Iterator[list[LocalApp]]:
    """The application in two processes of two machines."""
    Numbering.calls.clear()
    found = [
        LocalApp(
            tmp_path, topology(), partitions=1, state_dir=tmp_path / str(n), checkpoint_dir=tmp_path / "checkpoint"
        )
        for n in range(2)
    ]
    found[0].log.create_topic("out", 1)
    yield found
    for app in found:
        app.close()


def epoch(app: LocalApp, *others: LocalApp, item: str = "tea") -> None:
    """One with one record; the others run it afterwards, too."""
    app.put([("ada", item, 1)])
    record = app.plan_epoch()
    for each in (app, *others):
        each.run_bundle("0-0", record, [])
    app.mark_done(record)


def out(app: LocalApp) -> list[int]:
    place = TopicPartition("out", 0)
    batches = app.reader().fetch(place, 0, app.log.end_offsets([place])[place])
    return [LONG.deserialize(value) for batch in batches for value in batch.values]


def test_a_processor_sees_epoch_after_epoch_and_is_closed_with_its_process(apps: list[LocalApp]) -> None:
    for _ in range(3):
        epoch(apps[0])
    assert out(apps[0]) == [101, 202, 303]
    assert Numbering.calls == ["init"]
    apps.pop(0).close()
    assert Numbering.calls == ["init", "close 3"]


def test_a_task_that_was_elsewhere_meanwhile_comes_back_with_a_new_processor(apps: list[LocalApp]) -> None:
    here, there = apps
    epoch(here), epoch(there), epoch(there), epoch(here)
    assert out(here) == [101, 102, 203, 104]
    assert Numbering.calls == ["init", "init", "close 1", "init"]


def test_an_attempt_that_finds_the_epoch_done_by_another_forgets_what_it_remembered(apps: list[LocalApp]) -> None:
    here, there = apps
    epoch(here)
    epoch(there, here)
    assert Numbering.calls == ["init", "init", "close 1"]
    epoch(here)
    assert out(here) == [101, 102, 103]


def test_an_attempt_that_failed_closes_its_processor(apps: list[LocalApp]) -> None:
    epoch(apps[0])
    with pytest.raises(ProcessingError):
        epoch(apps[0], item="bad")
    assert Numbering.calls == ["init", "close 1"]


def test_an_attempt_that_is_killed_before_its_delta_begins_anew(
    apps: list[LocalApp], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch(apps[0])
    apps[0].put([("ada", "tea", 1)])
    record = apps[0].plan_epoch()
    entry = {"name": "before_delta", "action": "raise", "token": str(tmp_path / "token")}
    monkeypatch.setenv(VARIABLE, json.dumps([entry]))
    with pytest.raises(FailpointError):
        apps[0].run_bundle("0-0", record, [])
    apps[0].run_bundle("0-0", record, [])
    assert out(apps[0]) == [101, 102]
    assert Numbering.calls == ["init", "close 2", "init"]


def test_what_an_epoch_read_and_sent_is_freed_without_the_garbage_collector(apps: list[LocalApp]) -> None:
    app = apps[0]
    epoch(app)  # from now on a processor and punctuations live on
    gc.collect()
    gc.disable()
    try:
        before = {id(each) for each in gc.get_objects()}
        epoch(app)
        left = [each for each in gc.get_objects() if id(each) not in before]
        assert not [each for each in left if isinstance(each, TopicOutput) or _is_of(each, "orders")]
    finally:
        gc.enable()


def _is_of(value: object, topic: str) -> bool:
    return isinstance(value, RecordBatch) and value.topic == topic
