"""Where the states of an application's bundles are read, and how several of them are read at one epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Protocol

from hayase.core.errors import StateError
from hayase.state.environment.epoch_lock import EpochLock
from hayase.state.environment.reader import READ_MAX_S, BundleReader, EmptySnapshot, ReaderSnapshot

Snapshots = Mapping[str, ReaderSnapshot]
"""Snapshots by bundle."""

WAIT_S = 0.5
"""How long states of different epochs are waited for."""
_TRY_EVERY_S = 0.01
_ALONE = 5
"""So often the states here are looked at before followers are asked."""
_LOCK_TIMEOUT_S = 5.0
FIRST_EPOCH_WAIT_S = 10.0
"""How long a state that is not there is waited for where others are: the first epoch makes one after the other."""


class StateSource(Protocol):
    """The states of an application's bundles: one as it is now, or several after the same epoch."""

    def one(self, bundle: str) -> AbstractContextManager[ReaderSnapshot]:
        """The state of one bundle as it is now.

        Raises:
            StateError: `FOREIGN_STATE`, `STATE_NOT_THERE`.
        """
        ...

    def pin(
        self,
        bundles: Iterable[str],
        *,
        strict: bool,
        max_seconds: float = READ_MAX_S,
        wait_s: float = WAIT_S,
        first_epoch_wait_s: float = FIRST_EPOCH_WAIT_S,
    ) -> AbstractContextManager[Snapshots]:
        """The states of several bundles after the same epoch.

        Args:
            bundles: which.
            strict: whether different epochs are an error in the end; else they are given as they are.
            max_seconds: how long the snapshots may be read.
            wait_s: how long it may take until the epochs are the same.
            first_epoch_wait_s: how long it may take until all are there where one is.

        Raises:
            StateError: `EPOCHS_DIFFER`; `FOREIGN_STATE`, `STATE_NOT_THERE`.
        """
        ...


class FolderSource:
    """A folder with the states of bundles: the workers' own, a follower's, or one of an older epoch (`StateSource`).

    Args:
        folder: in it each bundle's state has a folder of its name.
        checkpoint_id: of the checkpoint it must belong to.
        epoch_lock: whether the folder is a follower's, which keeps an epoch lock.
        paths: folders of states that are elsewhere, by name.
        others: gives the sources to ask when the states here cannot be taken at one epoch.
        kept: held for as long as this is in use.
        is_before_first_epoch: asked where there is no state: whether that is because the application has completed no
            epoch yet. Then its stores are empty, as Kafka Streams' are.
    """

    def __init__(
        self,
        folder: Path,
        checkpoint_id: str,
        *,
        epoch_lock: bool = False,
        others: Callable[[], Sequence[FolderSource]] = tuple,
        paths: Mapping[str, Path] | None = None,
        kept: object = None,
        is_before_first_epoch: Callable[[], bool] = lambda: False,
    ) -> None:
        self.folder = folder
        self.checkpoint_id = checkpoint_id
        self._epoch_lock = EpochLock(folder) if epoch_lock else None
        self._others = others
        self._paths = paths or {}
        self._kept = kept
        self._is_before_first_epoch = is_before_first_epoch
        self._readers: dict[str, BundleReader] = {}

    @contextmanager
    def one(self, bundle: str) -> Iterator[ReaderSnapshot]:
        """See `StateSource.one`."""
        with ExitStack() as stack:
            try:
                snapshot = stack.enter_context(self._snapshot(bundle))
            except StateError as error:
                if not self._is_empty(error):
                    raise
                snapshot = EmptySnapshot(self.checkpoint_id)
            yield snapshot

    @contextmanager
    def pin(
        self,
        bundles: Iterable[str],
        *,
        strict: bool,
        max_seconds: float = READ_MAX_S,
        wait_s: float = WAIT_S,
        first_epoch_wait_s: float = FIRST_EPOCH_WAIT_S,
    ) -> Iterator[Snapshots]:
        """See `StateSource.pin`.

        Pins a snapshot of each; if their epochs differ it keeps those of the latest one and waits for the others, then
        asks followers. While the first epoch is under way, some are not there yet, and waited for.
        """
        names = sorted(set(bundles))
        with ExitStack() as stack:
            yield self._pinned(stack, names, strict, max_seconds, wait_s, first_epoch_wait_s)

    def _pinned(
        self,
        stack: ExitStack,
        names: list[str],
        strict: bool,
        max_seconds: float,
        wait_s: float,
        first_epoch_wait_s: float,
    ) -> Snapshots:
        with closing(self._snapshots_of(names, max_seconds)) as taken:
            try:
                self._wait_until_there(taken, first_epoch_wait_s)
            except StateError as error:
                if taken.snapshots or not self._is_empty(error):
                    raise
                return {name: EmptySnapshot(self.checkpoint_id, max_seconds) for name in names}
            until_s = time.monotonic() + wait_s
            for attempt in count():
                is_last = attempt > _ALONE and time.monotonic() >= until_s  # followers are asked in any case
                if self._renew(taken) or (is_last and not strict):
                    stack.enter_context(closing(taken.handed_over()))
                    return taken.snapshots
                if attempt >= _ALONE:
                    answer = self._ask(stack, names, min(taken.epochs()), max_seconds)
                    if answer is not None:
                        return answer
                if is_last:
                    break
                time.sleep(_TRY_EVERY_S)
            epochs = taken.epochs()
        raise StateError(
            "EPOCHS_DIFFER",
            f"The states at {self.folder} could not be taken at one epoch ({min(epochs)} to {max(epochs)}), and "
            f"there is no follower that is at epoch {min(epochs)}. Try again, set num.standby.replicas, run `hayase "
            "follow` beside the application, or read as of an older epoch.",
        )

    def _is_empty(self, error: StateError) -> bool:
        """Whether a state that cannot be read is one that nothing was ever written to."""
        return error.condition == "STATE_NOT_THERE" and self._is_before_first_epoch()

    def _wait_until_there(self, taken: _SnapshotsOfBundles, wait_s: float) -> None:
        """Raises StateError `STATE_NOT_THERE`: none is there, or one is not after a while."""
        until_s = time.monotonic() + wait_s
        while (missing := taken.take_first()) is not None:
            if not taken.snapshots or time.monotonic() >= until_s:
                raise missing
            taken.release()  # how long snapshots may be read counts from when all are there
            time.sleep(_TRY_EVERY_S)

    def _snapshots_of(self, names: Sequence[str], max_seconds: float) -> _SnapshotsOfBundles:
        return _SnapshotsOfBundles(names, lambda name: self._snapshot(name, max_seconds))

    def _renew(self, taken: _SnapshotsOfBundles) -> bool:
        """Whether all snapshots are after one epoch, when those that were behind have been taken again."""
        if taken.renew():
            return True
        if self._epoch_lock is None:
            return False
        with self._epoch_lock.reading(_LOCK_TIMEOUT_S):  # the second time those that were the newest before
            return taken.renew() or taken.renew()

    @contextmanager
    def _snapshot(self, bundle: str, max_seconds: float = READ_MAX_S) -> Iterator[ReaderSnapshot]:
        with self._reader(bundle).snapshot(max_seconds=max_seconds) as snapshot:
            self._check(snapshot)
            yield snapshot

    def _ask(self, stack: ExitStack, names: list[str], epoch: int, max_seconds: float) -> Snapshots | None:
        """The states of a follower that is as far as every bundle here."""
        for other in self._others():
            with closing(other._snapshots_of(names, max_seconds)) as taken:
                try:
                    is_same = other._renew(taken)
                except StateError:  # it is being rebuilt, or gone
                    continue
                if is_same and min(taken.epochs()) >= epoch:
                    stack.enter_context(closing(taken.handed_over()))
                    return taken.snapshots
        return None

    def _reader(self, bundle: str) -> BundleReader:
        reader = self._readers.get(bundle)
        if reader is None:
            reader = self._readers[bundle] = BundleReader(self._paths.get(bundle, self.folder / bundle))
        return reader

    def _check(self, snapshot: ReaderSnapshot) -> None:
        if not snapshot.checkpoint_id:
            raise StateError("STATE_NOT_THERE", f"A state at {self.folder} is just being made. Try again")
        if snapshot.checkpoint_id != self.checkpoint_id:
            raise StateError(
                "FOREIGN_STATE",
                f"The state at {self.folder} belongs to another checkpoint of this application.id; start the "
                "application, which rebuilds it, or look at state.dir and checkpoint.dir",
            )


class _SnapshotsOfBundles:
    """Snapshots of several bundles, to be closed.

    Args:
        names: of the bundles.
        open_snapshot: takes one of a bundle, as it is now.
    """

    def __init__(self, names: Sequence[str], open_snapshot: Callable[[str], AbstractContextManager[ReaderSnapshot]]):
        self.snapshots: dict[str, ReaderSnapshot] = {}
        self._names = names
        self._open_snapshot = open_snapshot
        self._stacks = {name: ExitStack() for name in names}

    def epochs(self) -> set[int]:
        """After which the snapshots are."""
        return {snapshot.epoch for snapshot in self.snapshots.values()}

    def take_first(self) -> StateError | None:
        """Take those that were not taken yet; the error of one that is not there."""
        missing: StateError | None = None
        for name in self._names:
            if name not in self.snapshots:
                try:
                    self.snapshots[name] = self._stacks[name].enter_context(self._open_snapshot(name))
                except StateError as error:
                    if error.condition != "STATE_NOT_THERE":
                        raise
                    missing = error
        return missing

    def renew(self) -> bool:
        """Take again those that are behind, the others stay; whether all are after one epoch then."""
        newest = max(self.epochs(), default=None)
        for name in self._names:
            if name not in self.snapshots or self.snapshots[name].epoch != newest:
                self._stacks[name].close()
                self.snapshots[name] = self._stacks[name].enter_context(self._open_snapshot(name))
        return len(self.epochs()) <= 1

    def handed_over(self) -> _SnapshotsOfBundles:
        """The same snapshots; closing this one no longer closes them."""
        taken = _SnapshotsOfBundles(self._names, self._open_snapshot)
        taken.snapshots = self.snapshots
        self._stacks, taken._stacks = taken._stacks, self._stacks
        return taken

    def release(self) -> None:
        """Let go of the snapshots; they may be taken again."""
        self.close()
        self.snapshots.clear()

    def close(self) -> None:
        """Let go of the snapshots."""
        for stack in self._stacks.values():
            stack.close()


class PinnedSource:
    """Snapshots that are held open (`StateSource`)."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots

    @property
    def epoch(self) -> int:
        """The epoch that all of them are after; -1 if there are none."""
        return min((snapshot.epoch for snapshot in self._snapshots.values()), default=-1)

    @contextmanager
    def one(self, bundle: str) -> Iterator[ReaderSnapshot]:
        """See `StateSource.one`."""
        yield self._snapshots[bundle]

    @contextmanager
    def pin(self, bundles: Iterable[str], **_: object) -> Iterator[Snapshots]:
        """See `StateSource.pin`; how long the snapshots may be read was said when they were pinned."""
        yield self._snapshots
