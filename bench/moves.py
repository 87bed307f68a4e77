"""What it costs that a bundle moves to another machine: `python -m bench moves`. Ours only; no Spark, no broker.

One state applies every epoch; another one, of the machine that gets the bundle, comes after a number of epochs and
catches up from the changelog. The checkpoint is a local folder: what a read from NFS or S3 takes longer comes on top,
once per delta.
"""

from __future__ import annotations

import statistics
import struct
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from hayase.state.changelog.changelog import Changelog
from hayase.state.delta.changes import StateChanges, StoreChanges
from hayase.state.delta.delta import Delta
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.environment import START, StatePosition
from hayase.storage.lmdb_env import close_environment
from hayase.storage.posix_blobs import PosixBlobs

_IDENTITY = {"application_id": "bench", "checkpoint_id": "l", "bundle": "b"}
_VALUE = struct.Struct(">qqq")
CHANGES = (0, 100, 1_000, 10_000)
MISSED = (1, 4, 16)


@dataclass(frozen=True, slots=True)
class Moved:
    """Moves of one kind.

    Attributes:
        changes: keys that change in an epoch of the bundle.
        missed: epochs that the machine has missed.
        wall_ms: medians of the time it takes to catch up.
        cpu_ms: of processor time.
        here_ms: of processor time, for comparison, to apply as many epochs one by one, as the machine does that has the
            bundle.
    """

    changes: int
    missed: int
    wall_ms: float
    cpu_ms: float
    here_ms: float


def run(keys: int, moves: int, console: Console) -> None:
    """Measure all kinds of moves, and show them."""
    found = []
    for changes in CHANGES:
        for missed in MISSED:
            with tempfile.TemporaryDirectory() as name:
                found.append(measure(Path(name), keys, min(changes, keys), missed, moves))
    table = Table(title=f"A moved bundle catches up: {keys:,} keys, medians of {moves} moves")
    for column in (
        "changes an epoch",
        "epochs missed",
        "ms",
        "CPU ms",
        "CPU µs a change",
        "where they were made, CPU ms",
    ):
        table.add_column(column, justify="right")
    for each in found:
        per_change = f"{1000 * each.cpu_ms / (each.changes * each.missed):.1f}" if each.changes else ""
        table.add_row(
            f"{each.changes:,}", str(each.missed), f"{each.wall_ms:.1f}", f"{each.cpu_ms:.1f}", per_change,
            f"{each.here_ms:.1f}",
        )  # fmt: skip
    console.print(table)


def measure(folder: Path, keys: int, changes: int, missed: int, moves: int) -> Moved:
    """One kind of moves: the bundle is away for `missed` epochs, then comes back, again and again."""
    blobs, draw = PosixBlobs(folder / "checkpoint", fsync=False), np.random.default_rng(42)
    there, back = Changelog(blobs, "b"), Changelog(blobs, "b")
    away, home = BundleState(folder / "away", **_IDENTITY), BundleState(folder / "home", **_IDENTITY)
    epoch, position = 0, START
    wall: list[float] = []
    cpu: list[float] = []
    here: list[float] = []
    for move in range(-1, moves):  # the first one fills the stores
        applied = 0.0
        for _ in range(missed if move >= 0 else 1):
            ids = draw.choice(keys, changes, replace=False).tolist() if move >= 0 else list(range(keys))
            delta = there.publish(_delta(epoch, position, ids))
            began = time.process_time()
            there.apply(away, delta)
            applied += time.process_time() - began
            epoch, position = epoch + 1, StatePosition(delta.epoch, delta.digest)
        began, began_cpu = time.perf_counter(), time.process_time()
        assert back.catch_up(home, epoch - 1)
        if move >= 0:
            wall.append(time.perf_counter() - began)
            cpu.append(time.process_time() - began_cpu)
            here.append(applied)
    for state in (away, home):
        state.close(clean=False)
        close_environment(state.path)
    return Moved(changes, missed, *(1000 * statistics.median(each) for each in (wall, cpu, here)))


def _delta(epoch: int, position: StatePosition, ids: list[int]) -> Delta:
    changes = StoreChanges([], [b"user-%08d" % each for each in ids], [_VALUE.pack(epoch, each, epoch) for each in ids])
    return Delta("bench", "l", "b", epoch, "r", *position, StateChanges({("0_0", "s"): changes}))
