"""A program that earlier releases numbered and named otherwise, and what one of them left behind of it in mid input.

The archive was made by `python -m tests.spark.earlier FOLDER` with the last release that did so; see
`hayase.topology.earlier`.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.spark.place import Place, until

from hayase import (
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Produced,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    Topology,
)
from hayase.log.protocol import LogConfig

ARCHIVE = Path(__file__).parents[1] / "data" / "earlier" / "log-and-checkpoint.tar.gz"
EXPECTED = ARCHIVE.with_name("expected.json")
"""Topic → the last value of each key after an undisturbed run."""

INPUTS = ("words", "names", "places")
OUTPUTS = ("longest", "named", "placed", "pairs", "counts")
SETTINGS: dict[str, Any] = {"statestore_cache_max_bytes": 0, "max_records_per_epoch": 20, "num_stream_threads": 1}
WORDS = 120
_TEXT = Serdes.string()
_READ, _WRITTEN, _GROUPED = Consumed.with_(_TEXT, _TEXT), Produced.with_(_TEXT, _TEXT), Grouped.with_(_TEXT, _TEXT)


def build() -> Topology:
    """Two joins of a re-keyed stream, one by name.

    Its join with itself; an unnamed reduce of a grouped table; numbers by names.
    """
    builder = StreamsBuilder()
    words = builder.stream("words", Consumed.with_(_TEXT, _TEXT).with_name("z-words"))
    names = builder.table("names", _READ.with_name("b-names"))
    places = builder.global_table("places", _READ.with_name("a-places"))
    latest = names.group_by(lambda key, value: (value[:1], value), _GROUPED)
    longest = latest.reduce(max, lambda total, _: total)
    longest.to_stream().to("longest", _WRITTEN)
    words.join(places, lambda key, value: value, lambda value, place: f"{value}@{place}").to("placed", _WRITTEN)
    keyed = words.select_key(lambda _, value: value)
    joined = keyed.join(
        names, lambda value, name: f"{value}:{name}", Joined.with_(_TEXT, _TEXT, _TEXT).with_name("by-name")
    )
    again = keyed.join(names, lambda value, name: f"{value}/{name}", Joined.with_(_TEXT, _TEXT, _TEXT))
    joined.merge(again.select_key(lambda key, _: f"{key}!")).to("named", _WRITTEN)
    window = JoinWindows.of_time_difference_with_no_grace(timedelta(milliseconds=1))
    moved = words.select_key(lambda _, value: value)
    pairs = moved.join(moved, lambda one, other: one + other, window, StreamJoined.with_(_TEXT, _TEXT, _TEXT))
    pairs.to("pairs", _WRITTEN)
    counts = pairs.group_by(lambda _, value: value[:1], _GROUPED).count(Materialized.with_(_TEXT, Serdes.long()))
    counts.map_values(str).to_stream().to("counts", _WRITTEN)
    return builder.build()


def prepare(place: Place) -> None:
    """Make the topics, and run over what becomes tables; then write the words."""
    for topic in (*INPUTS, *OUTPUTS):
        place.topic(topic, 1)
    place.put("places", [(f"w{i}", f"here{i}".encode(), 0) for i in range(7)])
    place.put("names", [(f"w{i % 7}", f"{'abc'[i % 3]}{i}".encode(), 10 * i) for i in range(WORDS // 4)])
    place.run(build(), **SETTINGS)
    place.put("words", [(str(i), f"w{i * i % 7}".encode(), 1 + 10 * i) for i in range(WORDS)])


def outputs(place: Place) -> dict[str, dict[str, Any]]:
    """The last value of each key in the output topics."""
    return {topic: {str(row.key): _text(row.value) for row in place.rows(topic)} for topic in OUTPUTS}


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def unpacked(folder: Path) -> LogConfig:
    """The archive's log and checkpoint in a folder, where `Place` expects them."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return LogConfig("embedded", str(folder / "log"), {"fsync": "false"})


def make(target: Path) -> None:
    """Make archive and expected records, with the version of Hayase that is running."""
    with tempfile.TemporaryDirectory() as temporary:
        whole, part = Path(temporary, "whole"), Path(temporary, "part")
        with Place(whole, LogConfig("embedded", str(whole / "log"), {"fsync": "false"})) as place:
            prepare(place)
            place.run(build(), **SETTINGS)
            expected = outputs(place)
            assert all(expected.values()), expected
        with Place(part, LogConfig("embedded", str(part / "log"), {"fsync": "false"})) as place:
            prepare(place)
            with place.app(build(), **SETTINGS) as app:
                app.start()
                until(lambda: app.progress().consumed >= 50, app)
        target.mkdir(parents=True, exist_ok=True)
        (target / EXPECTED.name).write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
        for lock in part.rglob("lock.mdb"):
            lock.unlink()
        with tarfile.open(target / ARCHIVE.name, "w:gz") as archive:
            for name in ("log", f"state/{place.application_id}/checkpoint"):
                archive.add(part / name, name)
        shutil.rmtree(part)


if __name__ == "__main__":
    from tests.spark import earlier  # so that the program's functions are in the module where tests find them

    earlier.make(Path(sys.argv[1]))
