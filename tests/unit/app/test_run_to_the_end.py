"""A shared runtime that runs to the end: all topologies end at what was there at the call."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.spark.place import Place
from tests.unit.app.query_in_process import QueryInProcess, embedded_place, runtime_in

from hayase import Consumed, Produced, Serdes, StreamsBuilder, Topology
from hayase.runtime.driver import shared_query

pytestmark = pytest.mark.long

WAIT_S = 30.0
RECORDS = [("a", "1", 1), ("b", "2", 2), ("c", "3", 3)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with embedded_place(tmp_path, "in", "middle", "out") as made:
        yield made


class SecondLate(QueryInProcess):
    """Starts the second topology only when the first one has written."""

    place: Place

    def list_topology(self, application_id: str, options: Mapping[str, str], **how: Any) -> int:
        deadline = time.monotonic() + WAIT_S
        while application_id.endswith("second") and len(self.place.rows("middle")) < len(RECORDS):
            assert time.monotonic() < deadline, "the first topology has written nothing"
            time.sleep(0.01)
        return super().list_topology(application_id, options, **how)


def copying(source: str | re.Pattern[str], sink: str) -> Topology:
    text = Serdes.string()
    builder = StreamsBuilder()
    builder.stream(source, Consumed.with_(text, text)).to(sink, Produced.with_(text, text))
    return builder.build()


@pytest.mark.parametrize("source", ["middle", re.compile("mid.*")], ids=["by name", "by pattern"])
def test_what_one_topology_writes_another_one_that_starts_later_does_not_read(
    source: str | re.Pattern[str], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SecondLate, "place", place, raising=False)
    monkeypatch.setattr(shared_query, "SharedQuery", SecondLate)
    place.put("in", RECORDS)
    place.put("middle", [("z", "0", 0)])
    runtime = runtime_in(place)
    runtime.add_topology("first", copying("in", "middle"))
    runtime.add_topology("second", copying(source, "out"))
    reports = runtime.run_to_end()
    assert (reports["first"].consumed, reports["second"].consumed) == (3, 1)
    assert [row.key for row in place.rows("out")] == ["z"]
    assert {name: report.consumed for name, report in runtime_in(place).run_to_end().items()} == {
        "first": 0,
        "second": 3,
    }, "topologies that are remembered end at the call, too, and read what was left"


def test_a_topology_without_a_topic_fails_alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_query, "SharedQuery", QueryInProcess)
    place.put("in", RECORDS)
    runtime = runtime_in(place)
    runtime.add_topology("lost", copying(re.compile("none.*"), "out"))
    runtime.add_topology("good", copying("in", "out"))
    with pytest.raises(Exception, match=r"no topic matches the pattern 'none\.\*'"):
        runtime.run_to_end()
    assert len(place.rows("out")) == len(RECORDS)
