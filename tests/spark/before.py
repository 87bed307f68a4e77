"""A program, its input, and what an earlier version left behind of it in mid input (`tests/data/before`).

The log and the checkpoint in that archive guard formats on disk: the current version goes on with them. It was made by
`python -m tests.spark.before FOLDER` with that earlier version, and is not to be recreated when a format changes.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
from tests.spark.place import Place, until

from hayase import (
    BufferConfig,
    Consumed,
    Grouped,
    Materialized,
    Processor,
    Produced,
    Record,
    Repartitioned,
    Serdes,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    count,
    left,
    right,
    sum_,
)
from hayase.app.checkpoint import checkpoint_id_of
from hayase.log.protocol import LogConfig
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.snapshot_policy import SnapshotPolicy, maybe_snapshot
from hayase.state.environment.bundle import BundleState
from hayase.storage.open import open_blobs

ARCHIVE = Path(__file__).parents[1] / "data" / "before" / "log-and-checkpoint.tar.gz"
EXPECTED = ARCHIVE.with_name("expected.json")
"""Topic → the records [key, value, timestamp] of an undisturbed run, sorted."""

PARTITIONS = 2
EVENTS = 600
USERS = 12
OUTPUTS = ("enriched", "minutes", "closed", "seen", "sums", "totals", "moved")
SETTINGS: dict[str, Any] = {"statestore_cache_max_bytes": 0, "max_records_per_epoch": 40}

_TEXT, _JSON = Serdes.string(), Serdes.json()
_EVENT = {"item": pl.String, "amount": pl.Int64}


class Seen(Processor[str, Any, str, Any]):
    """Sends for each record how many of its key came before."""

    def init(self, context: Any) -> None:
        self.context, self.counts = context, context.get_state_store("seen")

    def process(self, record: Record[str, Any]) -> None:
        before = self.counts.get(record.key) or 0
        self.counts.put(record.key, before + 1)
        self.context.forward(Record(record.key, {"before": before}, record.timestamp_ms))


def _add(_: str, value: dict[str, Any], total: dict[str, Any]) -> dict[str, Any]:
    return {"n": total["n"] + 1, "last": value["item"]}


def _named(window: Any, _: Any) -> str:
    return f"{window.key}@{window.window.start_ms}"


def build() -> Topology:
    """Aggregates in rows and columns, windows, suppress, a join, a processor with a store, a repartition topic."""
    builder = StreamsBuilder()
    written = Produced.with_(_TEXT, _JSON)
    events = builder.stream("events", Consumed.with_(_TEXT, Serdes.json(schema=_EVENT)))
    users = builder.table("users", Consumed.with_(_TEXT, Serdes.json(schema={"region": pl.String})))
    enriched = events.join(users, {"item": left("item"), "region": right("region")})
    enriched.to("enriched", written)
    grouped = events.group_by_key(Grouped.with_(_TEXT))
    grouped.agg(Materialized.as_("totals"), n=count(), total=sum_("amount")).to_stream().to("totals", written)
    sums = Materialized.as_("sums").with_key_serde(_TEXT).with_value_serde(_JSON)
    plain = builder.stream("plain", Consumed.with_(_TEXT, _JSON))
    by_key = plain.group_by_key(Grouped.with_(_TEXT, _JSON))
    by_key.aggregate(lambda: {"n": 0, "last": ""}, _add, sums).to_stream().to("sums", written)
    size = TimeWindows.of_size_and_grace(timedelta(seconds=60), timedelta(seconds=10))
    minutes = grouped.windowed_by(size).agg(Materialized.as_("minutes"), n=count())
    minutes.to_stream().select_key(_named).to("minutes", written)
    counted = by_key.windowed_by(size).count(Materialized.as_("counted"))
    closed = counted.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    closed.to_stream().select_key(_named).to("closed", written)
    builder.add_state_store(Stores.key_value_store("seen", _TEXT, Serdes.long()))
    plain.process(Seen, "seen").to("seen", written)
    moved = plain.select_key(lambda _, value: value["item"]).repartition(Repartitioned.with_(_TEXT, _JSON, "moved"))
    counts = moved.group_by_key(Grouped.with_(_TEXT, _JSON)).count(Materialized.as_("moved"))
    counts.to_stream().to("moved", written)
    return builder.build()


def prepare(place: Place) -> None:
    """Make the topics and write all of the input, in several appends."""
    for topic in ("events", "users", "plain", *OUTPUTS):
        place.topic(topic, PARTITIONS)
    place.put("users", [(f"u{i}", {"region": f"r{i % 3}"}, 0) for i in range(USERS)])
    rows = [(f"u{i * 7 % USERS}", {"item": f"i{i * i % 17}", "amount": i}, 1 + 1_000 * i) for i in range(EVENTS)]
    for start in range(0, EVENTS, 50):
        for topic in ("events", "plain"):
            place.put(topic, rows[start : start + 50], (("part", b"%d" % start),) if start % 100 else ())


def outputs(place: Place) -> dict[str, list[list[Any]]]:
    """What is in the output topics, as in `EXPECTED`: without timestamps where records of two partitions meet."""
    return {
        topic: sorted([list(row[: 2 if topic == "moved" else 3]) for row in place.rows(topic)], key=json.dumps)
        for topic in OUTPUTS
    }


def unpacked(folder: Path) -> LogConfig:
    """The archive's log and checkpoint in a folder, where `Place` expects them."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return LogConfig("embedded", str(folder / "log"), {"fsync": "false"})


def _run_until(place: Place, records: int) -> None:
    with place.app(build(), **SETTINGS) as app:
        app.start()
        until(lambda: app.progress().consumed >= records, app)


def _take_snapshots(place: Place) -> Iterator[str]:
    """Of every bundle of the local state, as workers do when there are many deltas."""
    home = place.folder / "state" / place.application_id
    blobs = open_blobs(str(home / "checkpoint"))
    checkpoint_id = checkpoint_id_of(blobs)
    for path in sorted((home / "state").iterdir()):
        state = BundleState(path, application_id=place.application_id, checkpoint_id=checkpoint_id, bundle=path.name)
        if maybe_snapshot(state, Changelog(blobs, path.name), SnapshotPolicy(min_delta_bytes=0)):
            yield path.name
        state.close()


def make(target: Path) -> None:
    """Make archive and expected records, with the version of Hayase that is running."""
    with tempfile.TemporaryDirectory() as temporary:
        whole, part = Path(temporary, "whole"), Path(temporary, "part")
        with Place(whole, LogConfig("embedded", str(whole / "log"), {"fsync": "false"})) as place:
            prepare(place)
            place.run(build(), **SETTINGS)
            expected = outputs(place)
            assert all(expected.values())
        with Place(part, LogConfig("embedded", str(part / "log"), {"fsync": "false"})) as place:
            prepare(place)
            _run_until(place, 300)
            print("snapshots of", *_take_snapshots(place))
            _run_until(place, 300)
        target.mkdir(parents=True, exist_ok=True)
        lines = (f"{json.dumps(topic)}: {json.dumps(rows)}" for topic, rows in expected.items())
        (target / EXPECTED.name).write_text("{\n" + ",\n".join(lines) + "\n}\n")
        for lock in part.rglob("lock.mdb"):
            lock.unlink()
        with tarfile.open(target / ARCHIVE.name, "w:gz") as archive:
            for name in ("log", f"state/{place.application_id}/checkpoint"):
                archive.add(part / name, name)
        shutil.rmtree(part)


if __name__ == "__main__":
    from tests.spark import before  # so that the program's functions are in the module where tests find them

    before.make(Path(sys.argv[1]))
