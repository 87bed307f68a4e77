"""Bundles that go from machine to machine, each with states of its own, come to what one machine would have made."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.crash import input as crash_input
from tests.crash.app_under_test import build
from tests.unit.query.local_app import LocalApp

from hayase.core.records import TopicPartition
from hayase.state.changelog.snapshot_policy import SnapshotPolicy
from hayase.state.delta.journal import EdgeRow
from hayase.storage.lmdb_env import close_environment

pytestmark = pytest.mark.long

MACHINES = 3
EPOCHS = 7
DETERMINISTIC = ("enriched", "totals", "regions")
Written = dict[bytes | None, list[tuple[bytes | None, int]]]
RECORDS = crash_input.records()[:400]


def machines(folder: Path) -> list[LocalApp]:
    """The application on several machines: one log, one checkpoint, a state folder each."""
    found = []
    for number in range(MACHINES):
        app = LocalApp(folder, build(""), state_dir=folder / f"machine-{number}", checkpoint_dir=folder / "checkpoint")
        app.snapshots = SnapshotPolicy(min_delta_bytes=2_000)
        found.append(app)
    for topic in crash_input.OUTPUTS:
        found[0].log.create_topic(topic, crash_input.PARTITIONS)
    return found


def run(folder: Path, where: Sequence[tuple[int, ...]]) -> dict[str, Written]:
    """What the application writes if its bundles run, in turn, on the machines given.

    On several, if an attempt is repeated.
    """
    apps = machines(folder)
    turns = iter(where)
    for part in np.array_split(np.arange(len(RECORDS)), EPOCHS):
        crash_input.write(apps[0].log, "", [RECORDS[index] for index in part])
        record = apps[0].plan_epoch()
        edges: list[EdgeRow] = []
        for bundle in sorted(apps[0].plan.bundles, key=lambda each: each.level):
            sent = [apps[number].run_bundle(bundle.id, record, edges) for number in next(turns, (0,))]
            assert all(again == sent[0] for again in sent)
            edges += sent[0]
        apps[0].mark_done(record)
    found = {topic: written(apps[0], topic) for topic in DETERMINISTIC}
    for app in apps:
        app.close()
    for file in folder.rglob("data.mdb"):
        close_environment(file.parent)
    return found


def written(app: LocalApp, topic: str) -> Written:
    """Values and times of a topic by key, in order."""
    found: Written = {}
    for partition in [TopicPartition(topic, number) for number in range(crash_input.PARTITIONS)]:
        for batch in app.reader().fetch(partition, 0, app.log.end_offsets([partition])[partition]):
            for key, value, time_ms in zip(batch.keys, batch.values, batch.timestamps_ms.tolist(), strict=True):
                found.setdefault(key, []).append((value, time_ms))
    return found


@pytest.fixture(scope="module")
def on_one_machine() -> dict[str, Written]:
    with tempfile.TemporaryDirectory() as name:
        return run(Path(name), [])


@settings(max_examples=6, deadline=None)
@given(st.lists(st.lists(st.integers(0, MACHINES - 1), min_size=1, max_size=3).map(tuple), max_size=80))
def test_bundles_that_go_from_machine_to_machine_come_to_what_one_would_have_made(
    on_one_machine: dict[str, Written], where: list[tuple[int, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        assert run(Path(name), where) == on_one_machine
