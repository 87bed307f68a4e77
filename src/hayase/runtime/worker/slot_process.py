"""What the topologies of a shared runtime have in common in one worker process: connections, and the watchdog."""

from __future__ import annotations

from dataclasses import dataclass

from hayase.log.open import open_log
from hayase.log.protocol import EpochWriter, Log, LogConfig, LogReader
from hayase.runtime.worker.watchdog import Watchdog

_LIMIT_S = 300.0


@dataclass(slots=True)
class _Connections:
    log: Log
    reader: LogReader
    writer: EpochWriter


class SlotProcess:
    """One per worker process of a shared runtime.

    Attributes:
        watchdog: ends the process if a step makes no progress.
    """

    def __init__(self) -> None:
        self.watchdog = Watchdog(_LIMIT_S)
        self.watchdog.start()
        self._connections: dict[str, _Connections] = {}

    def log(self, config: LogConfig) -> Log:
        """The process's connection to a log."""
        return self._open(config).log

    def reader(self, config: LogConfig) -> LogReader:
        """The process's reader of a log."""
        return self._open(config).reader

    def writer(self, config: LogConfig) -> EpochWriter:
        """The process's writer of a log."""
        return self._open(config).writer

    def close(self) -> None:
        """Let go of everything."""
        self.watchdog.stop()
        for each in self._connections.values():
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
