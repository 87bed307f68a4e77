"""Places where a test may kill or stop the program, named after the steps of an epoch.

Nothing happens unless the environment variable `HAYASE_FAILPOINTS` is set. It holds a JSON list; each entry fires once:

    {"name": "after_delta", "bundle": "1-0", "epoch": 3, "action": "kill_worker", "token": "/path/of/a/file"}

`bundle` and `epoch` may be left out (any); `after_rows` is of a slot, and the failpoints of the planner
(`…_epoch_record`, `…_done`) are of the application, so they have no bundle; those of snapshots are of no epoch. The
entry fires in the first process that manages to create the file `token`, which then holds its process id. Actions:
`kill_worker` (SIGKILL to this process), `kill_app` (SIGKILL to the processes listed, one pid a line, in the file
`pids`, then to this one), `pause` (sleep `seconds`, or less: until the file `until` exists), `raise` (an error as user
code would raise).

A simulation that runs many processes in one sets `listener` instead.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from hayase.core.objects import JsonObject

VARIABLE = "HAYASE_FAILPOINTS"

NAMES = (
    "before_epoch_record",
    "after_epoch_record",
    "before_process",
    "before_delta",
    "after_delta",
    "before_apply",
    "after_apply",
    "before_publish",
    "inside_publish",
    "after_publish",
    "before_rows",
    "after_rows",
    "before_done",
    "after_done",
)
"""Every failpoint that each epoch reaches, in that order."""
SPARK_NAMES = ("after_spark_offsets", "after_spark_publish", "before_spark_write", "after_spark_write")
"""Those of `from_spark` (the offsets of a micro-batch are kept; its rows are published) and `to_spark` (a range is
recorded; it is written, but not marked as done), in the application's process; the bundle is the name, the epoch the
number."""
RARE_NAMES = (
    "inside_delta",
    "between_applies",
    "before_snapshot",
    "inside_snapshot",
    "after_snapshot",
    "before_purge",
    "after_purge",
    "inside_migration",
    "before_migration",
    "after_migration",
    "between_migrations",
    "before_migration_cleared",
    "before_write",
    "before_bundle_deletion",
    "after_bundle_deletion",
    "follower_between_bundles",
)
"""Those of epochs too large for memory (a part of the delta is published), of bundles that have stores without
changelog (they are written, the state is not yet), of snapshots, of deleting completed records from internal topics,
of migrations (a delta is beside the changelog; before and after the commit; a delta is in the changelog; all is
done but to clear up), of bundles without a delta (they have looked whether their epoch is closed, and are about to
write), of the deletion of bundles that are gone, and of followers (behind each bundle that they take to an epoch)."""
REDO_NAMES = ("after_closure", "after_attempts_ended", "after_redo_decision", "after_redo_mark")
"""Those of a start that does an open epoch again, in that order, in the application's process."""
CLEANER_NAMES = (
    "before_retention",
    "inside_retention",
    "after_retention",
    "before_swap",
    "inside_swap",
    "after_swap",
    "before_cleaned",
    "after_cleaned",
    "before_part",
    "after_part",
    "inside_move",
    "after_move",
    "after_delete_file",
)
"""Those of the cleaner of an embedded log, in its own process or the one that opened the log: deleting what is older
than a topic keeps, compaction, and moving segments to a remote store."""

SERVER_NAMES = (
    "after_command",
    "after_command_schemas",
    "after_command_topics",
    "after_command_queries",
    "after_command_deletes",
    "after_command_outcome",
)
"""Those of each command of a SQL server, in that order: it is written, its effects are there one after the other, and
how it ended is written; the epoch is the number of the command."""
FENCE_NAMES = ("after_fence",)
"""Of every start of a connector's tasks: those of earlier generations are fenced, offsets are not loaded. The bundle is
the connector's name, the epoch the generation."""
CAPTURE_NAMES = ("after_slot", "after_chunk", "after_last_chunk", "before_confirm", "after_confirm")
"""Those of a capture, in that order: the replication slot is there, its position is not published; rows of the snapshot
are read, and not published; all of them are published, the end of the snapshot is not; then what was published is
confirmed to the database. The bundle is `<connector>-<task>`."""
SINK_NAMES = ("after_sink_claim", "before_sink_write", "inside_sink_write", "after_sink_write")
"""Those of a sink that keeps its offsets in its target, in that order: tasks of earlier generations are fenced; records
are rows; rows and offsets are written, but not committed; they are committed. The bundle is `<connector>-<task>`."""


listener: Callable[[str, str | None, int | None], None] | None = None
"""Called with name, bundle and epoch of every failpoint that is reached; for tests."""


class FailpointError(Exception):
    """What the action `raise` raises."""


@lru_cache(maxsize=1)
def _armed(text: str) -> tuple[JsonObject, ...]:
    return tuple(json.loads(text))


def reach(name: str, *, bundle: str | None = None, epoch: int | None = None) -> None:
    """Say that a step has been reached; returns at once unless a test armed it."""
    if listener is not None:
        listener(name, bundle, epoch)
    text = os.environ.get(VARIABLE)
    if not text:
        return
    for entry in _armed(text):
        if entry["name"] != name or entry.get("bundle", bundle) != bundle or entry.get("epoch", epoch) != epoch:
            continue
        if _claim(entry["token"]):
            _act(entry)


def _claim(token: str) -> bool:
    try:
        descriptor = os.open(token, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return False
    os.write(descriptor, str(os.getpid()).encode())
    os.close(descriptor)
    return True


def _act(entry: JsonObject) -> None:
    action = entry["action"]
    if action == "pause_alone":
        _outlive_parent()
    if action in ("pause", "pause_alone"):
        _pause(float(entry["seconds"]), entry.get("until"))
    elif action == "raise":
        raise FailpointError(f"failpoint {entry['name']}")
    else:
        if action == "kill_app":
            for pid in Path(entry["pids"]).read_text().split():
                _kill(int(pid))
        _kill(os.getpid())


def _outlive_parent() -> None:
    """Stand for an attempt on a machine that is out of reach: it goes on, although what it was started by is gone."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, 0, 0, 0, 0)


def _pause(seconds: float, until: str | None) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not (until and Path(until).exists()):
        time.sleep(min(0.01, seconds))


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
