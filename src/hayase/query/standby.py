"""A standby: a follower in a process of its own beside the application (`num.standby.replicas`).

python -m hayase.query.standby CHECKPOINT APPLICATION_ID FOLDER PARENT_PID
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError
from hayase.core.private_files import make_folder, open_file
from hayase.core.signal_event import SignalEvent
from hayase.query.follower_replica import FollowerReplica
from hayase.query.local_folders import followers_folder
from hayase.storage.open import open_blobs

_POLL_S = 0.02
_POLL_REMOTE_S = 0.5
LOG_FILE = "log"
_AGAIN_AFTER_S = 5.0
_STOP_WAIT_S = 10.0
_LOG = logging.getLogger("hayase.query")


@dataclass(slots=True)
class _Process:
    folder: Path
    process: subprocess.Popen[bytes]
    started: float


class Standbys:
    """The standbys of a running application. One that ends is started again after a while.

    Args:
        checkpoint: where the application's checkpoint is.
        application_id: of the application.
        folder: where followers are; each standby has `standby-<n>` in it.
        count: how many.
        monotonic: seconds.
    """

    def __init__(
        self,
        checkpoint: str,
        application_id: str,
        folder: Path,
        count: int,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checkpoint = checkpoint
        self._application_id = application_id
        self._monotonic = monotonic
        self._processes = [self._start(folder / f"standby-{number}") for number in range(count)]

    @property
    def pids(self) -> list[int]:
        """Of the processes."""
        return [each.process.pid for each in self._processes]

    def check(self) -> None:
        """Start again what has ended; call it from time to time."""
        for number, each in enumerate(self._processes):
            if each.process.poll() is not None and self._monotonic() - each.started > _AGAIN_AFTER_S:
                _LOG.warning(
                    "the standby in %s ended with code %s, it is started again; see its file %s",
                    each.folder, each.process.returncode, LOG_FILE,
                )  # fmt: skip
                try:
                    self._processes[number] = self._start(each.folder)
                except OSError as error:  # no memory, no disk: the application goes on without it, and tries again
                    _LOG.warning("the standby in %s could not be started: %s", each.folder, error)
                    each.started = self._monotonic()

    def stop(self) -> None:
        """End them; they finish what they are at."""
        for each in self._processes:
            each.process.terminate()
        for each in self._processes:
            try:
                each.process.wait(_STOP_WAIT_S)
            except subprocess.TimeoutExpired:
                each.process.kill()
                each.process.wait()
        self._processes = []

    def _start(self, folder: Path) -> _Process:
        make_folder(folder)
        command = [
            sys.executable, "-m", "hayase.query.standby",
            self._checkpoint, self._application_id, str(folder), str(os.getpid()),
        ]  # fmt: skip
        with os.fdopen(open_file(folder / LOG_FILE, os.O_WRONLY | os.O_TRUNC), "wb") as log:
            # A session of its own: Ctrl-C in the terminal is for the application, which then ends its standbys.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        return _Process(folder, process, self._monotonic())


def standbys_of(config: StreamsConfig) -> Standbys:
    """Start those that the settings ask for."""
    return Standbys(config.checkpoint_dir, config.application_id, followers_folder(config), config.num_standby_replicas)


def poll_s(checkpoint: str) -> float:
    """How long a follower waits before it looks for the next epoch: a look at an object store is paid for.

    Example:
        >>> poll_s("/data/checkpoint"), poll_s("s3://bucket/checkpoint")
        (0.02, 0.5)
    """
    return _POLL_REMOTE_S if "://" in checkpoint and not checkpoint.startswith("file:") else _POLL_S


def follow_until(replica: FollowerReplica, stopped: Callable[[float], bool], poll_s: float) -> None:
    """Keep a follower up to date until `stopped(seconds to wait at most)` says so; raises as `FollowerReplica.step`."""
    moved = False
    while not stopped(0.0 if moved else poll_s):
        moved = replica.step()


def main(arguments: list[str]) -> int:
    """Follow until SIGTERM, or until the parent is gone."""
    checkpoint, application_id, folder, parent = arguments
    stop = SignalEvent()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        with FollowerReplica(open_blobs(checkpoint, fsync=False), application_id, Path(folder)) as replica:
            follow_until(replica, lambda seconds: os.getppid() != int(parent) or stop.wait(seconds), poll_s(checkpoint))
    except HayaseError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
