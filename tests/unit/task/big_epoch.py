"""Runs one large epoch of a bundle in this process and prints the memory that it took.

`python -m tests.unit.task.big_epoch JSON` runs it.

The first epoch is small: what is loaded once is loaded then.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl

from hayase import Consumed, Materialized, Produced, Serdes, StreamsBuilder, StreamsConfig, Topology, count, max_, sum_
from hayase.compiler.build import make_plan
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options, failure_policy
from hayase.log.open import open_log
from hayase.log.protocol import EpochWriter, Log, LogConfig, LogReader, OutputBatch
from hayase.state.changelog.changelog import Changelog
from hayase.state.delta.delta import Delta
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.folders import StateFolders
from hayase.storage.posix_blobs import PosixBlobs
from hayase.task.bundle import BundleRunner
from hayase.task.edges import ReceivedRows
from hayase.task.epoch_record import EpochRecord

TEXT = Serdes.string()
READ = Consumed.with_(TEXT, Serdes.json(schema={"n": pl.Int64, "pad": pl.String}))


def topology(kind: str) -> Topology:
    """`table`: every record changes a row as large as itself and is sent on; `count`: an aggregate.

    `filter`: no state.
    """
    builder = StreamsBuilder()
    write = Produced.with_(TEXT, Serdes.json())
    if kind == "table":
        builder.table("in", READ, Materialized.as_("t")).to_stream().to("out", write)
    elif kind == "count":
        table = (
            builder.stream("in", READ)
            .group_by_key()
            .agg(Materialized.as_("t"), n=count(), total=sum_("n"), last=max_("pad"))
        )
        table.to_stream().to("out", write)
    else:
        builder.stream("in", READ).filter(pl.col("n") % 2 == 0).to("out", write)
    return builder.build()


class Host:
    """`hayase.task.task_context.WorkerServices`."""

    application_id = "big"
    checkpoint_id = "lineage"
    exactly_once = True
    recording_level = "INFO"

    def __init__(self, folder: Path, log: Log, max_bytes: int) -> None:
        self.policy = failure_policy(StreamsConfig({"application.id": "big"}))
        self.blobs = PosixBlobs(folder / "checkpoint", fsync=False)
        self.epoch_memory_max_bytes = max_bytes
        self.folders = StateFolders(folder, folder / "memory")
        self._log, self._reader, self._writer = log, log.reader(), log.writer()

    def reader(self) -> LogReader:
        return self._reader

    def writer(self) -> EpochWriter:
        return self._writer

    def partitions_of(self, topic: str) -> int:
        return self._log.describe([topic])[topic].partitions

    def state_copies(self, bundle: str) -> list[Path]:
        return []

    def after_apply(self, state: BundleState, changelog: Changelog, delta: Delta) -> None:
        return


def load(log: Log, records: int, value_bytes: int, keys: int) -> None:
    """Write the input, some thousand records at a time."""
    writer = log.writer()
    pad = "x" * value_bytes
    for start in range(0, records, 20_000):
        numbers = range(start, min(start + 20_000, records))
        values: list[bytes | None] = [json.dumps({"n": n, "pad": f"{n:x}{pad}"}).encode() for n in numbers]
        writer.append([OutputBatch("in", [f"k{n % keys}".encode() for n in numbers], values, list(numbers))])
    writer.close()


def anonymous_bytes() -> int:
    """Memory that is not that of files."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


class Peak:
    """The largest `anonymous_bytes` while the `with` lasts, seen by another process."""

    _CODE = "import re,sys,time\nn=0\nwhile True:\n t=open(f'/proc/{sys.argv[1]}/status').read()\n"
    _CODE += " n=max(n,int(re.search(r'RssAnon:\\s+(\\d+)',t)[1]))\n print(n,flush=True)\n time.sleep(0.01)"

    def __enter__(self) -> Peak:
        self._watch = subprocess.Popen([sys.executable, "-c", self._CODE, str(os.getpid())], stdout=subprocess.PIPE)
        assert self._watch.stdout is not None
        self._watch.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.kill()
        said = self._watch.communicate()[0]
        self.found = max(int(line) for line in said.splitlines()[:-1]) * 1024


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Load the input, run the epochs."""
    folder = Path(spec["folder"])
    log = open_log(LogConfig("embedded", str(folder / "log"), {"fsync": "false"}))
    log.create_topic("in", 1)
    log.create_topic("out", 1)
    load(log, spec["records"], spec["value_bytes"], spec["keys"])
    config = StreamsConfig({"application.id": "big", "processing.form": spec["form"]})
    made, options = topology(spec["kind"]), compile_options(config)
    plan = make_plan(made, {"in": 1}, compile_subtopologies(made, options), threads=1)
    (bundle,) = plan.bundles
    host = Host(folder, log, spec["max_bytes"])
    runner = BundleRunner(compile_subtopologies(made, options, plan.repartitions)[bundle.subtopology], bundle, host, {})
    few = min(1000, spec["records"])
    runner.run(record(0, 0, few), ReceivedRows())
    before, start = anonymous_bytes(), time.process_time()
    with Peak() as peak:
        result = runner.run(record(1, few, spec["records"]), ReceivedRows())
    return {"grown": peak.found - before, "cpu_s": time.process_time() - start, "steps": result.summary.seconds}


def record(epoch: int, start: int, end: int) -> EpochRecord:
    return EpochRecord(epoch, "lineage", "plan", 0, {"in": {0: (start, end)}}, {})


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
