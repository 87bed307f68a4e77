"""The application of the crash suite as a topology of a shared runtime, beside two neighbours with the same input.

`python -m tests.crash.shared_app_under_test SPEC.json`
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from datetime import timedelta
from pathlib import Path

import msgspec
import polars as pl
from tests.crash.app_under_test import Spec, build, publish_pids
from tests.crash.input import COUNTED

from hayase import (
    Consumed,
    HayaseError,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    StreamsRuntime,
    Topology,
    count,
)
from hayase.app.runtime_settings import is_of_topologies

_ID = "application.id"


def neighbour(topic: str, counted: str) -> Topology:
    """Counts what the application under test reads, and writes each count."""
    builder = StreamsBuilder()
    read = Consumed.with_(Serdes.string(), Serdes.json(schema={"id": pl.Int64}))
    counts = builder.stream(topic, read).group_by_key().agg(Materialized.as_("seen"), n=count())
    counts.to_stream().to(counted, Produced.with_(Serdes.string(), Serdes.json()))
    return builder.build()


def run() -> int:
    """Run to the end of the input; 1 if anything failed, with the reason on standard error."""
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Spec)
    threading.Thread(target=publish_pids, args=(Path(spec.pids),), daemon=True).start()
    of_topology = {key: value for key, value in spec.settings.items() if is_of_topologies(key)}
    of_runtime = {key: value for key, value in spec.settings.items() if key not in of_topology}
    application_id = str(of_runtime[_ID])
    runtime = StreamsRuntime({**of_runtime, _ID: f"shared.{application_id}"}, recall=False)
    signal.signal(signal.SIGTERM, lambda *_: runtime.close())
    runtime.add_topology("main", build(spec.prefix), of_topology, application_id=application_id)
    for topic in COUNTED:
        counted = neighbour(f"{spec.prefix}{topic}", f"{spec.prefix}counted-{topic}")
        runtime.add_topology(topic, counted, of_topology)
    try:
        runtime.run_to_end(timedelta(minutes=spec.minutes))
    except HayaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    code = run()
    sys.stdout.flush()
    os._exit(code)
