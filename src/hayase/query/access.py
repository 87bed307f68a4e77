"""The stores of an application: as they are now, as of an older epoch, several at one epoch, or a follower's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from operator import itemgetter
from pathlib import Path

from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, StateError
from hayase.core.time import epoch_ms, to_iso
from hayase.core.type_variables import R
from hayase.query.checkpoint import (
    Checkpoint,
    check_logged,
    check_store,
    folder_of_store,
    open_checkpoint,
    state_of_store,
    subtopology_of_store,
)
from hayase.query.local_folders import followers_folder, history_folder, settle_application_folder, state_folders
from hayase.query.request import StateQueryRequest, StateQueryResult
from hayase.query.run_query import run_query
from hayase.query.source import FolderSource, PinnedSource
from hayase.query.stores import StoreHandle, open_store
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.history import oldest_epoch, open_past_states
from hayase.state.environment.reader import READ_MAX_S
from hayase.state.environment.remote_bundles_marker import is_moving
from hayase.topology.earlier import store_in
from hayase.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class History:
    """Epochs at which a store can be opened.

    Attributes:
        oldest_epoch: the oldest.
        newest_epoch: the last completed one; -1 if there is none.
        oldest_time_ms: when the oldest was begun, by the wall clock; `None` if its record was deleted.
        newest_time_ms: the same of the newest.
    """

    oldest_epoch: int
    newest_epoch: int
    oldest_time_ms: int | None
    newest_time_ms: int | None


class PinnedStores:
    """Stores of an application, all after the same epoch. Valid inside the `with` that made it.

    Attributes:
        epoch: after which.
    """

    def __init__(self, epoch: int, handles: dict[str, StoreHandle]) -> None:
        self.epoch = epoch
        self._handles = handles

    def store(self, name: str) -> StoreHandle:
        """One of the stores that were pinned.

        Raises:
            StateError: `NOT_PINNED`.
        """
        if name not in self._handles:
            raise StateError("NOT_PINNED", f"{name!r} was not pinned; pinned are {sorted(self._handles)}", store=name)
        return self._handles[name]


class StoreAccess:
    """Opens stores of a topology that runs, or ran, with these settings on this machine."""

    def __init__(self, topology: Topology, config: StreamsConfig) -> None:
        self._topology = topology
        self._config = config

    def store(self, name: str, *, as_of_epoch: int | None = None, as_of: datetime | int | None = None) -> StoreHandle:
        """See `StreamsApp.store`."""
        check_store(self._topology, name)
        topology, checkpoint, (name,) = self._opened([name])
        source = self._source(topology, checkpoint, [name], self.epoch_of(checkpoint, as_of_epoch, as_of))
        return open_store(topology, checkpoint, name, source)

    def query(self, request: StateQueryRequest[R]) -> StateQueryResult[R]:
        """See `StreamsApp.query`."""
        check_store(self._topology, request.store)
        topology, checkpoint, (name,) = self._opened([request.store])
        source = self._source(topology, checkpoint, [name], None)
        return run_query(request, open_store(topology, checkpoint, name, source), checkpoint, source)

    @contextmanager
    def pin(
        self,
        names: Iterable[str],
        *,
        as_of_epoch: int | None = None,
        as_of: datetime | int | None = None,
        max_seconds: float = READ_MAX_S,
    ) -> Iterator[PinnedStores]:
        """See `StreamsApp.pin`."""
        given = list(names)
        topology, checkpoint, names = self._opened(given)
        bundles = bundles_of(topology, checkpoint, names)
        source = self._source(topology, checkpoint, names, self.epoch_of(checkpoint, as_of_epoch, as_of))
        with source.pin(bundles, strict=True, max_seconds=max_seconds) as snapshots:
            yield pinned_stores(topology, checkpoint, given, PinnedSource(snapshots))

    def history(self, name: str) -> History:
        """See `StreamsApp.history`."""
        topology, checkpoint, names = self._opened([name])
        check_logged(topology, names)
        bundles = bundles_of(topology, checkpoint, names)
        oldest = max((oldest_epoch(Changelog(checkpoint.blobs, bundle)) for bundle in bundles), default=0)
        newest = checkpoint.epochs.last_done()
        records = [checkpoint.epochs.record(epoch) for epoch in (oldest, newest)]
        return History(oldest, newest, *(record.wall_clock_ms if record else None for record in records))

    def _opened(self, names: Iterable[str]) -> tuple[Topology, Checkpoint, list[str]]:
        """The checkpoint, the topology as it was started on it, and what stores are called there."""
        checkpoint = open_checkpoint(self._config)
        topology = checkpoint.names(self._topology)
        return topology, checkpoint, [store_in(topology, name) for name in names]

    @staticmethod
    def epoch_of(checkpoint: Checkpoint, epoch: int | None, time: datetime | int | None) -> int | None:
        """The epoch that is asked for; `None`: the last one.

        Raises:
            ConfigError: both were given, or an epoch that is not complete yet.
            StateError: `TIME_BEFORE_HISTORY`.
        """
        if epoch is not None and time is not None:
            raise ConfigError("INVALID_AS_OF", "as_of_epoch and as_of are both given; leave one out")
        if time is not None:
            epoch = checkpoint.epochs.at(epoch_ms(time))
        if epoch is None:
            return None
        last = checkpoint.epochs.last_done()
        if not 0 <= epoch <= last:
            newest = checkpoint.epochs.record(last)
            when = f" (begun {to_iso(newest.wall_clock_ms)})" if newest is not None else ""
            raise ConfigError(
                "INVALID_AS_OF",
                f"epoch {epoch} is not a completed one; the last one is epoch {last}{when}, the first one is 0",
            )
        return epoch

    def _source(self, topology: Topology, checkpoint: Checkpoint, names: list[str], epoch: int | None) -> FolderSource:
        if epoch is None:
            workers = state_folders(self._config).disk / "state"
            followers = follower_sources(self._config, checkpoint.checkpoint_id)
            if is_moving(workers) or (followers and not workers.is_dir()):
                return furthest(followers, bundles_of(topology, checkpoint, names), workers)
            others = partial(follower_sources, self._config, checkpoint.checkpoint_id)
            paths = {
                state_of_store(topology, name, bundle): folder_of_store(topology, self._config, name, bundle)
                for name in names
                for bundle in checkpoint.bundles_of(subtopology_of_store(topology, name))
            }
            return FolderSource(
                workers, checkpoint.checkpoint_id, paths=paths, others=others,
                is_before_first_epoch=lambda: checkpoint.epochs.last_done() < 0,
            )  # fmt: skip
        check_logged(topology, names)
        settle_application_folder(self._config)
        past = open_past_states(history_folder(self._config), epoch)
        past.build(
            checkpoint.blobs,
            bundles_of(topology, checkpoint, names),
            application_id=checkpoint.application_id,
            checkpoint_id=checkpoint.checkpoint_id,
        )
        return FolderSource(past.folder, checkpoint.checkpoint_id, kept=past)


def bundles_of(topology: Topology, checkpoint: Checkpoint, names: Iterable[str]) -> list[str]:
    """The states of bundles that hold those stores; raises UnknownStoreError."""
    subtopologies = {name: subtopology_of_store(topology, name) for name in names}
    return sorted(
        {
            state_of_store(topology, name, bundle)
            for name, subtopology in subtopologies.items()
            for bundle in checkpoint.bundles_of(subtopology)
        }
    )


def pinned_stores(topology: Topology, checkpoint: Checkpoint, names: list[str], source: PinnedSource) -> PinnedStores:
    """Handles of those stores, by the names given, over snapshots that are pinned."""
    handles = {name: open_store(topology, checkpoint, store_in(topology, name), source) for name in names}
    return PinnedStores(source.epoch, handles)


def furthest(followers: Iterable[FolderSource], bundles: Iterable[str], workers: Path) -> FolderSource:
    """The follower that is at the latest epoch.

    On a cluster bundles move, so the workers' states here may be older ones.

    Raises:
        StateError: `STATE_ELSEWHERE`: there is no follower on this machine, or none has anything yet.
    """
    bundles = list(bundles)
    followers_at: list[tuple[int, FolderSource]] = []
    for follower in followers:
        try:
            with follower.pin(bundles, strict=False, first_epoch_wait_s=0.0) as snapshots:
                followers_at.append((min((snapshot.epoch for snapshot in snapshots.values()), default=-1), follower))
        except StateError:  # it is being rebuilt, or gone
            continue
    if not followers_at:
        raise StateError(
            "STATE_ELSEWHERE",
            f"the application runs on a cluster, whose machines share its bundles: what {workers} has of them may be "
            "of an older epoch, and no follower on this machine has a state yet. Set num.standby.replicas for the "
            "program's machine, or run `hayase follow` here; reading as of an epoch works everywhere",
        )
    return max(followers_at, key=itemgetter(0))[1]


def follower_sources(config: StreamsConfig, checkpoint_id: str) -> list[FolderSource]:
    """The followers of an application on this machine that lie where they are looked for."""
    folder = followers_folder(config)
    names = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    return [FolderSource(path, checkpoint_id, epoch_lock=True) for path in names]
