"""The query of a shared runtime without Spark: planner and slots are threads of this process."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.spark.place import Place

from hayase import StreamsRuntime
from hayase.core.errors import HayaseError
from hayase.core.private_files import make_folder
from hayase.core.socket_folder import socket_folder
from hayase.log.protocol import LogConfig
from hayase.runtime.epochs.shared_planner import SharedPlanner
from hayase.runtime.epochs.slot_jobs import SlotOrder
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.folder_watch import FolderWatch
from hayase.runtime.wire.shared_options import SharedOptions
from hayase.runtime.wire.topology_list import InputEnds, TopologyStarts
from hayase.runtime.worker.slot_client import SlotWorker, work_off

_POLL_S = 0.02
_JOIN_S = 20.0


class QueryInProcess:
    """In the place of `SharedQuery`: the parts of Spark are played here, all else is the product's code.

    A job has a thread for each slot that has an order, which works on requests until the job has ended, or on those of
    a round; then the next one begins. What a slot keeps from job to job is a `SlotWorker` of its own, as in a worker
    process.
    """

    def __init__(self, runtime_id: str, folder: Path, slots: int, *_: object, job_s: float, **more: Any) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder)
        self.folder = Path(tempfile.mkdtemp(dir=folder.resolve()))
        self.endpoints = RunEndpoints(str(self.folder), str(socket_folder("hayase-test-")))
        self.slots = slots
        self.folders = FolderWatch()
        self.error: HayaseError | None = None
        self._options = SharedOptions(
            str(self.folder), slots, job_s, self.endpoints.sockets_dir, "", "", "", "WARNING",
            runtime_id, str(folder.parent / "checkpoint"), False, 60_000, more["slot_memory_max_bytes"],
        )  # fmt: skip
        self._listed = TopologyStarts(self.folder)
        self._stopping = threading.Event()
        self._workers: list[SlotWorker] = []
        self._thread = threading.Thread(target=self._run_jobs, name="jobs", daemon=True)

    def start(self) -> None:
        """As `SharedQuery.start`."""
        self._planner = SharedPlanner(self._options)
        self._workers = [SlotWorker(self._options) for _ in range(self.slots)]
        self._thread.start()

    def list_topology(
        self, application_id: str, options: Mapping[str, str], *, bounded: bool, ends: InputEnds | None = None
    ) -> int:
        """As `SharedQuery.list_topology`."""
        return self._listed.add(application_id, options, bounded=bounded, ends=ends)

    def unlist_topology(self, application_id: str) -> None:
        """As `SharedQuery.unlist_topology`."""
        self._listed.remove(application_id)

    def close(self) -> None:
        """As `SharedQuery.close`."""
        self._stopping.set()
        self._planner.close()
        self.folders.close()
        self._thread.join(_JOIN_S)
        assert not self._thread.is_alive(), "a slot did not end"
        for worker in self._workers:
            worker.close()
        shutil.rmtree(self.endpoints.sockets_dir, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run_jobs(self) -> None:
        last = -1
        while not self._stopping.is_set():
            job = self._planner.begin_job(last)
            if job == last:
                self._stopping.wait(_POLL_S)
                continue
            last = job
            tasks = [
                threading.Thread(target=self._run_slot, args=(job, order), name=f"slot {order.slot}", daemon=True)
                for order in self._planner.jobs.orders(job)
            ]
            for task in tasks:
                task.start()
            for task in tasks:
                task.join()

    def _run_slot(self, job: int, order: SlotOrder) -> None:
        worker = self._workers[order.slot]
        if order.round is None:
            work_off(worker, order.slot, job, order.address)
        else:
            worker.run_round(order.slot, order.round)


@contextmanager
def embedded_place(folder: Path, *topics: str) -> Iterator[Place]:
    """A place on an embedded log that has these topics."""
    with Place(folder, LogConfig("embedded", str(folder / "log"), {"fsync": "false"})) as place:
        for name in topics:
            place.topic(name)
        yield place


def runtime_in(place: Place, **more: Any) -> StreamsRuntime:
    """A shared runtime with the settings of a place, without those that topologies have."""
    settings = place.settings(**more)
    del settings["commit.interval.ms"]
    return StreamsRuntime(settings)
