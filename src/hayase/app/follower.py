"""A follower: copies of an application's stores, kept up to date beside it, that answer the same queries."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from types import TracebackType

from hayase.compiler.options import configured
from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError, StreamsStoppedError
from hayase.query.access import PinnedStores, bundles_of, pinned_stores
from hayase.query.checkpoint import Checkpoint, check_logged, check_store, open_checkpoint
from hayase.query.follower_replica import FollowerReplica, FollowerStatus, read_status
from hayase.query.local_folders import application_folder, followers_folder, settle_application_folder
from hayase.query.source import FolderSource, PinnedSource
from hayase.query.standby import follow_until, poll_s
from hayase.query.stores import StoreHandle, open_store
from hayase.storage.open import open_blobs
from hayase.topology.earlier import store_in
from hayase.topology.topology import Topology

_WAIT_POLL_S = 0.005


class Follower:
    """Keeps copies of all stores of an application in a folder of its own, and answers queries from them.

    It reads the checkpoint alone: the application may run elsewhere, be busy, or be down. It shows completed
    epochs, one after the other; all stores and partitions are always seen after the same epoch, unlike those of the
    workers, which are in the middle of an epoch most of the time. It lags by the epoch at work and the time to take one
    in (`status`); far behind, or when deltas were deleted, it begins from the newest snapshot. Killed at any moment, it
    goes on from what it has.

    One process at a time keeps a follower up to date (`start`, or `hayase follow`); any process of the machine
    can read it, started or not. In a folder where they are looked for (the default), it is also what the
    application's own readers turn to (`StreamsApp.pin`), and what workers copy whose own state is missing.

    Args:
        topology: of the application.
        config: its settings: `application.id`, `checkpoint.dir` and `state.dir` matter.
        name: of the follower; its folder is `<state.dir>/<application.id>/followers/<name>`.
        directory: another folder, on a local file system.

    Raises:
        ConfigError: a setting is unknown, missing, or its value not allowed.
        TopologyError: neither the topology nor the settings name a serde that is needed.

    Example:
        >>> with Follower(topology, {"application.id": "sales"}) as follower:  # doctest: +SKIP
        ...     follower.wait_for(app.progress().last_epoch)
        ...     with follower.pin("orders", "totals") as pinned:
        ...         print(pinned.epoch, pinned.store("totals").get("ada").value)
    """

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig | Mapping[str, object],
        *,
        name: str = "default",
        directory: Path | str | None = None,
    ) -> None:
        self.config = config if isinstance(config, StreamsConfig) else StreamsConfig(config)
        self.topology = configured(topology, self.config)
        self.folder = Path(directory).absolute() if directory is not None else followers_folder(self.config) / name
        self._replica: FollowerReplica | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._error: HayaseError | None = None

    @property
    def error(self) -> HayaseError | None:
        """The error that stopped the follower; `None` if there was none."""
        return self._error

    def start(self) -> None:
        """Keep it up to date in a thread of this process, until `close`. The application need not have started yet.

        Raises:
            StateError: `FOLLOWER_RUNNING`: another process keeps it up to date.
            StreamsStoppedError: `ALREADY_STARTED`.
        """
        if self._thread is not None:
            raise StreamsStoppedError(
                "ALREADY_STARTED", "the follower was started already; make a new one to start again"
            )
        blobs = open_blobs(self.config.checkpoint_dir, fsync=False)
        if self.folder.is_relative_to(application_folder(self.config)):
            settle_application_folder(self.config)
        self._replica = FollowerReplica(blobs, self.config.application_id, self.folder)
        self._thread = threading.Thread(target=self._follow, args=(self._replica,), name="hayase-follower", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; what it has survives a power loss then. Calling it again does nothing."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def status(self) -> FollowerStatus:
        """Epoch and lag, as of the last epoch taken in or looked for; of another process' follower as it said last."""
        return read_status(self.folder) if self._replica is None else self._replica.status()

    def wait_for(self, epoch: int, timeout: timedelta = timedelta(seconds=60)) -> bool:
        """Wait until it is at an epoch, or beyond; `False` if it is not within the timeout.

        Raises:
            HayaseError: why it stopped by itself.
        """
        deadline = time.monotonic() + timeout.total_seconds()
        while self.status().epoch < epoch:
            if self._error is not None:
                raise self._error
            if time.monotonic() > deadline:
                return False
            time.sleep(_WAIT_POLL_S)
        return True

    def store(self, name: str) -> StoreHandle:
        """A store to read. Every call sees the epoch that the follower is at then, all partitions the same.

        Raises:
            UnknownStoreError: the topology has no store of that name.
            StateError: `NO_STATE`: the application never started with these settings; from the calls of the handle
                `STATE_NOT_THERE`: the follower has nothing yet; `FOREIGN_STATE`: the application was started over and
                the follower does not know yet; `STORE_NOT_LOGGED`: the store has no changelog.
        """
        check_store(self.topology, name)
        topology, checkpoint, source = self._opened()
        name = store_in(topology, name)
        check_logged(topology, [name])
        return open_store(topology, checkpoint, name, source)

    def pin(self, *names: str, max_time: timedelta = timedelta(seconds=10)) -> AbstractContextManager[PinnedStores]:
        """Several stores after one and the same epoch, for as long as a `with` lasts; see `StreamsApp.pin`.

        Raises:
            StateError: `EPOCHS_DIFFER`: it is catching up from far behind.
            UnknownStoreError: as `store`.
        """
        return self._pin(list(names), max_time.total_seconds())

    def __enter__(self) -> Follower:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _pin(self, names: list[str], max_seconds: float) -> Iterator[PinnedStores]:
        topology, checkpoint, source = self._opened()
        stores = [store_in(topology, name) for name in names]
        check_logged(topology, stores)
        bundles = bundles_of(topology, checkpoint, stores)
        with source.pin(bundles, strict=True, max_seconds=max_seconds) as snapshots:
            yield pinned_stores(topology, checkpoint, names, PinnedSource(snapshots))

    def _opened(self) -> tuple[Topology, Checkpoint, FolderSource]:
        checkpoint = open_checkpoint(self.config)
        source = FolderSource(self.folder, checkpoint.checkpoint_id, epoch_lock=True)
        return checkpoint.names(self.topology), checkpoint, source

    def _follow(self, replica: FollowerReplica) -> None:
        try:
            with replica:
                follow_until(replica, self._stop.wait, poll_s(self.config.checkpoint_dir))
        except HayaseError as error:
            self._error = error
        except Exception as error:  # a thread must not end without saying why
            self._error = StreamsStoppedError(
                "FOLLOWER_FAILED", f"the follower failed: {type(error).__name__}: {error}"
            )
