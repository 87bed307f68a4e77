"""What the product's modules get in place of clocks, threads, identities and clients while a simulation runs."""

from __future__ import annotations

import dataclasses
import functools
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from pyspark import cloudpickle
from tests.simulation.kafka_clients import Clients
from tests.simulation.logs import SimulatedLog
from tests.simulation.object_store import ObjectStore, in_place_of_s3
from tests.simulation.scheduler import Sim, SimThreading, SimTime, transaction_of

from hayase.app import prepare
from hayase.core import failpoints
from hayase.core.patience import Patience
from hayase.log.kafka import clients as kafka_clients
from hayase.runtime.driver import blob_lease
from hayase.runtime.epochs import epoch_completion, epoch_input, planner, record_retention
from hayase.runtime.epochs.wall_clock import WallClock
from hayase.runtime.wire.app_spec import AppSpec
from hayase.runtime.worker import worker
from hayase.state import lease_holder
from hayase.state.changelog import changelog
from hayase.state.changelog.snapshot_policy import SnapshotPolicy
from hayase.state.changelog.snapshot_thread import SnapshotThread
from hayase.state.environment.folders import StateFolders
from hayase.storage import lmdb_env

_PATIENCE_S = 8.0
_MACHINE = "simulated-machine-{}"


class NoWatchdog:
    """Nothing is watched: a watchdog looks at real threads."""

    def __init__(self, limit_s: float) -> None:
        pass

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass


@contextmanager
def simulated(
    sim: Sim, store: ObjectStore, log: SimulatedLog, machines: list[StateFolders], clients: Clients | None
) -> Iterator[None]:
    """Inside, processes of the product belong to the simulation."""

    def current_machine() -> str:
        return _MACHINE.format(sim.process.machine if sim.process is not None else "none")

    def born(pid: int) -> float | None:
        return next((1.0 for each in sim.processes if each.pid == pid and each.alive), None)

    def holder(*_: object) -> lease_holder.Holder:
        process = sim.process
        assert process is not None
        return lease_holder.Holder(uuid.uuid4().hex, current_machine(), process.name, process.pid, 1.0)

    real_lease = blob_lease.BlobLease.__init__
    # Quicker than the real ones, so that more happens in a short life.
    quick = {"monotonic": sim.monotonic, "sleep": sim.sleep, "beat_s": 1.5, "patience_s": 6.0}

    def lease(self: Any, blobs: Any, application_id: str, **kwargs: Any) -> None:
        real_lease(self, blobs, application_id, **(quick | kwargs))
        self._me = holder()

    real_transaction = lmdb_env._transaction

    @contextmanager
    def transaction(entry: Any, *, write: bool, buffers: bool) -> Iterator[Any]:
        with ExitStack() as stack:
            if write:
                stack.enter_context(transaction_of(sim))
            yield stack.enter_context(real_transaction(entry, write=write, buffers=buffers))

    def reached(name: str, bundle: str | None, epoch: int | None) -> None:
        sim.step(f"at {name} {bundle or ''} {'' if epoch is None else epoch}".rstrip())

    def machine_folders(_: AppSpec) -> StateFolders:
        process = sim.process
        return machines[process.machine if process is not None else 0]

    def new_id() -> uuid.UUID:
        return uuid.UUID(int=sim.ids.getrandbits(128), version=4)

    def open_log(_: object) -> Any:
        return log.open()

    def patience_of(*_: object) -> Patience:
        return Patience(_PATIENCE_S, monotonic=sim.monotonic, sleep=sim.sleep, chance=sim.rng.random)

    def open_blobs(_: str, *, patience: Patience, **__: object) -> Any:
        return store.blobs(patience)

    def clock_of_wall() -> Any:
        return sim

    def no_relay(_: AppSpec) -> None:
        return None

    def unexplained(_: object, error: Any) -> Any:
        return error

    def snapshots(blobs: Any, policy: SnapshotPolicy) -> SnapshotThread:
        often = dataclasses.replace(policy, min_delta_bytes=600, clock=sim)
        return SnapshotThread(blobs, often, clock=sim.monotonic)

    threads, clock = SimThreading(sim), SimTime(sim)
    patches: list[Any] = [
        # Polars pickles functions in expressions with a package that is only there as a part of PySpark.
        mock.patch.dict(sys.modules, {"cloudpickle": cloudpickle}),
        mock.patch.object(uuid, "uuid4", new_id),
        mock.patch.object(failpoints, "listener", reached),
        in_place_of_s3(store.client),
        mock.patch.object(lmdb_env, "_transaction", transaction),
        mock.patch.object(lease_holder, "machine", current_machine),
        mock.patch.object(lease_holder, "born", born),
        mock.patch.object(blob_lease, "threading", threads),
        mock.patch.object(blob_lease.BlobLease, "__init__", lease),
        *(mock.patch.object(module, "time", clock) for module in (planner, epoch_input, epoch_completion)),
        mock.patch.object(record_retention, "RECORDS_KEPT", 4),
        mock.patch.object(changelog, "_WORTH_A_SNAPSHOT", 2),
        mock.patch.object(changelog, "_PROBED", 2),
        mock.patch.object(prepare, "open_log", open_log),
        mock.patch.object(prepare, "open_log_of_user", open_log),
        mock.patch.object(prepare, "threading", threads),
        mock.patch.object(prepare, "SystemClock", clock_of_wall),
        mock.patch.object(worker, "open_blobs", open_blobs),
        mock.patch.object(worker, "open_log", open_log),
        mock.patch.object(worker, "patience_of", patience_of),
        mock.patch.object(worker, "Watchdog", NoWatchdog),  # it watches real threads
        mock.patch.object(planner, "WallClock", functools.partial(WallClock, monotonic_s=sim.monotonic)),
        mock.patch.object(worker, "SnapshotThread", snapshots),
        mock.patch("hayase.state.changelog.snapshot_thread.threading", threads),
        mock.patch.object(AppSpec, "folders_here", machine_folders),
        mock.patch.object(AppSpec, "log_to_driver", no_relay),
    ]
    if clients is not None:
        patches += [
            clients.in_place(),
            mock.patch("hayase.log.kafka.group_member.time", clock),
            mock.patch.object(kafka_clients, "why_unanswered", unexplained),
            mock.patch("hayase.log.kafka.cursor.why_unanswered", unexplained),
        ]
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield
