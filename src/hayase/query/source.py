"""Where the states of an application's bundles are read, and how several of them are read at one epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hayase.core.errors import StateError
from hayase.state.environment.epoch_lock import EpochLock
from hayase.state.environment.reader import BundleReader, ReaderSnapshot

Snapshots = Mapping[str, ReaderSnapshot]
"""Snapshots by bundle."""

_TRIES = 50
_TRY_EVERY_S = 0.01
_ALONE = 5
"""So often the states here are looked at before followers are asked."""
_LOCK_TIMEOUT_S = 5.0


class StateSource:
    """A folder with the states of bundles: the workers' own, a follower's, or one of an older epoch.

    Args:
        folder: in it each bundle's state has a folder of its name.
        checkpoint_id: of the checkpoint it must belong to.
        epoch_lock: whether the folder is a follower's, which keeps an epoch lock.
        paths: folders of states that are elsewhere, by name.
        others: gives the sources to ask when the states here cannot be caught at one epoch.
        kept: held for as long as this is in use.
    """

    def __init__(
        self,
        folder: Path,
        checkpoint_id: str,
        *,
        epoch_lock: bool = False,
        others: Callable[[], Sequence[StateSource]] = tuple,
        paths: Mapping[str, Path] | None = None,
        kept: object = None,
    ) -> None:
        self.folder = folder
        self.checkpoint_id = checkpoint_id
        self._epoch_lock = EpochLock(folder) if epoch_lock else None
        self._others = others
        self._paths = paths or {}
        self._kept = kept
        self._readers: dict[str, BundleReader] = {}

    @contextmanager
    def one(self, bundle: str) -> Iterator[ReaderSnapshot]:
        """The state of one bundle as it is now.

        Raises:
            StateError: `FOREIGN_STATE`, `STATE_NOT_THERE`.
        """
        with self._reader(bundle).snapshot() as snapshot:
            self._check(snapshot)
            yield snapshot

    @contextmanager
    def pin(self, bundles: Iterable[str], *, strict: bool, max_seconds: float = 10.0) -> Iterator[Snapshots]:
        """The states of several bundles after the same epoch.

        Pins a snapshot of each; if their epochs differ it tries again, then asks followers.

        Args:
            bundles: which.
            strict: whether different epochs are an error in the end; else they are given as they are.
            max_seconds: how long the snapshots may be read.

        Raises:
            StateError: `EPOCHS_DIFFER`; `FOREIGN_STATE`, `STATE_NOT_THERE`.
        """
        names = sorted(set(bundles))
        with ExitStack() as stack:
            yield self._pinned(stack, names, strict, max_seconds)

    def _pinned(self, stack: ExitStack, names: list[str], strict: bool, max_seconds: float) -> Snapshots:
        for attempt in range(_TRIES):
            with ExitStack() as tried:
                snapshots = self._try(tried, names, max_seconds)
                epochs = {snapshot.epoch for snapshot in snapshots.values()}
                last = attempt == _TRIES - 1
                if len(epochs) <= 1 or (last and not strict):
                    stack.push(tried.pop_all())
                    return snapshots
            if attempt >= _ALONE:
                answer = self._ask(stack, names, min(epochs), max_seconds)
                if answer is not None:
                    return answer
            if not last:
                time.sleep(_TRY_EVERY_S)
        raise StateError(
            "EPOCHS_DIFFER",
            f"The states at {self.folder} could not be caught at one epoch ({min(epochs)} to {max(epochs)}), and "
            f"there is no follower that is at epoch {min(epochs)}. Try again, set num.standby.replicas, run `hayase "
            "follow` beside the application, or read as of an older epoch.",
        )

    def _try(self, stack: ExitStack, names: list[str], max_seconds: float) -> dict[str, ReaderSnapshot]:
        snapshots = self._look(stack, names, max_seconds)
        if self._epoch_lock is None or len({snapshot.epoch for snapshot in snapshots.values()}) <= 1:
            return snapshots
        stack.close()
        with self._epoch_lock.reading(_LOCK_TIMEOUT_S):
            return self._look(stack, names, max_seconds)

    def _look(self, stack: ExitStack, names: list[str], max_seconds: float) -> dict[str, ReaderSnapshot]:
        snapshots: dict[str, ReaderSnapshot] = {}
        for name in names:
            snapshots[name] = stack.enter_context(self._reader(name).snapshot(max_seconds=max_seconds))
            self._check(snapshots[name])
        return snapshots

    def _ask(self, stack: ExitStack, names: list[str], epoch: int, max_seconds: float) -> Snapshots | None:
        """The states of a follower that is as far as every bundle here."""
        for other in self._others():
            with ExitStack() as tried:
                try:
                    snapshots = other._try(tried, names, max_seconds)
                except StateError:  # it is being rebuilt, or gone
                    continue
                if len({snapshot.epoch for snapshot in snapshots.values()}) == 1 and snapshots[names[0]].epoch >= epoch:
                    stack.push(tried.pop_all())
                    return snapshots
        return None

    def _reader(self, bundle: str) -> BundleReader:
        reader = self._readers.get(bundle)
        if reader is None:
            reader = self._readers[bundle] = BundleReader(self._paths.get(bundle, self.folder / bundle))
        return reader

    def _check(self, snapshot: ReaderSnapshot) -> None:
        if snapshot.checkpoint_id != self.checkpoint_id:
            raise StateError(
                "FOREIGN_STATE",
                f"The state at {self.folder} belongs to another checkpoint of this application.id; start the "
                "application, which rebuilds it, or look at state.dir and checkpoint.dir",
            )


class PinnedSource(StateSource):
    """Snapshots that are held open."""

    def __init__(self, source: StateSource, snapshots: Snapshots) -> None:
        super().__init__(source.folder, source.checkpoint_id)
        self._snapshots = snapshots

    @property
    def epoch(self) -> int:
        """The epoch that all of them are after; -1 if there are none."""
        return min((snapshot.epoch for snapshot in self._snapshots.values()), default=-1)

    @contextmanager
    def one(self, bundle: str) -> Iterator[ReaderSnapshot]:
        """The snapshot of a bundle."""
        yield self._snapshots[bundle]

    @contextmanager
    def pin(self, bundles: Iterable[str], *, strict: bool, max_seconds: float = 10.0) -> Iterator[Snapshots]:
        """The snapshots; how long they may be read was said when they were pinned."""
        yield self._snapshots
