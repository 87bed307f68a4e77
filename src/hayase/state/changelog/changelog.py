"""The changelog of a bundle: its deltas, each published once. Publishing a delta is the commit point of an epoch."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from hayase.core.errors import CheckpointError, StateError
from hayase.state.changelog.blob_names import epochs_of, parts_of
from hayase.state.changelog.redone_epochs import RedoneEpochs
from hayase.state.changelog.snapshot import Manifest, Snapshots, restore
from hayase.state.delta.changes import StateChanges
from hayase.state.delta.delta import DIGEST_BYTES, Delta, Part, Piece, delta_corrupt
from hayase.state.delta.delta_merge import DeltaMerge, Step
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.environment import START, StatePosition
from hayase.storage.blobs import BlobStore

_LOG = logging.getLogger("hayase.state")

_ATTEMPTS = 5
_PROBED = 8
"""Up to so many epochs behind, deltas are looked up one by one; beyond, the folder is listed."""
_WORTH_A_SNAPSHOT = 16
"""A snapshot is loaded if it saves at least so many deltas."""
_MISFIT = "DELTA_DOES_NOT_FIT"
_GAP = "CHANGELOG_GAP"


class Changelog:
    """Deltas at `changelog/<bundle>/<epoch>`. Several processes may use it; each keeps an object of its own.

    Args:
        blobs: where deltas and snapshots are.
        bundle: which bundle's.
    """

    def __init__(self, blobs: BlobStore, bundle: str) -> None:
        self._blobs = blobs
        self._bundle = bundle
        self._folder = f"changelog/{bundle}/"
        self._parts = f"{self._folder}parts/"
        # Known to be on the chain, so that the usual case, a store that is where we left it, reads nothing.
        self._verified = START
        self._checked_to = START.epoch
        self.snapshots = Snapshots(blobs, bundle)
        self.redone = RedoneEpochs(blobs)
        self.restored: Counter[str] = Counter()
        """Changes replayed from deltas, and entries taken from snapshots, by task, since it was last cleared."""

    def publish(self, delta: Delta) -> Delta:
        """Publish a delta, unless another attempt has published one of this epoch: then that one is returned.

        The caller goes on with what is returned and throws its own work away if it is not `delta`.

        Raises:
            CheckpointError: `DELTA_CONFLICT`: the one that is there is of another checkpoint, was made from another
                epoch record or follows another delta.
            StateError: `DELTA_CORRUPT`: the one that is there is damaged; `EPOCH_IS_HISTORY`: a snapshot of this or a
                later epoch exists, so another attempt has finished this epoch long ago; `DISK_FULL`.
        """
        delta.load = self._load_part
        if self._blobs.put_if_absent(self._name(delta.epoch), delta.to_bytes()):
            # History is deleted from its oldest end, and never the delta that a snapshot is of: where the one before
            # is, there was none here.
            if delta.prev_epoch < 0 or not self._blobs.exists(self._name(delta.prev_epoch)):
                self._refuse_history(delta)
            return delta
        published = self.get(delta.epoch)
        self._delete_parts_of(delta, but=published)
        ours = (delta.checkpoint_id, delta.record_digest, delta.prev_epoch, delta.prev_digest)
        theirs = published and (
            published.checkpoint_id,
            published.record_digest,
            published.prev_epoch,
            published.prev_digest,
        )
        if published is None or ours != theirs:
            raise CheckpointError(
                "DELTA_CONFLICT",
                f"The changelog holds another delta of epoch {delta.epoch}: (checkpoint, digest of the epoch record, "
                f"previous epoch, its digest) are {theirs}, here {ours}. Two applications write to one checkpoint, or "
                "parts of it were restored from a copy. Stop the other, or restore all of the checkpoint.",
                bundle=self._bundle,
                epoch=delta.epoch,
            )
        return published

    def apply(self, state: BundleState, delta: Delta) -> None:
        """Bring a state to a published delta: by applying it, or if the state was moved meanwhile, by catching up.

        Raises:
            StateError: as `catch_up`.
        """
        try:
            state.apply(delta)
            self._verified, self._checked_to = StatePosition(delta.epoch, delta.digest), delta.epoch
        except StateError as error:
            if error.condition != _MISFIT:
                raise
            self.catch_up(state, delta.epoch)

    def get(self, epoch: int, *, journal: bool = True) -> Delta | None:
        """The delta of an epoch, whether it counts or not; `None` if there is none.

        `journal=False`: its journal is left out, unread.

        Raises:
            StateError: `DELTA_CORRUPT`.
        """
        return self._decoded(epoch, journal=journal)

    def publish_part(self, epoch: int, number: int, piece: Piece) -> Part:
        """Publish a piece of a large delta; the delta that names it comes later.

        Raises:
            StateError: `DISK_FULL`.
        """
        digest = piece.data[-DIGEST_BYTES:].hex()
        # Named by content: several attempts may cut the same epoch differently.
        name = f"{self._parts}{epoch:020d}-{number:06d}-{digest}"
        self._blobs.put_if_absent(name, piece.data)
        return Part(piece.kind, name, len(piece.data), digest, piece.topic, piece.count)

    def has_state(self) -> bool:
        """Whether there is any delta or snapshot; there is none of bundles that keep nothing."""
        return bool(self.epochs() or self.snapshots.epochs())

    def has_delta(self, epoch: int) -> bool:
        """Whether there is a delta of an epoch, whether it counts or not."""
        return self._blobs.exists(self._name(epoch))

    def reaches(self, epoch: int) -> bool:
        """Whether the delta of an epoch is there, or was deleted below a snapshot."""
        return self._blobs.exists(self._name(epoch)) or any(each >= epoch for each in self.snapshots.epochs())

    def epochs(self) -> list[int]:
        """Epochs of which there is a delta that counts, ascending."""
        return self.redone.without(self.all_epochs())

    def all_epochs(self) -> list[int]:
        """Epochs of which there is a delta, also those that are redone, ascending."""
        return epochs_of(self._blobs.list(self._folder), self._folder)

    def delete(self, epoch: int) -> None:
        """Delete a delta; see `snapshot_policy.delete_history` for when that is allowed."""
        self._blobs.delete(self._name(epoch))

    def end(self, checkpoint_id: str, epoch: int, created_ms: int) -> None:
        """Delete all deltas and snapshots of a bundle that has no epochs from that one on.

        First the snapshot without content, by which a straggler sees that its epoch is history, then deltas from the
        oldest on: where the one before is missing, a straggler looks (see `publish`).

        Args:
            checkpoint_id: of the checkpoint.
            epoch: one that is done, behind all that the bundle has.
            created_ms: the time.
        """
        if not (self.all_epochs() or self.snapshots.have_parts() or self._blobs.list(self._parts)):
            return
        if max(self.snapshots.epochs(), default=-1) < epoch:
            self.snapshots.publish_end(checkpoint_id, epoch, created_ms)
        for each in self.all_epochs():
            self.delete(each)
        self.delete_parts_below(epoch)
        last = self.snapshots.manifest(max(self.snapshots.epochs()))
        if last is not None:
            self.snapshots.delete_below(last)

    def delete_parts_below(self, epoch: int) -> None:
        """Delete parts of deltas of earlier epochs, also those of attempts that never published their delta."""
        self._delete_parts(lambda each: each < epoch)

    def delete_parts_of(self, epoch: int) -> None:
        """Delete parts of an epoch that has no delta, and no attempt that would publish one."""
        self._delete_parts(lambda each: each == epoch)

    def catch_up(self, state: BundleState, to_epoch: int) -> bool:
        """Bring a state to the bundle's last delta up to and including `to_epoch`.

        A state that was found damaged is deleted and rebuilt. One that is behind follows the chain of deltas, or a
        snapshot and the deltas behind it. One whose last delta is not that of the changelog, and one that is ahead of
        the changelog, is emptied and rebuilt.

        Returns:
            `True`: the state is there. `False`: it was left alone because it is ahead and rightly so: another attempt
            has published and applied a later delta; read that with `get` and adopt it.

        Raises:
            StateError: `CHANGELOG_GAP`: a delta is missing and no snapshot bridges it; `DELTA_CORRUPT`; `DISK_FULL`.
        """
        if state.damaged:
            state.discard()
        for attempt in range(_ATTEMPTS):
            position = state.position()
            if position.epoch > to_epoch and self._is_published(position):
                return False
            if position.epoch > to_epoch or self._is_of_another_run(position):
                _LOG.warning(
                    "the state of bundle %s at %s is at epoch %d, which the checkpoint does not know: it is of a run "
                    "that is not in this checkpoint, of which an older copy was restored perhaps. It is emptied and "
                    "rebuilt",
                    self._bundle,
                    state.path,
                    position.epoch,
                )
                state.wipe(expected=position)
                continue
            try:
                self._advance(state, position, to_epoch)
                return True
            except StateError as error:
                # Another process moved the state, or deleted history below a newer snapshot, meanwhile: look again.
                if error.condition not in (_MISFIT, _GAP) or attempt == _ATTEMPTS - 1:
                    raise
        raise StateError(
            "STATE_CONTENDED",
            f"The state at {state.path} was moved by other processes {_ATTEMPTS} times while it was to be brought to "
            f"epoch {to_epoch}. Is another application running on the same state.dir?",
            bundle=self._bundle,
            epoch=to_epoch,
        )

    def _refuse_history(self, delta: Delta) -> None:
        """A straggler may have found the place empty because the delta was published and then deleted."""
        if any(epoch >= delta.epoch for epoch in self.snapshots.epochs()):
            self.delete(delta.epoch)
            self._delete_parts_of(delta)
            raise StateError(
                "EPOCH_IS_HISTORY",
                f"Epoch {delta.epoch} was finished by another attempt; a snapshot of it or a later one exists. This "
                "attempt has nothing left to do.",
                bundle=self._bundle,
                epoch=delta.epoch,
            )

    def _delete_parts(self, unwanted: Callable[[int], bool]) -> None:
        for epoch, name in parts_of(self._blobs.list(self._parts), self._parts):
            if unwanted(epoch):
                self._blobs.delete(name)

    def _delete_parts_of(self, delta: Delta, but: Delta | None = None) -> None:
        kept = {part.name for part in but.parts} if but is not None else set()
        for part in delta.parts:
            if part.name not in kept:
                self._blobs.delete(part.name)

    def _load_part(self, part: Part) -> Delta:
        data = self._blobs.get(part.name)
        epoch = int(part.name.removeprefix(self._parts).partition("-")[0])
        if data is None or len(data) != part.length or data[-DIGEST_BYTES:].hex() != part.digest:
            raise delta_corrupt(self._bundle, epoch, "a part that is missing or not what was published", part.name)
        try:
            return Delta.from_bytes(data, bundle=self._bundle, epoch=epoch)
        except StateError as error:
            raise delta_corrupt(self._bundle, epoch, "a part with a wrong checksum", part.name) from error

    def _head(self, epoch: int) -> Delta | None:
        """A delta of which only `columns` tells the changes: nothing of it is decoded before that."""
        return self._decoded(epoch, journal=False, changes=False)

    def _decoded(self, epoch: int, *, journal: bool, changes: bool = True) -> Delta | None:
        data = self._blobs.get(self._name(epoch))
        if data is None:
            return None
        delta = Delta.from_bytes(data, bundle=self._bundle, epoch=epoch, journal=journal, changes=changes)
        delta.load = self._load_part
        return delta

    def _name(self, epoch: int) -> str:
        return f"{self._folder}{epoch:020d}"

    def _is_published(self, position: StatePosition) -> bool:
        if position == self._verified:
            return True
        delta = self._head(position.epoch)
        return delta is not None and delta.digest == position.digest and position.epoch not in self.redone

    def _is_of_another_run(self, position: StatePosition) -> bool:
        """Whether the checkpoint shows that it has no such delta.

        It does not for a state so old that the deltas around it were deleted below a snapshot, which replaces it.
        """
        if position in (START, self._verified) or self._is_published(position):
            return False
        if self._blobs.exists(self._name(position.epoch)):
            return True
        # Its delta was deleted: then the one behind names it, or a snapshot is of that epoch or of a later one.
        snapshot = self.snapshots.manifest(position.epoch)
        if snapshot is not None:
            return snapshot.digest != position.digest
        later = next((epoch for epoch in self.epochs() if epoch > position.epoch), None)
        following = self._head(later) if later is not None else None
        if following is not None and following.prev_epoch <= position.epoch:
            return (following.prev_epoch, following.prev_digest) != position
        return not any(epoch > position.epoch for epoch in self.snapshots.epochs())

    def _advance(self, state: BundleState, position: StatePosition, to_epoch: int) -> None:
        # Epochs up to `_checked_to` are over: what is not in the changelog by now will not come.
        checked = self._checked_to if position == self._verified else position.epoch
        if checked < to_epoch:
            pending = self._pending(checked, to_epoch)
            position, pending = self._maybe_restore(state, position, pending, to_epoch)
            if not pending:
                self._check_nothing_deleted(position)
            position = self._replay(state, position, pending)
        self._verified, self._checked_to = position, to_epoch

    def _replay(self, state: BundleState, position: StatePosition, pending: list[int]) -> StatePosition:
        """Apply the deltas of those epochs, as many in one transaction as fit in memory."""
        chain = DeltaMerge()
        for epoch in pending:
            delta = self._head(epoch)
            if delta is None or (delta.prev_epoch, delta.prev_digest) != position:
                # A straggler may have published a delta again that was deleted below a snapshot. Behind it the chain
                # breaks; from there the next look finds the snapshot.
                if chain:
                    state.apply_step(chain.take())
                raise self._gap(position, epoch)
            if chain and not chain.takes(delta):
                state.apply_step(chain.take())
            if delta.parts:
                whole = self.get(epoch, journal=False)
                if whole is None:
                    raise self._gap(position, epoch)
                self._apply_parts(state, whole)
            else:
                for (task, _), changes in delta.columns().items():
                    self.restored[task] += len(changes.keys)
                chain.add(delta)
            position = StatePosition(delta.epoch, delta.digest)
            if chain.full():
                state.apply_step(chain.take())
        if chain:
            state.apply_step(chain.take())
        return position

    def _apply_parts(self, state: BundleState, delta: Delta) -> None:
        restored: Counter[str] = Counter()

        def pieces() -> Iterator[StateChanges]:
            restored.clear()  # a state that has to make room begins again
            for piece in delta.pieces():
                _count(restored, piece)
                yield piece

        state.apply_step(replace(Step.of(delta), pieces=pieces))
        self.restored.update(restored)

    def _maybe_restore(
        self, state: BundleState, position: StatePosition, pending: list[int], to_epoch: int
    ) -> tuple[StatePosition, list[int]]:
        """Load a snapshot if the chain does not reach the state, or is long; returns where it is and what remains."""
        follows = self._follows(pending, position)
        for snapshot in self.snapshots.newest_first(above=position.epoch, up_to=to_epoch):
            if follows and sum(epoch <= snapshot.epoch for epoch in pending) < _WORTH_A_SNAPSHOT:
                break
            if self._restored(state, position, snapshot):
                position = StatePosition(snapshot.epoch, snapshot.digest)
                for (task, _), entries in state.entries().items():
                    self.restored[task] += entries
                return position, [epoch for epoch in pending if epoch > position.epoch]
            if not pending:
                raise self._gap(position, snapshot.epoch)
        return position, pending

    def _check_nothing_deleted(self, position: StatePosition) -> None:
        """No delta follows: because there never was one, or because it was deleted below a snapshot?"""
        if not any(epoch > position.epoch for epoch in self.snapshots.epochs()):
            return
        later = [epoch for epoch in self.epochs() if epoch > position.epoch]
        if later and not self._follows(later, position):
            raise self._gap(position, later[0])

    def _pending(self, epoch: int, to_epoch: int) -> list[int]:
        """Epochs of deltas behind `epoch`, up to and including `to_epoch`."""
        if to_epoch - epoch > _PROBED:
            return [later for later in self.epochs() if epoch < later <= to_epoch]
        return self.redone.without(
            [later for later in range(epoch + 1, to_epoch + 1) if self._blobs.exists(self._name(later))]
        )

    def _follows(self, pending: list[int], position: StatePosition) -> bool:
        first = self._head(pending[0]) if pending else None
        return first is not None and (first.prev_epoch, first.prev_digest) == position

    def _restored(self, state: BundleState, position: StatePosition, snapshot: Manifest) -> bool:
        try:
            if not restore(state, self.snapshots, snapshot, position):
                raise StateError(_MISFIT, "The state was moved by another process.", bundle=self._bundle)
        except StateError as error:
            if error.condition != "SNAPSHOT_CORRUPT":
                raise
            _LOG.warning("a snapshot is skipped, an older one or deltas are read instead: %s", error)
            return False
        return True

    def missing_delta(self, position: int, epoch: int) -> StateError:
        """`CHANGELOG_GAP`, for the last delta of an epoch that is done: nothing behind it shows that it was there."""
        return StateError(
            _GAP,
            f"The changelog of bundle {self._bundle} ends at epoch {position}, but epoch {epoch} is done: "
            f"{self._name(epoch)} is missing in the checkpoint. Restore that blob, or all of the checkpoint, from a "
            "copy; `hayase app reset` starts over without it.",
            bundle=self._bundle,
            epoch=epoch,
        )

    def _gap(self, position: StatePosition, epoch: int) -> StateError:
        following = self._head(epoch)
        before = following.prev_epoch if following is not None else epoch
        missing = self._name(before) if before > position.epoch else f"what follows it in {self._folder}"
        return StateError(
            _GAP,
            f"The changelog of bundle {self._bundle} has a gap: the delta that follows epoch {position.epoch} is "
            f"missing (next is epoch {epoch}), and no intact snapshot bridges it: {missing} is not in the checkpoint. "
            "Restore that blob, or all of the checkpoint's changelog/ and snapshots/, from a copy; `hayase app "
            "reset` starts over without it.",
            bundle=self._bundle,
            epoch=epoch,
        )


def _count(restored: Counter[str], changes: StateChanges) -> None:
    for (task, _), store_changes in changes.stores.items():
        restored[task] += len(store_changes.keys)
