"""Windows of all kinds after failed attempts, restarts and lost state.

Results and stores are those of an undisturbed run.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.query.local_app import LocalApp
from tests.unit.query.test_store_types import Machine, fail_at
from tests.unit.task.test_windows_in_epochs import TOPOLOGIES

from hayase.core.failpoints import VARIABLE
from hayase.core.records import TopicPartition
from hayase.log.protocol import OutputBatch
from hayase.state.changelog.snapshot_policy import SnapshotPolicy
from hayase.topology.topology import Topology

pytestmark = pytest.mark.long

STEPS = ("before_delta", "before_apply", "after_apply", "after_publish")
EPOCHS = 8
Record = tuple[str, bytes, int]


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[list[Machine]]:
    made = [Machine(tmp_path / name) for name in ("undisturbed", "disturbed")]
    yield made
    for machine in made:
        machine.stop()


def records() -> list[list[Record]]:
    """Topic, key and time of the records of each epoch; time goes on by jumps, and some are late."""
    rng = random.Random(11)
    return [
        [
            (rng.choice("aab"), rng.choice((b"k", b"l", b"m")), max(0, 18 * epoch + rng.randint(-35, 20)))
            for _ in range(9)
        ]
        for epoch in range(EPOCHS)
    ]


def start(machine: Machine, topology: Topology) -> LocalApp:
    app = machine.start(topology, statestore_cache_max_bytes=0)
    if "late" not in app.log.describe(["late"]):
        app.log.create_topic("late", 3)
    app.snapshots = SnapshotPolicy(min_delta_bytes=1)
    return app


def run_epoch(app: LocalApp, found: list[Record]) -> int:
    """An epoch over these records; how many attempts failed."""
    for topic, key, time_ms in found:
        if topic in app.log.describe([topic]):
            app.writer().append([OutputBatch(topic, [key], [b'{"n":1}'], [time_ms])])
    return app.run_with_failures(app.plan_epoch())


def sent(app: LocalApp, topic: str) -> dict[bytes | None, list[tuple[bytes | None, int]]]:
    """Values and times of each key, in their order."""
    found: dict[bytes | None, list[tuple[bytes | None, int]]] = {}
    for number in range(3):
        place = TopicPartition(topic, number)
        end = app.log.end_offsets([place])[place]
        for batch in app.reader().fetch(place, 0, end) if end else []:
            for key, value, time_ms in zip(batch.keys, batch.values, batch.timestamps_ms, strict=True):
                found.setdefault(key, []).append((value, int(time_ms)))
    return found


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_failed_attempts_restarts_and_lost_state_change_nothing(
    machines: list[Machine], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    undisturbed, disturbed = machines
    topology, store = TOPOLOGIES[name](), "c" if name.startswith("cogroup") else "w"
    one = start(undisturbed, topology)
    other = start(disturbed, topology)
    for number, found in enumerate(records()):
        monkeypatch.delenv(VARIABLE, raising=False)
        run_epoch(one, found)
        fail_at(monkeypatch, disturbed.folder, STEPS[number % len(STEPS)], number)
        assert run_epoch(other, found) == 1
        disturbed.stop()
        if number % 3 == 2:
            shutil.rmtree(disturbed.folder / "state" / "app" / "state")
        other = start(disturbed, topology)
    assert sent(one, "out")
    for topic in ("out", "late"):
        assert sent(other, topic) == sent(one, topic)
    assert list(other.app.store(store).all()) == list(one.app.store(store).all())
