"""What the topologies of a shared runtime have in common in one worker process: connections, and the watchdog."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hayase.log.assignments import Assignments
from hayase.log.open import open_log
from hayase.log.protocol import EpochWriter, Log, LogConfig, LogReader
from hayase.runtime.wire.patient import patience_of
from hayase.runtime.wire.round_results import RoundResults
from hayase.runtime.wire.row_files import RowFiles
from hayase.runtime.wire.run_folder import HUNG
from hayase.runtime.wire.shared_options import SharedOptions
from hayase.runtime.worker.watchdog import Watchdog
from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs

if TYPE_CHECKING:
    from hayase.log.kafka.slot_writer import SlotWriter

_LIMIT_S = 300.0


@dataclass(slots=True)
class _Connections:
    log: Log
    reader: LogReader
    writer: EpochWriter
    slot_writer: SlotWriter | None = None


class SlotProcess:
    """One per worker process of a shared runtime.

    Args:
        options: of the runtime.

    Attributes:
        watchdog: ends the process if a step makes no progress.
        account: the file with the account of its timer; empty: another one has it.
    """

    def __init__(self, options: SharedOptions) -> None:
        self._options = options
        folder = Path(options.folder)
        # On another machine Spark's file is all there is, and says it to Spark alone.
        account = folder / f"{HUNG}{uuid.uuid4().hex}" if folder.is_dir() else None
        self.account = str(account or "")
        self.watchdog = Watchdog(_LIMIT_S, account=account)
        self.watchdog.start()
        self._connections: dict[str, _Connections] = {}
        self._patience = patience_of({"patience_ms": str(options.patience_ms)}, f"worker-{os.getpid()}")

    @cached_property
    def _blobs(self) -> BlobStore:
        return open_blobs(self._options.checkpoint, fsync=False, patience=self._patience)

    @cached_property
    def row_files(self) -> RowFiles:
        """Rows of the runtime that are too many for a message."""
        return RowFiles(self._blobs)

    def round_results(self, run: str) -> RoundResults:
        """The results of a planner's rounds."""
        return RoundResults(self._blobs, run)

    def log(self, config: LogConfig) -> Log:
        """The process's connection to a log."""
        return self._open(config).log

    def reader(self, config: LogConfig) -> LogReader:
        """The process's reader of a log."""
        return self._open(config).reader

    def writer(self, config: LogConfig) -> EpochWriter:
        """The process's writer of a log."""
        return self._open(config).writer

    def slot_writer(self, config: LogConfig) -> SlotWriter:
        """The process's writer with the ids of slots, of a log in Kafka."""
        connections = self._open(config)
        if connections.slot_writer is None:
            from hayase.log.kafka.slot_writer import SlotWriter

            options = self._options
            blobs = open_blobs(options.checkpoint, fsync=options.fsync, patience=self._patience)
            connections.slot_writer = SlotWriter(config, Assignments(blobs))
        return connections.slot_writer

    def close(self) -> None:
        """Let go of everything."""
        self.watchdog.stop()
        for each in self._connections.values():
            if each.slot_writer is not None:
                each.slot_writer.close()
            each.reader.close()
            each.writer.close()
            each.log.close()
        self._connections.clear()

    def _open(self, config: LogConfig) -> _Connections:
        key = repr(config)
        if key not in self._connections:
            log = open_log(config)
            self._connections[key] = _Connections(log, log.reader(), log.writer())
        return self._connections[key]
