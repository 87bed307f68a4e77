"""How fast a bundle's lost state comes back: `python -m bench restore`. Ours only; no Spark, no broker.

From deltas: every change since the beginning, replayed. From a snapshot: a compacted copy in the checkpoint. From a
follower: its copy on this machine, taken over, then checked against the changelog.
"""

from __future__ import annotations

import struct
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from hayase.core.time import SystemClock
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.snapshot import restore
from hayase.state.delta.changes import StateChanges, StoreChanges
from hayase.state.delta.delta import Delta
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.copy_from_follower import adopt_copy
from hayase.state.environment.environment import START
from hayase.storage.lmdb_env import close_environment
from hayase.storage.posix_blobs import PosixBlobs

_IDENTITY = {"application_id": "bench", "checkpoint_id": "l", "bundle": "b"}
_VALUE = struct.Struct(">qqq")


@dataclass(frozen=True, slots=True)
class Restored:
    """One way to restore.

    Attributes:
        records: changes of the changelog that it stands for, or rows of the store.
        wall_s: time it took.
        cpu_s: processor time it took.
    """

    way: str
    records: int
    wall_s: float
    cpu_s: float


def run(records: int, keys: int, deltas: int, console: Console) -> None:
    """Write a changelog of that many changes, restore it in each way, and show records per second."""
    with tempfile.TemporaryDirectory() as name:
        show(measure(Path(name), records, keys, deltas), records, keys, deltas, console)


def measure(folder: Path, records: int, keys: int, deltas: int) -> list[Restored]:
    """The ways, in order."""
    blobs = PosixBlobs(folder / "checkpoint", fsync=False)
    _write_changelog(Changelog(blobs, "b"), records, keys, deltas)
    last, found = deltas - 1, []

    first = BundleState(folder / "replayed", **_IDENTITY)
    found.append(_timed("deltas", records, lambda: Changelog(blobs, "b").catch_up(first, last)))
    with first.begin() as epoch:
        rows = epoch.task("0_0").store("s").approximate_count()

    snapshots = Changelog(blobs, "b").snapshots
    manifest = snapshots.publish(first, SystemClock().now_ms())
    second = BundleState(folder / "from-snapshot", **_IDENTITY)
    found.append(_timed("snapshot", rows, lambda: restore(second, snapshots, manifest, START)))

    def adopt() -> None:
        adopt_copy(folder / "adopted", [first.path], **_IDENTITY)
        third = BundleState(folder / "adopted", **_IDENTITY)
        assert Changelog(blobs, "b").catch_up(third, last)
        third.close(clean=False)

    found.append(_timed("follower", rows, adopt))
    for state in (first, second):
        state.close(clean=False)
    for path in folder.glob("*/data.mdb"):
        close_environment(path.parent)
    return found


def _write_changelog(changelog: Changelog, records: int, keys: int, deltas: int) -> None:
    draw, position = np.random.default_rng(42), START
    for epoch in range(deltas):
        ids = draw.choice(keys, min(records // deltas, keys), replace=False).tolist()
        changes = StoreChanges(
            [], [b"user-%08d" % each for each in ids], [_VALUE.pack(epoch, each, epoch) for each in ids]
        )
        delta = Delta("bench", "l", "b", epoch, "r", *position, StateChanges({("0_0", "s"): changes}))
        changelog.publish(delta)
        position = type(START)(delta.epoch, delta.digest)


def _timed(way: str, records: int, work: Callable[[], object]) -> Restored:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Restored(way, records, time.perf_counter() - wall, time.process_time() - cpu)


def show(found: list[Restored], records: int, keys: int, deltas: int, console: Console) -> None:
    """A table."""
    table = Table(title=f"{records:,} changes of {keys:,} keys in {deltas:,} deltas; keys of 13, values of 24 bytes")
    for column in ("from", "records", "seconds", "records/s", "CPU s", "records per CPU s"):
        table.add_column(column, justify="left" if column == "from" else "right")
    for each in found:
        table.add_row(
            each.way,
            f"{each.records:,}",
            f"{each.wall_s:.2f}",
            f"{each.records / each.wall_s:,.0f}",
            f"{each.cpu_s:.2f}",
            f"{each.records / each.cpu_s:,.0f}",
        )
    console.print(table)
