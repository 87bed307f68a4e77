"""Names in checkpoints, states and logs stay as earlier releases wrote them, whatever the code calls them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from hayase.log.assignments import Assignment, Assignments, Place
from hayase.log.embedded.tables import _MarkerRow
from hayase.log.kafka.markers import decode_marker, encode_marker, moved_marker, slot_key
from hayase.log.kafka.slot_ids import Owner
from hayase.log.protocol import Marker
from hayase.state.changelog.snapshot import Manifest
from hayase.state.environment.crash_marker import CrashMarker
from hayase.storage.open import open_blobs
from hayase.task.epoch_record import EpochRecord
from hayase.task.plan import BundlePlan, Plan, SubtopologyPlan, TaskPlan


def test_markers_in_kafka_are_those_of_earlier_releases() -> None:
    written = b'{"lineage":"L","epoch":7,"digest":"d"}'
    assert encode_marker(Marker("L", 7, "d")) == written
    assert decode_marker(written) == Marker("L", 7, "d")


def test_markers_that_slots_write_have_keys_of_their_own_and_the_bundles_key_says_where() -> None:
    assert slot_key("0-1") == "@slot/0-1"
    assert encode_marker(moved_marker("L", "where")) == b'{"lineage":"L","epoch":4611686018427387904,"digest":"where"}'
    owner = msgspec.json.encode(Owner("shop", "/data/shop"))
    assert owner == b'{"runtime":"shop","checkpoint":"/data/shop"}'


def test_assignments_stay_as_they_are(tmp_path: Path) -> None:
    blobs = open_blobs(str(tmp_path), fsync=False)
    Assignments(blobs).create(Assignment(7, {"shop-a": {"0-1": Place("shop-@slot-1", 5)}}, ["shop-b"]))
    assert blobs.get("assignments/000000000007") == (
        b'{"number":7,"places":{"shop-a":{"0-1":{"id":"shop-@slot-1","since":5}}},"given_back":["shop-b"]}'
    )


def test_markers_in_the_embedded_log_are_those_of_earlier_releases() -> None:
    assert msgspec.json.encode(_MarkerRow("L", 7, "d")) == b'{"lineage":"L","epoch":7,"digest":"d"}'


def test_epoch_records_have_the_names_of_earlier_releases() -> None:
    body = EpochRecord(3, "L", "P", 5, {"in": {0: (0, 2)}}, {"in": "1"}).to_bytes()
    names = ("epoch", "lineage", "plan", "wall_clock_ms", "ranges", "topic_ids")
    fields = json.loads(body[: body.rindex(b"}") + 1])
    assert [name for name in fields if name in names] == list(names)


def test_snapshots_have_the_names_of_earlier_releases() -> None:
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(Manifest("L", "0-0", 3, "d", 1, 2, [])))
    assert list(fields)[:6] == ["lineage", "bundle", "epoch", "digest", "delta_bytes", "created_ms"]


def test_the_mark_of_an_open_state_has_the_names_of_earlier_releases() -> None:
    assert json.loads(msgspec.json.encode(CrashMarker("b", "L", clean=True))) == {
        "boot_id": "b",
        "lineage": "L",
        "clean": True,
    }


def test_plans_have_the_names_of_earlier_releases() -> None:
    subtopology = SubtopologyPlan("0", 0, ("a",), 1)
    bundle = BundlePlan("0-0", 0, "0", (TaskPlan("0_0", "0", 0, (), ()),))
    assert Plan({"0": subtopology}, (bundle,), {"in": 1}, {}).to_json() == (
        '{"bundles":{"0-0":{"level":0,"tasks":["0_0"],"unit":"0"}},"repartitions":{},"topics":{"in":1},'
        '"units":{"0":{"level":0,"nodes":["a"],"partitions":1}}}'
    )
