"""The topologies of a shared runtime, as its checkpoint remembers them: names, programs and wanted states."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import CheckpointError
from hayase.runtime.wire.pickling import pickled, unpickled
from hayase.runtime.wire.whole_objects import check_whole
from hayase.storage.blobs import BlobStore
from hayase.storage.numbered_names import numbers_of
from hayase.topology.topology import Topology

_FOLDER = "topologies/"
_PROGRAMS = "topology-programs/"
_DIGITS = 12


class Member(msgspec.Struct, frozen=True):
    """One topology.

    Attributes:
        application_id: of the topology.
        program: digest of its topology and settings.
        paused: whether it is to be paused.
    """

    application_id: str
    program: str
    paused: bool = False


class Membership:
    """The newest numbered list in the runtime's checkpoint; the caller holds the runtime's lease.

    A change is a new list, created once: a crash leaves the old list or the new one.
    """

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._number, data = self._newest()
        self.members = self._decoded(data) if self._number else {}

    def _newest(self) -> tuple[int, bytes]:
        while numbers := numbers_of(self._blobs.list(_FOLDER), _FOLDER, _DIGITS):
            data = self._blobs.get(_name(max(numbers)))
            if data is not None:  # else the runtime has published the next list just now
                return max(numbers), data
        return 0, b""

    def _decoded(self, data: bytes) -> dict[str, Member]:
        try:
            return decode_json(data, as_type=dict[str, Member])
        except msgspec.MsgspecError as error:
            raise CheckpointError(
                "CHECKPOINT_CORRUPT",
                f"{_name(self._number)} in the runtime's checkpoint is damaged: restore the checkpoint from a copy, or "
                "delete that file: the list before it counts then",
            ) from error

    def begin(self) -> None:
        """Make an empty list if there is none: programs are kept beside a list, or their list was lost.

        Raises:
            CheckpointError: `TOPOLOGIES_LOST`.
        """
        if self._number:
            return
        if any(self._blobs.list(_PROGRAMS)):
            raise CheckpointError(
                "TOPOLOGIES_LOST",
                f"the runtime's checkpoint has programs ({_PROGRAMS}), but no list of the topologies that they are of "
                f"({_FOLDER}), so none would run: restore {_FOLDER} from a copy of the checkpoint; or delete "
                f"{_PROGRAMS} to begin with the topologies of this program alone (their own checkpoints stay)",
            )
        self._publish({})

    def publish(self, members: Mapping[str, Member]) -> None:
        """Make a new list the one that counts; older lists are deleted."""
        if members != self.members:
            self._publish(members)

    def _publish(self, members: Mapping[str, Member]) -> None:
        number = self._number + 1
        if not self._blobs.put_if_absent(_name(number), msgspec.json.encode(dict(members))):
            raise CheckpointError(
                "LEASE_LOST", "another copy of the runtime has changed its topologies: only one may run at a time"
            )
        self._number, self.members = number, dict(members)
        for old in numbers_of(self._blobs.list(_FOLDER), _FOLDER, _DIGITS):
            if old < number:
                self._blobs.delete(_name(old))

    def forget_programs(self) -> None:
        """Delete the programs that no topology has. Before requests are taken: they name programs that are kept."""
        kept = {member.program for member in self.members.values()}
        for name in self._blobs.list(_PROGRAMS):
            if name.removeprefix(_PROGRAMS) not in kept:
                self._blobs.delete(name)

    def keep_program(self, topology: Topology, settings: Mapping[str, Any]) -> str:
        """Keep a program, so that the runtime can start it without the file it came from; returns its digest."""
        data = pickled((topology, dict(settings)))
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        name = f"{_PROGRAMS}{digest}"
        if not self._blobs.put_if_absent(name, data) and self._blobs.get(name) != data:  # the one there is damaged
            self._blobs.delete(name)
            self._blobs.put_if_absent(name, data)
        return digest

    def program(self, digest: str) -> tuple[Topology, dict[str, Any]]:
        """A program that was kept.

        Raises:
            CheckpointError: `PROGRAM_NOT_FOUND`, `PROGRAM_DAMAGED`, `PROGRAM_NOT_LOADABLE`.
        """
        data = self._blobs.get(f"{_PROGRAMS}{digest}")
        if data is None:
            raise CheckpointError(
                "PROGRAM_NOT_FOUND", f"program {digest} is not in the runtime's checkpoint: add the topology again"
            )
        if hashlib.blake2b(data, digest_size=16).hexdigest() != digest:
            raise CheckpointError(
                "PROGRAM_DAMAGED", f"program {digest} in the runtime's checkpoint is damaged: add the topology again"
            )
        try:
            topology, settings = unpickled(data)
            check_whole(topology)
        except Exception as error:  # of another release, or it imports what is not there any more
            raise CheckpointError(
                "PROGRAM_NOT_LOADABLE",
                f"program {digest} in the runtime's checkpoint cannot be loaded ({type(error).__name__}: {error}); it "
                "is of another release of Hayase or Python, or imports a module that is not there: add the topology "
                "again",
            ) from error
        return topology, settings


def _name(number: int) -> str:
    return f"{_FOLDER}{number:0{_DIGITS}d}"
