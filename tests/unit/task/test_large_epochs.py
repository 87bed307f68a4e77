"""The epoch of a bundle that is too large for memory: its delta is in parts, and everything else is as ever."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.task.big_epoch import READ, TEXT, Host, load, record, topology

from hayase import Produced, Serdes, StreamsBuilder, StreamsConfig, Topology
from hayase.compiler.build import make_plan
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options
from hayase.core.errors import StateError
from hayase.core.failpoints import VARIABLE, FailpointError
from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig
from hayase.state.changelog.changelog import Changelog
from hayase.state.environment.bundle import BundleState
from hayase.storage.lmdb_env import close_environment
from hayase.storage.posix_blobs import PosixBlobs
from hayase.task.bundle import BundleRunner
from hayase.task.edges import ReceivedRows

pytestmark = pytest.mark.long

RECORDS = 400
TINY = 40_000
PLENTY = 1 << 30


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = open_log(LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false"}))
    log.create_topic("in", 1)
    log.create_topic("out", 3)
    load(log, RECORDS, 300, 40)
    yield log
    log.close()


class Machine:
    """A machine that runs the one bundle of an application."""

    def __init__(self, folder: Path, log: Log, made: Topology, form: str = "columns", max_bytes: int = TINY) -> None:
        options = compile_options(StreamsConfig({"application.id": "big", "processing.form": form}))
        plan = make_plan(made, {"in": 1}, compile_subtopologies(made, options), threads=1)
        (self.bundle,) = plan.bundles
        self.host = Host(folder, log, max_bytes)
        self.runner = BundleRunner(
            compile_subtopologies(made, options, plan.repartitions)[self.bundle.subtopology], self.bundle, self.host, {}
        )
        self.changelog = Changelog(self.host.blobs, self.bundle.id)
        self.folder = folder

    def run(self, *bounds: int) -> list[bool]:
        """Epochs that end there; whether each found its delta."""
        ends = bounds or (RECORDS,)
        return [
            self.runner.run(record(epoch, start, end), ReceivedRows()).summary.adopted
            for epoch, (start, end) in enumerate(zip((0, *ends), ends, strict=False))
        ]

    def content(self) -> dict[tuple[str, bytes], bytes]:
        state = BundleState(
            self.host.folders.spill(self.bundle.id),
            application_id="big",
            checkpoint_id="lineage",
            bundle=self.bundle.id,
        )
        with state.begin() as epoch:
            task = epoch.task(self.bundle.tasks[0].id)
            found = {(name, key): value for name in ("t", "__clocks") for key, value in task.store(name).range()}
        state.close()
        return found

    def close(self) -> None:
        self.runner.close()
        close_environment(self.host.folders.spill(self.bundle.id))


def sent(log: Log) -> list[list[tuple[bytes | None, bytes | None, int]]]:
    """What is in the output topic, by partition."""
    partitions = [TopicPartition("out", number) for number in range(3)]
    reader, ends = log.reader(), log.end_offsets(partitions)
    return [
        [
            each
            for batch in reader.fetch(partition, 0, ends[partition])
            for each in zip(batch.keys, batch.values, batch.timestamps_ms.tolist(), strict=True)
        ]
        for partition in partitions
    ]


def without_keys() -> Topology:
    """Records without a key go to the partition of their position."""
    builder = StreamsBuilder()
    write = Produced.with_(TEXT, Serdes.json())
    builder.stream("in", READ).select_key(lambda key, value: None).to("out", write)
    return builder.build()


@pytest.mark.parametrize("form", ["rows", "columns"])
@pytest.mark.parametrize("kind", ["table", "count", "filter"])
def test_its_results_are_those_of_one_in_memory(tmp_path: Path, kind: str, form: str) -> None:
    found = []
    for max_bytes in (PLENTY, TINY):
        folder = tmp_path / str(max_bytes)
        log = open_log(LogConfig("embedded", str(folder / "log"), {"fsync": "false"}))
        log.create_topic("in", 1)
        log.create_topic("out", 3)
        load(log, RECORDS, 300, 40)
        machine = Machine(folder, log, topology(kind), form, max_bytes)
        machine.run(150, RECORDS)
        found.append((sent(log), machine.content()))
        if kind != "filter":
            delta = machine.changelog.get(1)
            assert delta is not None and bool(delta.parts) == (max_bytes == TINY)
        machine.close()
        log.close()
    assert found[0] == found[1]


def test_records_without_a_key_go_where_they_go_without_chunks(tmp_path: Path) -> None:
    found = []
    for max_bytes in (PLENTY, TINY):
        folder = tmp_path / str(max_bytes)
        log = open_log(LogConfig("embedded", str(folder / "log"), {"fsync": "false"}))
        log.create_topic("in", 1)
        log.create_topic("out", 3)
        load(log, RECORDS, 300, 40)
        machine = Machine(folder, log, without_keys(), "rows", max_bytes)
        machine.run()
        found.append(sent(log))
        machine.close()
        log.close()
    assert found[0] == found[1] and all(found[0])


def test_another_machine_takes_its_delta_and_writes_nothing_twice(tmp_path: Path, log: Log) -> None:
    first = Machine(tmp_path, log, topology("table"))
    assert first.run() == [False]
    written, content = sent(log), first.content()
    first.close()
    (tmp_path / "state").rename(tmp_path / "lost")
    second = Machine(tmp_path, log, topology("table"), max_bytes=PLENTY)
    assert second.run() == [True]
    assert (sent(log), second.content()) == (written, content)
    second.close()


def test_a_state_that_is_behind_follows_large_and_small_deltas(tmp_path: Path, log: Log) -> None:
    machine = Machine(tmp_path, log, topology("table"))
    machine.run(5, 10, 300, 305, 310, RECORDS)
    deltas = [machine.changelog.get(epoch) for epoch in range(6)]
    assert [bool(delta and delta.parts) for delta in deltas] == [False, False, True, False, False, True]
    expected = machine.content()
    machine.close()
    (tmp_path / "state").rename(tmp_path / "lost")
    again = Machine(tmp_path, log, topology("table"))
    assert again.changelog.catch_up(again.runner._local_state(), 5)
    assert again.content() == expected
    pieces = [piece for delta in deltas if delta is not None for piece in delta.pieces()]
    assert again.changelog.restored == {"0_0": sum(len(s.keys) for piece in pieces for s in piece.stores.values())}
    again.close()


@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_a_damaged_part_is_an_error_that_names_it_and_changes_nothing(tmp_path: Path, log: Log, damage: str) -> None:
    machine = Machine(tmp_path, log, topology("table"))
    machine.run()
    machine.close()
    (tmp_path / "state").rename(tmp_path / "lost")
    delta = machine.changelog.get(0)
    assert delta is not None
    part, other = delta.parts[0], delta.parts[1]
    path = tmp_path / "checkpoint" / part.name
    data = {
        "missing": None,
        "cut": path.read_bytes()[:-1],
        "other": (tmp_path / "checkpoint" / other.name).read_bytes(),
    }
    path.unlink()
    if (bad := data[damage]) is not None:
        path.write_bytes(bad)
    again = Machine(tmp_path, log, topology("table"))
    with pytest.raises(StateError, match=part.name) as raised:
        again.run()
    assert raised.value.condition == "DELTA_CORRUPT" and raised.value.context["epoch"] == 0
    assert again.content() == {}
    again.close()


def test_an_attempt_that_dies_among_its_parts_leaves_nothing_that_counts(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    armed = [{"name": "inside_delta", "action": "raise", "token": str(token)}]
    monkeypatch.setenv(VARIABLE, json.dumps(armed))
    machine = Machine(tmp_path, log, topology("table"))
    with pytest.raises(FailpointError):
        machine.run()
    assert machine.changelog.epochs() == [] and machine.host.blobs.list(f"changelog/{machine.bundle.id}/parts/")
    assert machine.run() == [False]
    assert sum(map(len, sent(log))) == 40
    machine.close()
    assert not list((tmp_path / "state" / machine.bundle.id).glob("temporary-*"))


KILLED = """
import os, signal, sys
from pathlib import Path
from hayase.state.environment.spill import EpochSpace
space = EpochSpace(Path(sys.argv[1]), 1)
space.maps.store().put_many([b"k"], [b"v"])
space.file.append(b"x" * 100_000)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_spilled_is_removed_by_the_next(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith("temporary-")
    BundleState(tmp_path, application_id="big", checkpoint_id="lineage", bundle="b").close()
    assert not list(tmp_path.glob("temporary-*"))


FULL = """
import resource, signal, sys
from pathlib import Path
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from tests.unit.task.test_large_epochs import *
folder, what = Path(sys.argv[1]), sys.argv[2]
log = open_log(LogConfig("embedded", str(folder / "log"), {"fsync": "false"}))
log.create_topic("in", 1)
log.create_topic("out", 3)
load(log, RECORDS, 300, RECORDS)
machine = Machine(folder, log, topology("table"), max_bytes=4_000)
machine.runner._local_state()
before = machine.content()
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    machine.run()
except StateError as error:
    assert error.condition == "DISK_FULL", error
    assert what in str(error), error
else:
    raise SystemExit("nothing was refused")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert machine.content() == before == {} and machine.changelog.epochs() == []
assert machine.run() == [False]
print(sum(map(len, sent(log))))
"""


@pytest.mark.parametrize(("what", "limit"), [("An LMDB environment", 5_000), ("epoch.memory.max.bytes", 120_000)])
def test_a_disk_that_is_full_for_what_is_spilled_loses_nothing(tmp_path: Path, what: str, limit: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), what, str(limit)], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, str(RECORDS)), ran.stderr


@pytest.mark.parametrize("number", [0, 3])
def test_a_disk_that_is_full_for_the_delta_loses_nothing(tmp_path: Path, log: Log, number: int) -> None:
    class Full(PosixBlobs):
        left = number

        def put_if_absent(self, name: str, data: bytes) -> bool:
            self.left -= 1
            if self.left < 0:
                raise StateError("DISK_FULL", "full")
            return super().put_if_absent(name, data)

    machine = Machine(tmp_path, log, topology("table"))
    machine.changelog = machine.runner._changelog = Changelog(Full(tmp_path / "checkpoint"), machine.bundle.id)
    with pytest.raises(StateError, match="DISK_FULL"):
        machine.run()
    assert machine.changelog.epochs() == [] and machine.content() == {} and not any(sent(log))
    machine.close()
    again = Machine(tmp_path, log, topology("table"))
    assert again.run() == [False]
    assert sum(map(len, sent(log))) == 40
    again.close()
