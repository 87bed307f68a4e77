"""Watch of the folders of runs: one thread looks whether anything was published in them, for all topologies."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_LOG = logging.getLogger("hayase.runtime")

POLL_S = 0.1
_TICK_NS = 50_000_000
"""Two changes of a folder within this time may have the same time of change, so the folder is looked at again."""
_EAGER_LOOKS = 10
_SELDOM_LOOKS = 5
"""A folder that has changed at so many looks in a row is reported at each fifth only: it will go on changing, and who
looks into it again each time computes for nothing else."""
_APART_S = 0.002
"""Between two calls: those who are called compute, and all at once would keep other threads from their turn."""
_JOIN_S = 5.0


class FolderWatch:
    """Calls back, in a thread of its own, when files of a folder were published or removed. Thread-safe.

    Fifty threads that look at their folders by themselves wake hundreds of times a second, for nothing mostly. A folder
    that changes all the time is reported less often than it is looked at.

    Args:
        poll_s: seconds between two looks.
    """

    def __init__(self, poll_s: float = POLL_S) -> None:
        self._poll_s = poll_s
        self._lock = threading.Lock()
        self._watched: dict[Path, _Watched] = {}
        self._failed: set[Path] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hayase-folders", daemon=True)
        self._thread.start()

    def add(self, folder: Path, changed: Callable[[], None]) -> None:
        """Call `changed` soon, and after each change of the folder from now on; it must return at once."""
        with self._lock:
            self._watched[folder] = _Watched(changed)

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
            with self._lock:
                watched = self._watched.get(folder)
            if watched is None:  # removed meanwhile
                continue
            try:
                if _has_news(folder, watched):
                    watched.changed()
                    self._stopped.wait(_APART_S)
            except Exception:  # of this one alone; the next look may fare better
                if folder not in self._failed:
                    _LOG.exception("%s could not be looked at", folder)
                self._failed.add(folder)
                watched.seen_ns = 0
            else:
                self._failed.discard(folder)

    def _run(self) -> None:
        while not self._stopped.wait(self._poll_s):
            self.look()


@dataclass(slots=True)
class _Watched:
    """A folder.

    Attributes:
        changed: called when it has changed.
        seen_ns: its time of change when `changed` was called last; 0: it is called in any case.
        looks: since it was last found unchanged.
    """

    changed: Callable[[], None]
    seen_ns: int = 0
    looks: int = 0


def _has_news(folder: Path, watched: _Watched) -> bool:
    """Whether to report a folder now."""
    try:
        changed_ns = folder.stat().st_mtime_ns
    except FileNotFoundError:  # the run has ended
        return False
    if changed_ns == watched.seen_ns:
        watched.looks = 0
        return False
    watched.looks += 1
    if watched.looks > _EAGER_LOOKS and watched.looks % _SELDOM_LOOKS:
        return False
    settled = time.time_ns() - changed_ns > _TICK_NS
    watched.seen_ns = changed_ns if settled else 0
    return True
