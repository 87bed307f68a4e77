"""What an earlier version left behind in mid input is read, record by record and epoch by epoch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark import before
from tests.spark.place import Place

from hayase.app.checkpoint import checkpoint_id_of, stored_plan
from hayase.state.changelog.changelog import Changelog
from hayase.state.environment.bundle import BundleState
from hayase.storage.open import open_blobs
from hayase.task.epoch_record import Epochs


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path, before.unpacked(tmp_path)) as made:
        yield made


@pytest.mark.long
def test_every_record_of_an_earlier_log_is_read_as_it_was_written(place: Place, tmp_path: Path) -> None:
    with Place(tmp_path / "again", type(place.config)("embedded", str(tmp_path / "again" / "log"))) as again:
        before.prepare(again)
        for topic in ("events", "users", "plain"):
            assert place.partitions(topic) == again.partitions(topic), topic
            assert place.headers(topic) == again.headers(topic), topic
    expected = json.loads(before.EXPECTED.read_text())
    for topic, rows in before.outputs(place).items():
        written = Counter(map(json.dumps, rows))
        assert written and written < Counter(map(json.dumps, expected[topic])), topic


def test_markers_and_group_offsets_of_an_earlier_log_are_read(place: Place) -> None:
    blobs = open_blobs(str(checkpoint_of(place)))
    last = Epochs(blobs).last_done()
    checkpoint_id = checkpoint_id_of(blobs)
    markers = place.log.markers(place.application_id)
    assert markers and {marker.checkpoint_id for marker in markers.values()} == {checkpoint_id}
    assert max(marker.epoch for marker in markers.values()) == last
    offsets = place.log.group_offsets(place.application_id)
    ends = place.log.end_offsets(list(offsets))
    assert offsets and all(0 < offset <= ends[partition] for partition, offset in offsets.items())


@pytest.mark.long
def test_records_deltas_and_snapshots_of_an_earlier_checkpoint_are_read_and_restored(
    place: Place, tmp_path: Path
) -> None:
    blobs = open_blobs(str(checkpoint_of(place)))
    epochs, plan = Epochs(blobs), stored_plan(blobs)
    assert plan is not None
    records = [epochs.record(epoch) for epoch in epochs.recorded()]
    assert len(records) > 20 and all(record is not None for record in records)
    last, checkpoint_id = epochs.last_done(), checkpoint_id_of(blobs)
    for bundle in sorted(json.loads(plan.text)["bundles"]):
        changelog = Changelog(blobs, bundle)
        found = changelog.epochs()
        assert all(changelog.get(epoch) is not None for epoch in found)
        snapshots = list(changelog.snapshots.newest_first())
        assert len(snapshots) == len(changelog.snapshots.epochs())
        if not found:
            continue
        assert snapshots and found[-1] > snapshots[0].epoch
        changelog.snapshots.verify(snapshots[0])
        ids = {"application_id": place.application_id, "checkpoint_id": checkpoint_id, "bundle": bundle}
        state = BundleState(tmp_path / "restored" / bundle, **ids)
        changelog.catch_up(state, last)
        assert state.epoch == last and sum(state.entries().values()) > 0
        state.close()


def checkpoint_of(place: Place) -> Path:
    return place.folder / "state" / place.application_id / "checkpoint"
