"""The log of a server, made ready for commands while the rest of the server is imported."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

from tests.unit.server.command_servers import wait_until

from hayase.core.config import StreamsConfig
from hayase.core.errors import LogError
from hayase.log.protocol import Log
from hayase.server.commands.early_log import open_early, prepare_commands


class LogOfTests:
    """Is never ready for transactions; making markers fails."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.ends = threading.Event()

    def prepare_transactions(self, name: str) -> None:
        self.asked.append(("transactions", name))
        self.ends.wait()

    def prepare_markers(self, name: str) -> None:
        self.asked.append(("markers", name))
        raise LogError("BROKER_UNAVAILABLE", "no broker")


def test_what_commands_need_is_made_side_by_side_and_nothing_waits_for_it_or_fails_with_it() -> None:
    log = LogOfTests()
    prepare_commands(cast("Log", log), "commands")
    try:
        wait_until(lambda: sorted(log.asked) == [("markers", "commands"), ("transactions", "commands")])
    finally:
        log.ends.set()


def test_an_embedded_log_is_opened_early(tmp_path: Path) -> None:
    log = open_early(StreamsConfig({"application.id": "a", "log.dir": str(tmp_path / "log")}), "commands")
    assert log.topics() == []
    log.close()
