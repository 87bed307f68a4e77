"""Planner of a shared runtime: one process with a loop for each topology, one look at the log, one pool of slots."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hayase.core.errors import HayaseError
from hayase.core.time import SystemClock
from hayase.log.assignments import Place
from hayase.log.kafka.slot_ids import Owner, SlotIds
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig
from hayase.runtime.epochs.log_watch import LogWatch
from hayase.runtime.epochs.planner import EpochPlanner
from hayase.runtime.epochs.slot_jobs import SlotJobs
from hayase.runtime.epochs.slot_places import PlacedTopology, SlotPlaces
from hayase.runtime.epochs.slot_pool import SlotPool
from hayase.runtime.epochs.topology_loop import AWAY, TopologyLoop
from hayase.runtime.wire.app_spec import load_app_spec
from hayase.runtime.wire.folder_watch import FolderWatch
from hayase.runtime.wire.log_relay import log_to_driver
from hayase.runtime.wire.patient import patience_of
from hayase.runtime.wire.planner_control import PlannerControl
from hayase.runtime.wire.row_files import RowFiles
from hayase.runtime.wire.shared_options import SharedOptions
from hayase.runtime.wire.topology_list import ListedTopology, TopologyList
from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs

_LOG = logging.getLogger("hayase.runtime")

_LIST_POLL_S = 0.02
_JOIN_S = 30.0
_CLOSE_S = 5.0
_NOTHING_S = 0.1


class SharedPlanner:
    """One per shared runtime."""

    def __init__(self, options: SharedOptions) -> None:
        self._options = options
        log_to_driver(options.log_address, options.log_level, {}, ())
        self._list = TopologyList(Path(options.folder))
        self._control = PlannerControl(Path(options.folder))
        patience = patience_of({"patience_ms": str(options.patience_ms)}, f"planner-{os.getpid()}")
        blobs = open_blobs(options.checkpoint, fsync=False, patience=patience)  # of rounds nothing has to be durable
        self._row_files = RowFiles(blobs)
        self.pool = SlotPool(options.slots, options.endpoints(), remove_rows=self._row_files.remove)
        self.jobs = SlotJobs(self.pool, options.job_s, self._control.yield_requested, blobs)
        self._logs: dict[str, tuple[Log, LogWatch]] = {}
        self._loops: dict[str, tuple[ListedTopology, TopologyLoop]] = {}
        self._places: SlotPlaces | None = None
        self._placed: dict[str, PlacedTopology] = {}
        self._folders = FolderWatch()
        self._placing = threading.Lock()  # one assignment at a time; none waits for it with `_lock` held
        self._stopped = threading.Event()
        self._listed = threading.Event()
        self._lock = threading.Lock()  # for _wanted, _loops and _placed
        self._wanted: dict[str, ListedTopology] = {}
        self._changed = threading.Event()
        self._starter = threading.Thread(target=self._start_listed, name="hayase-starts", daemon=True)
        self._starter.start()
        self._thread = threading.Thread(target=self._follow, name="hayase-topologies", daemon=True)
        self._thread.start()
        self._control.publish_ready()

    def begin_job(self, after: int) -> int:
        """The number of the next Spark job; `after` if there is nothing to do for now."""
        if self._control.stop_requested() or not self._listed.wait(_NOTHING_S):
            return after
        return self.jobs.begin(after)

    def close(self) -> None:
        """End all loops at once: epochs that are open are finished by the next start."""
        self._stopped.set()
        self._changed.set()
        self._folders.close()
        self.pool.close()
        with self._lock:
            self._wanted = {}
            loops = list(self._loops.values())
        for _, loop in loops:
            loop.stop()
        self._starter.join(_CLOSE_S)
        self._control.publish_closed()
        if self._places is not None:
            self._places.close()
        for log, watch in self._logs.values():
            watch.close()
            log.close()

    def _follow(self) -> None:
        """Stop loops as the list says, and have others started."""
        yielding = False
        while not self._stopped.wait(_LIST_POLL_S):
            try:
                listed = self._list.changed()
                if listed is not None:
                    self._take(listed)
                if self._control.stop_requested():
                    self._stop_job()
                if self._control.yield_requested() != yielding:
                    yielding = not yielding
                    if yielding:
                        self.pool.end_job()
                self.jobs.check()
            except Exception:  # the next look may fare better; a topology that cannot be started has said so
                _LOG.exception("the list of topologies could not be followed")

    def _stop_job(self) -> None:
        """Have the tasks return before the query is stopped: Spark would end them in the middle of what they write."""
        self.pool.end_job()
        if not self.pool.has_tasks and self._control.suspend_requested():
            self._control.publish_suspended()

    def _take(self, listed: Mapping[str, ListedTopology]) -> None:
        """Stop the loops that are not listed as they were; what is listed and has no loop is started meanwhile."""
        with self._lock:
            self._wanted = dict(listed)
            ending = {each: loop for each, loop in self._loops.items() if listed.get(each) != loop[0]}
        for entry, loop in ending.values():  # all at once: one may be waiting for brokers
            self._folders.remove(Path(entry.options["control"]))
            loop.stop()
        deadline = time.monotonic() + _JOIN_S
        for application_id, (entry, loop) in ending.items():
            loop.join(max(0.0, deadline - time.monotonic()))
            if application_id not in listed or entry.options["digest"] != listed[application_id].options["digest"]:
                self.pool.release(application_id, _JOIN_S)
            with self._lock:
                del self._loops[application_id]
                self._placed.pop(application_id, None)
            self.pool.rejoin(application_id)
            PlannerControl(Path(entry.options["control"])).publish_released(entry.start)
        self._changed.set()
        if listed:
            self._listed.set()
        else:
            self._listed.clear()

    def _start_listed(self) -> None:
        """Start what is listed, in a thread of its own: brokers that do not answer hold up no stop of another topology.

        A topology that has failed to start is not tried again before it is listed again.
        """
        tried: dict[str, ListedTopology] = {}
        while not self._stopped.is_set():
            self._changed.wait()
            self._changed.clear()
            with self._lock:
                tried = {each: entry for each, entry in tried.items() if self._wanted.get(each) == entry}
                new = self._wanted.keys() - self._loops.keys() - tried.keys()
                starting = {each: entry for each, entry in self._wanted.items() if each in new}
            tried |= starting
            try:
                self._start(starting)
            except Exception:  # those that could not be started have said so
                _LOG.exception("listed topologies could not be started")

    def _start(self, entries: Mapping[str, ListedTopology]) -> None:
        """Start the loops of topologies; one that cannot be opened has failed, and nothing of it is kept."""
        opened: dict[str, tuple[EpochPlanner, LogWatch]] = {}
        for application_id, entry in entries.items():
            with self._failing(application_id, entry):
                opened[application_id] = self._open(entry.options, PlannerControl(Path(entry.options["control"])))
        starting = {
            application_id: PlacedTopology.of(planner.app)
            for application_id, (planner, _) in opened.items()
            if planner.app.exactly_once and planner.app.log.kind == "kafka"
        }
        away = self._try_to_place(starting)
        for application_id, (planner, watch) in opened.items():
            entry = entries[application_id]
            with self._failing(application_id, entry):
                if application_id in starting and application_id not in self._placed:
                    if away is not None:
                        raise away
                    self._place({application_id: starting[application_id]})
                places = self._places_of(application_id) if application_id in starting else {}
                self._begin(entry, planner, watch, places)

    def _begin(
        self, entry: ListedTopology, planner: EpochPlanner, watch: LogWatch, places: Mapping[str, Place]
    ) -> None:
        """Start the loop of a topology, unless it is not to run any more."""
        application_id, folder = planner.app.application_id, Path(entry.options["control"])
        with self._lock:
            wanted = self._wanted.get(application_id) == entry
            if wanted:
                loop = TopologyLoop(
                    planner, entry.options, self.pool, watch, self._row_files,
                    bounded=entry.bounded, ends=entry.ends, places=places, place=self._place_again,
                )  # fmt: skip
                self._loops[application_id] = entry, loop
                loop.start()
                self._folders.add(folder, loop.look_for_requests)
            else:
                self._placed.pop(application_id, None)
        if not wanted:
            PlannerControl(folder).publish_released(entry.start)

    def _try_to_place(self, starting: Mapping[str, PlacedTopology]) -> HayaseError | None:
        """Place topologies together, if that works; the error if brokers or stores are away, so that none would do."""
        try:
            self._place(starting)
        except Exception as error:  # of one of them perhaps: tried one by one, each fails with its own
            if isinstance(error, HayaseError) and error.condition in AWAY:
                return error
            _LOG.info("topologies are placed one by one: %s", error)
        return None

    def _place(self, starting: Mapping[str, PlacedTopology]) -> None:
        """Give the bundles of topologies that begin to the producers of their slots."""
        if not starting:
            return
        with self._placing:
            if self._places is None:  # one log for all topologies: where it is, is a setting of the runtime
                self._places = self._open_places(next(iter(starting.values())).log)
            with self._lock:
                placed = {**self._placed, **starting}
            self._places.place(placed, list(starting))
            with self._lock:
                self._placed.update(starting)

    def _place_again(self, application_id: str, own: frozenset[int]) -> Mapping[str, Place]:
        """Give a topology's bundles in some slots an id to themselves, those in others the slots'; their places.

        The topology is at work.
        """
        with self._placing:
            assert self._places is not None
            with self._lock:
                topology = replace(self._placed[application_id], own=own)
                placed = {**self._placed, application_id: topology}
            self._places.place(placed, ())
            with self._lock:
                self._placed[application_id] = topology
            return self._places.of(application_id)

    def _places_of(self, application_id: str) -> Mapping[str, Place]:
        assert self._places is not None
        return self._places.of(application_id)

    def _open_places(self, log: LogConfig) -> SlotPlaces:
        options = self._options
        patience = patience_of({"patience_ms": str(options.patience_ms)}, f"planner-{os.getpid()}")

        def open_checkpoint(location: str) -> BlobStore:
            return open_blobs(location, fsync=options.fsync, patience=patience)

        owner = Owner(options.runtime_id, options.checkpoint)
        return SlotPlaces(owner, open_checkpoint(options.checkpoint), SlotIds(log), self.pool.size, open_checkpoint)

    @contextmanager
    def _failing(self, application_id: str, entry: ListedTopology) -> Iterator[None]:
        """An error inside is that of a topology, which counts as released then."""
        try:
            yield
        except Exception as error:
            control = PlannerControl(Path(entry.options["control"]))
            if isinstance(error, HayaseError):
                control.publish_failure(f"hayase.core.errors.{type(error).__name__}: {error}")
            else:  # a program that cannot be loaded is one topology's affair
                _LOG.exception("topology %s could not be started", application_id)
                control.publish_failure(f"{type(error).__name__}: {error}")
            control.publish_released(entry.start)

    def _open(self, options: Mapping[str, str], control: PlannerControl) -> tuple[EpochPlanner, LogWatch]:
        patience = patience_of(options, f"planner-{os.getpid()}")
        blobs = open_blobs(options["checkpoint"], fsync=options["fsync"] == "true", patience=patience)
        app = load_app_spec(blobs, options["digest"])
        log, watch = self._log(app.log)
        return EpochPlanner(app, blobs, log, SystemClock(), control, watch), watch

    def _log(self, config: LogConfig) -> tuple[Log, LogWatch]:
        key = repr(config)
        if key not in self._logs:
            self._logs[key] = open_log(config), LogWatch(open_log(config))
        return self._logs[key]
