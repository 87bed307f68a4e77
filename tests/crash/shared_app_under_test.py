"""The application of the crash suite as a topology of a shared runtime, beside four of other shapes.

`python -m tests.crash.shared_app_under_test SPEC.json`
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
from tests.crash.app_under_test import Spec, build, publish_pids
from tests.crash.input import WINDOW_MS

from hayase import (
    Consumed,
    HayaseError,
    Materialized,
    Produced,
    Repartitioned,
    Serdes,
    StreamsBuilder,
    StreamsRuntime,
    TimeWindows,
    Topology,
    count,
)
from hayase.app.runtime_settings import is_of_topologies

_ID = "application.id"
_TEXT, _JSON = Serdes.string(), Serdes.json(schema={"id": pl.Int64})
_WRITTEN = Produced.with_(Serdes.string(), Serdes.json())


def counting(topic: str, counted: str, *, through: bool = False) -> Topology:
    """Counts what the application under test reads, behind a topic of its own or at once, and writes each count."""
    builder = StreamsBuilder()
    stream = builder.stream(topic, Consumed.with_(_TEXT, _JSON))
    if through:
        again = Repartitioned.as_("again").with_key_serde(_TEXT).with_value_serde(_JSON)
        stream = stream.repartition(again)
    stream.group_by_key().agg(Materialized.as_("seen"), n=count()).to_stream().to(counted, _WRITTEN)
    return builder.build()


def copying(topic: str, copied: str) -> Topology:
    """Copies it, without state."""
    builder = StreamsBuilder()
    builder.stream(topic, Consumed.with_(_TEXT, _JSON)).map_values(dict).to(copied, _WRITTEN)
    return builder.build()


def windowed(topic: str, written: str) -> Topology:
    """Counts it by key and window, and writes each count under `key@start`."""
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(timedelta(milliseconds=WINDOW_MS))
    grouped = builder.stream(topic, Consumed.with_(_TEXT, _JSON)).group_by_key().windowed_by(windows)
    counts = grouped.agg(Materialized.as_("by-window"), n=count()).to_stream()
    counts.select_key(_name_of_window).to(written, _WRITTEN)
    return builder.build()


def _name_of_window(key: Any, value: object) -> str:
    return f"{key.key}@{key.window.start_ms}"


def neighbours_of(prefix: str) -> dict[str, Topology]:
    """The other topologies, by name."""
    return {
        "orders": counting(f"{prefix}orders", f"{prefix}counted-orders"),
        "users": counting(f"{prefix}users", f"{prefix}counted-users", through=True),
        "copies": copying(f"{prefix}events", f"{prefix}copied"),
        "windows": windowed(f"{prefix}orders", f"{prefix}windowed"),
    }


def run_shared(spec: Spec, topology: Topology, neighbours: Mapping[str, Topology]) -> int:
    """Run to the end of the input; 1 if anything failed, with the reason on standard error."""
    threading.Thread(target=publish_pids, args=(Path(spec.pids),), daemon=True).start()
    of_topology = {key: value for key, value in spec.settings.items() if is_of_topologies(key)}
    of_runtime = {key: value for key, value in spec.settings.items() if key not in of_topology}
    application_id = str(of_runtime[_ID])
    runtime = StreamsRuntime({**of_runtime, _ID: f"shared.{application_id}"}, recall=False)
    signal.signal(signal.SIGTERM, lambda *_: runtime.close())
    runtime.add_topology("main", topology, of_topology, application_id=application_id)
    for name, neighbour in neighbours.items():
        runtime.add_topology(name, neighbour, of_topology)
    try:
        runtime.run_to_end(timedelta(minutes=spec.minutes))
    except HayaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    given = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Spec)
    code = run_shared(given, build(given.prefix), neighbours_of(given.prefix))
    sys.stdout.flush()
    os._exit(code)
