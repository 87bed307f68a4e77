"""How the driver and the process that plans epochs talk: small files in a folder of their own."""

from __future__ import annotations

from pathlib import Path

_PAUSE = "pause"
_PAUSED = "paused"
_READY = "ready"
_STATUS = "status"


class Control:
    """The folder of one run. The driver asks for a pause; the planner says that it is ready, paused, and how far it is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ask_pause(self, pause: bool) -> None:
        """Driver: no new epochs (or: go on)."""
        if pause:
            (self._folder / _PAUSE).touch()
        else:
            (self._folder / _PAUSE).unlink(missing_ok=True)
            (self._folder / _PAUSED).unlink(missing_ok=True)

    def pause_asked(self) -> bool:
        """Planner: whether to hold."""
        return (self._folder / _PAUSE).exists()

    def say_paused(self) -> None:
        """Planner: no epoch is open, and none will be until the driver says so."""
        (self._folder / _PAUSED).touch()

    def paused(self) -> bool:
        """Driver: whether the planner holds between epochs."""
        return (self._folder / _PAUSED).exists()

    def say_ready(self) -> None:
        """Planner: up and asking the log for data."""
        (self._folder / _READY).touch()

    def ready(self) -> bool:
        """Driver: whether the planner is up."""
        return (self._folder / _READY).exists()

    def say_status(self, status: bytes) -> None:
        """Planner: how far the application is."""
        temporary = self._folder / (_STATUS + ".new")
        temporary.write_bytes(status)
        temporary.replace(self._folder / _STATUS)

    def status(self) -> bytes | None:
        """Driver: what the planner last said."""
        try:
            return (self._folder / _STATUS).read_bytes()
        except FileNotFoundError:
            return None
