"""Snapshots: compacted copies of a bundle's state, so that a changelog need not be kept from its beginning."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import lmdb
import msgspec

from hayase.core.decoding import decode_msgpack
from hayase.core.errors import StateError
from hayase.core.failpoints import reach
from hayase.core.private_files import open_file
from hayase.state.changelog.blob_names import epochs_of, parts_of
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.environment import Meta, StatePosition, open_state_environment, read_meta
from hayase.state.environment.spill import temporary_folder
from hayase.storage.blobs import BlobStore
from hayase.storage.disk_full import disk_full, is_out_of_space
from hayase.storage.lmdb_env import close_environment, open_environment, read_transaction

_log = logging.getLogger(__name__)

_DIGEST_BYTES = 16


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A piece of a snapshot: name of the blob, length and digest of its content."""

    name: str
    length: int
    digest: bytes


class Manifest(msgspec.Struct, frozen=True):
    """What a snapshot is; published when all its parts are.

    Attributes:
        checkpoint_id: of which checkpoint.
        bundle: of which bundle.
        epoch: the last epoch in it.
        digest: of that epoch's delta.
        delta_bytes: sizes of all deltas up to that epoch.
        created_ms: when it was made.
        parts: its pieces in order.
        deltas: number of all deltas up to that epoch; see `Meta.deltas`.
    """

    checkpoint_id: str = msgspec.field(name="lineage")
    bundle: str
    epoch: int
    digest: str
    delta_bytes: int
    created_ms: int
    parts: list[Part]
    deltas: int = 0

    @property
    def size_bytes(self) -> int:
        """Of all parts."""
        return sum(part.length for part in self.parts)


class Snapshots:
    """The snapshots of one bundle: manifests at `snapshots/<bundle>/<epoch>`, their parts beside.

    Large ones are cut into parts, so that none has to be in memory as a whole.

    Args:
        blobs: where they are.
        bundle: whose.
        part_bytes: length of a part.
    """

    def __init__(self, blobs: BlobStore, bundle: str, *, part_bytes: int = 32 << 20) -> None:
        self._blobs = blobs
        self._bundle = bundle
        self._part_bytes = part_bytes
        self._folder = f"snapshots/{bundle}/"
        self._parts = f"{self._folder}parts/"

    def epochs(self) -> list[int]:
        """Epochs of which there is one, ascending."""
        return epochs_of(self._blobs.list(self._folder), self._folder)

    def have_parts(self) -> bool:
        """Whether there is any content."""
        return bool(self._blobs.list(self._parts))

    def manifest(self, epoch: int) -> Manifest | None:
        """What the snapshot of that epoch is; `None` if there is none.

        Raises:
            StateError: `SNAPSHOT_CORRUPT`.
        """
        data = self._blobs.get(self._name(epoch))
        if data is None:
            return None
        body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if _digest(body) != digest:
            raise self._corrupt(epoch, f"its manifest {self._name(epoch)} has a wrong checksum")
        try:
            return decode_msgpack(body, as_type=Manifest)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:  # of another version
            raise self._corrupt(epoch, f"its manifest {self._name(epoch)} cannot be read ({error})") from error

    def newest_first(self, above: int = -1, up_to: int | None = None) -> Iterator[Manifest]:
        """Those with `above < epoch <= up_to`; damaged manifests are skipped, which the log says."""
        for epoch in reversed(self.epochs()):
            if epoch > above and (up_to is None or epoch <= up_to):
                try:
                    manifest = self.manifest(epoch)
                except StateError as error:
                    _log.warning("A snapshot is skipped: %s", error)
                    continue
                if manifest is not None:
                    yield manifest

    def publish(self, state: BundleState, created_ms: int) -> Manifest:
        """Copy the state as it is now, publish it and read it back.

        If there is a snapshot of that epoch already, it is returned, verified.

        Raises:
            StateError: `DISK_FULL`; `SNAPSHOT_CORRUPT`: what was published does not read back.
        """
        with temporary_folder(state.path, "A copy of the state") as folder:
            reach("before_snapshot", bundle=self._bundle)
            state.check()  # what is damaged here must not become part of the checkpoint
            copy = _copy_environment(state.path, folder)
            meta = _meta_of(folder)
            manifest = self.manifest(meta.epoch) or self._upload(copy, meta, created_ms)
        self.verify(manifest)
        return manifest

    def publish_end(self, checkpoint_id: str, epoch: int, created_ms: int) -> None:
        """Say that the bundle has ended before that epoch: a snapshot without content, which no restore asks for.

        A straggler of an earlier epoch finds it behind its own, so it gives up (`EPOCH_IS_HISTORY`).
        """
        body = msgspec.msgpack.encode(Manifest(checkpoint_id, self._bundle, epoch, "", 0, created_ms, []))
        self._blobs.put_if_absent(self._name(epoch), body + _digest(body))

    def load(self, manifest: Manifest, folder: Path) -> None:
        """Unpack a snapshot into an empty folder, as an LMDB environment.

        Raises:
            StateError: `SNAPSHOT_CORRUPT`, `DISK_FULL`.
        """
        try:
            with os.fdopen(open_file(folder / "data.mdb", os.O_WRONLY | os.O_TRUNC), "wb") as file:
                for part in manifest.parts:
                    file.write(self._read(manifest, part))
        except OSError as error:
            raise _written(error, folder) from error

    def verify(self, manifest: Manifest) -> None:
        """Read all of a snapshot; raises StateError `SNAPSHOT_CORRUPT` if it is damaged."""
        for part in manifest.parts:
            self._read(manifest, part)

    def delete_below(self, base: Manifest) -> None:
        """Delete the snapshots of earlier epochs, and the parts up to the base's epoch that belong to no snapshot.

        Of the base's own epoch too: a process that has not published a copy of it yet will not do so, since
        the base is there.
        """
        for earlier in self.epochs():
            if earlier < base.epoch:
                self._blobs.delete(self._name(earlier))
        kept = {part.name for part in base.parts}
        for epoch, name in parts_of(self._blobs.list(self._parts), self._parts):
            if name not in kept and epoch <= base.epoch:
                self._blobs.delete(name)

    def _name(self, epoch: int) -> str:
        return f"{self._folder}{epoch:020d}"

    def _upload(self, copy: Path, meta: Meta, created_ms: int) -> Manifest:
        parts: list[Part] = []
        with copy.open("rb") as file:
            while data := file.read(self._part_bytes):
                digest = _digest(data)
                # Named by content: two processes may copy the same epoch into different bytes.
                name = f"{self._parts}{meta.epoch:020d}-{len(parts):06d}-{digest.hex()}"
                self._blobs.put_if_absent(name, data)
                reach("inside_snapshot", bundle=self._bundle)
                parts.append(Part(name, len(data), digest))
        manifest = Manifest(
            meta.checkpoint_id, meta.bundle, meta.epoch, meta.digest, meta.delta_bytes, created_ms, parts, meta.deltas
        )
        body = msgspec.msgpack.encode(manifest)
        if self._blobs.put_if_absent(self._name(meta.epoch), body + _digest(body)):
            reach("after_snapshot", bundle=self._bundle)
            return manifest
        winner = self.manifest(meta.epoch)
        if winner is None:
            raise self._corrupt(meta.epoch, "it was deleted while another process published it")
        for name in {part.name for part in parts} - {part.name for part in winner.parts}:
            self._blobs.delete(name)
        return winner

    def _read(self, manifest: Manifest, part: Part) -> bytes:
        data = self._blobs.get(part.name)
        if data is None:
            raise self._corrupt(manifest.epoch, f"{part.name} is missing")
        if len(data) != part.length or _digest(data) != part.digest:
            raise self._corrupt(manifest.epoch, f"{part.name} has a wrong checksum")
        return data

    def _corrupt(self, epoch: int, why: str) -> StateError:
        return StateError(
            "SNAPSHOT_CORRUPT",
            f"The snapshot of epoch {epoch} of bundle {self._bundle} is damaged: {why}. Restore that blob of the "
            "checkpoint from a copy, or delete the snapshot if the changelog still reaches back to an older one.",
            bundle=self._bundle,
            epoch=epoch,
        )


def restore(state: BundleState, snapshots: Snapshots, manifest: Manifest, expected: StatePosition) -> bool:
    """Replace a state by a snapshot; `False`, and nothing happens, if it is not, or no longer, at `expected`.

    Raises:
        StateError: `SNAPSHOT_CORRUPT`, `SNAPSHOT_FOREIGN`, `DISK_FULL`.
    """
    with temporary_folder(state.path, "A snapshot that is loaded") as folder:
        snapshots.load(manifest, folder)
        return state.reset_from(folder, expected)


def _copy_environment(path: Path, folder: Path) -> Path:
    env = open_state_environment(path)
    try:
        # The copy's own transaction is not known to `lmdb_env`: this one keeps the map from being resized under it.
        with read_transaction(env):
            env.copy(str(folder), compact=True)
    except (lmdb.Error, OSError) as error:
        raise _written(error, folder) from error
    return folder / "data.mdb"


def _meta_of(folder: Path) -> Meta:
    env = open_environment(folder, max_dbs=0, readonly=True, sync=False)
    try:
        with read_transaction(env) as txn:
            meta = read_meta(txn)
    finally:
        close_environment(folder)
    if meta is None:
        raise StateError("STATE_EMPTY", f"{folder} holds no state.")
    return meta


def _written(error: lmdb.Error | OSError, folder: Path) -> StateError:
    code = error.errno if isinstance(error, OSError) else error.code
    if is_out_of_space(code) or shutil.disk_usage(folder).free == 0:
        return disk_full("A copy of the state", folder, error)
    return StateError("SNAPSHOT_FAILED", f"A copy of the state could not be written at {folder}: {error}.")


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
