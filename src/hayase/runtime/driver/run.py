"""One run of an application, as long as its process goes on, whatever becomes of Spark meanwhile."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.private_files import make_folder, open_file
from hayase.core.secrets import Vault
from hayase.runtime.driver.master import driver_addresses
from hayase.runtime.driver.progress import Progress
from hayase.runtime.wire.driver_control import DriverControl
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.log_relay import LogRelay
from hayase.runtime.wire.planner_control import PlannerStatus

_LOG = logging.getLogger("hayase.runtime")


class Run:
    """What a run has before Spark starts and after it has ended.

    Attributes:
        folder: its own; removed by `close`.
        control: how the driver and the planner of epochs speak with each other.
        endpoints: where its other processes find the driver.
        vault: secrets that are not written to the checkpoint.
        spark_log: the file for what Spark's JVM has to say.
        progress: what the epochs have done.
    """

    def __init__(self, folder: Path, endpoints: RunEndpoints, relay: LogRelay | None = None) -> None:
        self.folder = folder
        self.control = DriverControl(folder)
        self._log_relay = relay
        self.endpoints = endpoints
        self.vault = Vault()
        self.spark_log = folder.parent.parent / "spark.log"
        self.progress = Progress()
        self._status: PlannerStatus | None = None
        os.close(open_file(self.spark_log, os.O_WRONLY))  # the JVM may not be ours, and have another umask

    @classmethod
    def make(cls, folder: Path, spark_settings: Mapping[str, str]) -> Run:
        """A run with a folder of its own inside `folder`; those of runs that were killed are removed.

        The caller holds the application's lease, so no other run is alive.

        Raises:
            ConfigError: MASTER_UNREACHABLE.
        """
        own = _own_folder(folder)
        host, bind = driver_addresses(spark_settings)
        relay = LogRelay(host, bind)
        return cls(own, RunEndpoints(str(own), str(relay.folder), relay.address, host, bind), relay)

    @classmethod
    def within(cls, folder: Path, shared: RunEndpoints) -> Run:
        """The run of a topology in a shared runtime, with a folder of its own inside `folder`."""
        own = _own_folder(folder)
        return cls(own, replace(shared, control_dir=str(own)))

    def status(self) -> PlannerStatus | None:
        """The last status that the planner published; `None`: none yet."""
        data = self.control.status()
        if data is not None:
            self._status = decode_json(data, as_type=PlannerStatus)
        if self._status is not None and not self._status.waiting and (waiting := self.control.waiting()):
            return msgspec.structs.replace(self._status, waiting=waiting)
        return self._status

    def close(self) -> None:
        """Let go of everything but the last status and the progress. Never raises."""
        quietly("the last status could not be read", self.status)
        if self._log_relay is not None:
            quietly("the relay of logs could not be closed", self._log_relay.close)
        quietly("the vault of secrets could not be closed", self.vault.close)
        shutil.rmtree(self.folder, ignore_errors=True)


def _own_folder(folder: Path) -> Path:
    """A new folder inside one for runs; those of runs that were killed are removed."""
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    return Path(tempfile.mkdtemp(dir=folder.resolve()))


def quietly(failed: str, close: Callable[[], object]) -> None:
    """Close one of several things: that it cannot be closed is logged, and must not keep the others open."""
    try:
        close()
    except Exception:
        _LOG.warning(failed, exc_info=True)
