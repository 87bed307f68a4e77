"""A shared runtime that several threads change at once: each call succeeds or says why not, and no result is lost."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.app.query_in_process import QueryInProcess, embedded_place
from tests.unit.app.test_runtime_interleavings import SHAPES, Interleaving, built

from hayase import Topology
from hayase.core.errors import HayaseError
from hayase.runtime.driver import shared_query

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

THREADS = 4
CALLS = 8
NAMES = ("copies", "counts", "around")


class Callers:
    """Threads that change the same topologies at random."""

    def __init__(self, seed: int, steps: Interleaving) -> None:
        self._steps = steps
        self._seed = seed
        self.refused: set[str] = set()
        self.errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._call, args=(number,)) for number in range(THREADS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), "a call does not return"

    def _call(self, number: int) -> None:
        chance = random.Random(f"{self._seed} {number}")
        try:
            for _ in range(CALLS):
                name = chance.choice(NAMES)
                topology = built(SHAPES[name], f"out-{name}", chance.randrange(3))
                try:
                    chance.choice(self._calls(name, topology))()
                except HayaseError as error:
                    self.refused.add(error.condition)
        except BaseException as error:
            self.errors.append(error)

    def _calls(self, name: str, topology: Topology) -> list[Callable[[], object]]:
        runtime = self._steps.runtime
        return [
            lambda: runtime.add_topology(name, topology, self._settings()),
            lambda: runtime.replace_topology(name, topology),
            lambda: runtime.remove_topology(name),
            lambda: runtime.pause(name),
            lambda: runtime.resume(name),
            lambda: runtime.restart(name),
            lambda: (runtime.topology(name).progress(), runtime.topology(name).metrics()),
            lambda: [(app.state, app.is_paused, app.errors) for app in runtime.topologies.values()],
        ]

    @staticmethod
    def _settings() -> dict[str, object]:
        return {"commit.interval.ms": 20, "statestore.cache.max.bytes": 0}


def change_from_threads(seed: int, *, close: bool, folder: Path) -> set[str]:
    """Have threads change a runtime, which is perhaps closed meanwhile; the conditions with which calls were refused.

    Afterwards each topology has the result that it has alone.
    """
    with embedded_place(folder) as place:
        steps = Interleaving(seed, place, 300)
        try:
            for name in sorted(SHAPES):
                steps.add(name)
            callers = Callers(seed, steps)
            callers.start()
            for _ in range(10):
                steps.put()
                time.sleep(0.05)
            if close:
                steps.runtime.close()
            callers.join()
            assert not callers.errors, callers.errors
            if close:
                steps.open_again()
            steps.absent = set(SHAPES) - steps.runtime.topologies.keys()
            steps.come_to_the_end()
            steps.check()
        finally:
            steps.runtime.close(timedelta(0))
    return callers.refused


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))])
def test_threads_may_change_the_topologies_of_a_runtime_at_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_query, "SharedQuery", QueryInProcess)
    assert change_from_threads(seed, close=False, folder=tmp_path) <= {"UNKNOWN_TOPOLOGY", "TOPOLOGY_EXISTS"}


@pytest.mark.parametrize("seed", [20, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(21, 35))])
def test_a_runtime_may_be_closed_while_threads_change_it(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_query, "SharedQuery", QueryInProcess)
    allowed = {"UNKNOWN_TOPOLOGY", "TOPOLOGY_EXISTS", "NOT_RUNNING"}
    assert change_from_threads(seed, close=True, folder=tmp_path) <= allowed
