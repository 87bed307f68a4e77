"""Watch of the folders of runs: one thread looks whether anything was published in them, for all topologies."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

_LOG = logging.getLogger("hayase.runtime")

POLL_S = 0.1
_TICK_NS = 50_000_000
"""Two changes of a folder within this time may have the same time of change, so the folder is looked at again."""
_JOIN_S = 5.0


class FolderWatch:
    """Calls back, in a thread of its own, when files of a folder were published or removed. Thread-safe.

    Fifty threads that look at their folders by themselves wake hundreds of times a second, for nothing mostly.

    Args:
        poll_s: seconds between two looks.
    """

    def __init__(self, poll_s: float = POLL_S) -> None:
        self._poll_s = poll_s
        self._lock = threading.Lock()
        self._watched: dict[Path, tuple[Callable[[], None], int]] = {}
        self._failed: set[Path] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hayase-folders", daemon=True)
        self._thread.start()

    def add(self, folder: Path, changed: Callable[[], None]) -> None:
        """Call `changed` soon, and after each change of the folder from now on; it must return at once."""
        with self._lock:
            self._watched[folder] = changed, 0

    def remove(self, folder: Path) -> None:
        """Look at a folder no longer."""
        with self._lock:
            self._watched.pop(folder, None)

    def close(self) -> None:
        """Stop looking."""
        self._stopped.set()
        self._thread.join(timeout=_JOIN_S)

    def look(self) -> None:
        """Look at all folders once."""
        with self._lock:
            folders = list(self._watched)
        for folder in folders:
            try:
                self._look_at(folder)
            except Exception:  # of this one alone; the next look may fare better
                if folder not in self._failed:
                    _LOG.exception("%s could not be looked at", folder)
                self._failed.add(folder)
                self._note_seen(folder, 0)
            else:
                self._failed.discard(folder)

    def _look_at(self, folder: Path) -> None:
        try:
            changed_ns = folder.stat().st_mtime_ns
        except FileNotFoundError:  # the run has ended
            return
        settled = time.time_ns() - changed_ns > _TICK_NS
        with self._lock:
            changed, seen_ns = self._watched.get(folder, (None, 0))
        if changed is None or changed_ns == seen_ns:
            return
        self._note_seen(folder, changed_ns if settled else 0)
        changed()

    def _note_seen(self, folder: Path, changed_ns: int) -> None:
        with self._lock:
            if folder in self._watched:  # perhaps with another callback by now
                self._watched[folder] = self._watched[folder][0], changed_ns

    def _run(self) -> None:
        while not self._stopped.wait(self._poll_s):
            self.look()
