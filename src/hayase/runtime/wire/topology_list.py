"""The list of a shared runtime's topologies: written by the driver, read by the planner."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from pathlib import Path

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.private_files import write_file
from hayase.storage.disk_full import naming_full_disk

_FILE = "topologies"
_WHAT = "The list of a runtime's topologies"

InputEnds = dict[str, list[int]]
"""Where the input ends: topic → offset of each of its partitions."""


class ListedTopology(msgspec.Struct, frozen=True):
    """One topology that is to run.

    Attributes:
        options: by which planner and slots find its program, checkpoint and control folder.
        start: number of the start: a topology that is started again has another one.
        bounded: to the ends of its input.
        ends: these ends, topic → partition by partition; `None`: as they are when it starts.
    """

    options: dict[str, str]
    start: int
    bounded: bool
    ends: InputEnds | None = None


class TopologyList:
    """The list, in the folder of the runtime's run."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._read = (0, 0)

    def write(self, topologies: Mapping[str, ListedTopology]) -> None:
        """Driver: replace the list."""
        temporary = self._path.with_name(f"{_FILE}.{uuid.uuid4().hex}.new")
        with naming_full_disk(_WHAT, self._path.parent):
            try:
                write_file(temporary, msgspec.json.encode(topologies))
                temporary.replace(self._path)
            finally:
                temporary.unlink(missing_ok=True)

    def changed(self) -> dict[str, ListedTopology] | None:
        """Planner: the list, by application id; `None` if it is as it was at the last call."""
        try:
            found = self._path.stat()
            # Each list is a file of its own; times of files alone tell lists of the same few milliseconds not apart.
            written = found.st_mtime_ns, found.st_ino
            if written == self._read:
                return None
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        self._read = written
        return decode_json(data, as_type=dict[str, ListedTopology])


class TopologyStarts:
    """The topologies that are to run, as the driver changes them. Thread-safe.

    Args:
        folder: of the runtime's run.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._list = TopologyList(folder)
        self._topologies: dict[str, ListedTopology] = {}
        self._starts = 0

    def add(
        self, application_id: str, options: Mapping[str, str], *, bounded: bool, ends: InputEnds | None = None
    ) -> int:
        """Have a topology run, in place of what runs under that id; see ListedTopology. Returns this start's number."""
        with self._lock:
            self._starts += 1
            self._topologies[application_id] = ListedTopology(dict(options), self._starts, bounded, ends)
            self._list.write(self._topologies)
            return self._starts

    def remove(self, application_id: str) -> None:
        """Have a topology run no longer."""
        with self._lock:
            if self._topologies.pop(application_id, None) is not None:
                self._list.write(self._topologies)
