"""The process of a runtime without Spark, for tests: topologies do nothing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

from hayase.app.states import State
from hayase.app.streams_runtime import StreamsRuntime
from hayase.core.errors import HayaseError, TopologyError
from hayase.server.hosts.runtime_child import serve_argument

START_TAKES_S = "TEST_RUNTIME_START_TAKES_S"


@dataclass
class QuietTopology:
    """A topology that runs and reads nothing."""

    state: State = State.RUNNING
    error: HayaseError | None = None
    errors: list[Any] = field(default_factory=list)
    listener: Callable[[State, State], None] = lambda new, old: None

    def fail(self, error: HayaseError) -> None:
        """End with an error."""
        old, self.error, self.state = self.state, error, State.ERROR
        self.listener(State.ERROR, old)

    def progress(self) -> SimpleNamespace:
        """See StreamsApp."""
        return SimpleNamespace(consumed=0, produced=0, lag_records=None)


class ShortLivedTopology(QuietTopology):
    """Is seen running once, then has failed."""

    def progress(self) -> SimpleNamespace:
        """See StreamsApp."""
        threading.Timer(0.05, self._fail).start()
        return super().progress()

    def _fail(self) -> None:
        self.fail(HayaseError("BROKEN", "it is broken"))


class UnreadableTopology(QuietTopology):
    """Has a state that cannot be read."""

    def progress(self) -> SimpleNamespace:
        """See StreamsApp."""
        if self.errors:
            raise OSError("no such file")
        self.errors.append(SimpleNamespace(timestamp_ms=1, error="first"))
        return super().progress()


_KINDS = {"short": ShortLivedTopology, "unreadable": UnreadableTopology}


class QuietRuntime:
    """What the process asks of a StreamsRuntime; a topology named `slow` takes a minute to start, one `fails`."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self.state = State.CREATED
        self.error: HayaseError | None = None
        self.topologies: dict[str, QuietTopology] = {}

    def start(self) -> None:
        """See StreamsRuntime."""
        time.sleep(float(os.environ.get(START_TAKES_S, "0")))
        self.state = State.RUNNING

    def add_topology(
        self,
        name: str,
        topology: object,
        settings: object,
        *,
        paused: bool | None = None,
        state_listener: Callable[[State, State], None],
    ) -> None:
        """See StreamsRuntime."""
        if name == "slow":
            time.sleep(60)
        if name == "fails":
            raise TopologyError("TOPOLOGY_EXISTS", "there is one", node=object())
        self.topologies[name] = _KINDS.get(name, QuietTopology)(listener=state_listener)

    def topology(self, name: str) -> QuietTopology:
        """See StreamsRuntime."""
        return self.topologies[name]

    def pause(self, name: str) -> None:
        """See StreamsRuntime; here it ends the topology with an error, a moment later."""
        self.topologies[name].fail(HayaseError("BROKEN", "it is broken", offset=7))

    def remove_topology(self, name: str, *, delete_state: bool, timeout: timedelta) -> None:
        """See StreamsRuntime."""
        del self.topologies[name]

    def close(self, timeout: timedelta) -> None:
        """See StreamsRuntime."""


if __name__ == "__main__":
    serve_argument(lambda settings: cast("StreamsRuntime", QuietRuntime(settings)))
