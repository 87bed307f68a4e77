"""Topics whose input is fed at a steady rate, and whose output must be the totals of what was written."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import msgspec
from confluent_kafka import Message, TopicPartition

from bench.check import difference
from bench.feed import Feeder, Outputs, endless_orders
from bench.machine import Machine
from bench.measure import RunError, wait_until
from bench.processes import ProcessGroup
from bench.scenarios import Totals

OUTPUT_S = 300.0
"""How long an output may take that must come."""
_WARM_UP_S = 5.0
_USERS = 100
_SEED = 42


def source(name: str) -> str:
    """The input of a topology."""
    return f"{name}-orders"


def target(name: str) -> str:
    """The output of a topology."""
    return f"{name}-totals"


def totals_of(message: Message) -> Totals:
    """The value of an output."""
    return msgspec.json.decode(message.value() or b"", type=Totals)


class FedTopics:
    """Topics with an input and an output each: what is written to them, and what must come out."""

    def __init__(self, machine: Machine, names: Sequence[str]) -> None:
        self._bootstrap = machine.kafka.bootstrap
        self.names = list(names)
        for name in self.names:
            for topic in (source(name), target(name)):
                machine.kafka.create(topic, 1)
        self._orders = endless_orders(_USERS, _SEED)
        self._expected: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self._group: ProcessGroup | None = None
        self._produced: dict[tuple[str, str], Totals] = {}
        self._outputs = Outputs(self._bootstrap, [TopicPartition(target(name), 0) for name in self.names])

    def feeding(self, names: Sequence[str], rate: float) -> Feeder:
        """Orders at that many a second for all of them together, in turn."""
        return Feeder(self._bootstrap, self._records(names), rate)

    def look(self) -> list[Message]:
        """The records that have come out since the last look; waits a little."""
        messages = self._outputs.look()
        for message in messages:
            value = totals_of(message)
            at = message.topic() or "", (message.key() or b"").decode()
            self._produced[at] = Totals(value.n, abs(value.total))  # see bench/runtime_changes.py
        return messages

    def resting(self) -> AbstractContextManager[None]:
        """Do not look meanwhile: what the broker takes is what the system under test asks of it."""
        return self._outputs.resting()

    def latencies(
        self, names: Sequence[str], rate: float, seconds: float, *, warm_up_s: float = _WARM_UP_S
    ) -> list[float]:
        """Milliseconds from timestamp to sight of what comes out while orders come at a rate; the warm-up is before it.

        Raises:
            RunError: the result is wrong.
        """
        found: list[float] = []
        with self.feeding(names, rate):
            began, began_ms = time.monotonic(), (time.time() + warm_up_s) * 1000
            while time.monotonic() - began < warm_up_s + seconds:
                messages, seen_ms = self.look(), time.time_ns() / 1e6
                sent_ms = [message.timestamp()[1] for message in messages]
                found += [seen_ms - each for each in sent_ms if each >= began_ms]
        self.check()
        if not found:
            raise RunError("no output in the measured part")
        return found

    def watch(self, group: ProcessGroup) -> None:
        """Expect outputs from these processes; where they have ended, no output is waited for."""
        self._group = group

    @contextmanager
    def watching(self) -> Iterator[list[float]]:
        """Look all the time, in a thread; milliseconds from timestamp to sight of each record, as they come."""
        found: list[float] = []
        ended = threading.Event()

        def watch() -> None:
            while not ended.is_set():
                messages, seen_ms = self.look(), time.time_ns() / 1e6
                found.extend(seen_ms - message.timestamp()[1] for message in messages)

        thread = threading.Thread(target=watch, name="outputs", daemon=True)
        thread.start()
        try:
            yield found
        finally:
            ended.set()
            thread.join()

    def start(self) -> None:
        """Send an order to each, so that all have state and an output."""
        with self.feeding(self.names, len(self.names)):
            wait_until(lambda: bool(self._expected), "an order is written", OUTPUT_S)
            time.sleep(2.0)
        self.check()

    def check(self) -> None:
        """Wait until everything that was written has come out.

        Raises:
            RunError: something else has come out, or not enough.
        """

        def complete() -> bool:
            self.look()
            return self._difference() is None

        try:
            wait_until(complete, "all outputs are right", OUTPUT_S, self._group)
        except RunError as error:
            raise RunError(f"{error}: {self._difference()}") from None

    def _difference(self) -> str | None:
        return difference({at: Totals(*values) for at, values in self._expected.items()}, self._produced)

    def _records(self, names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
        while True:
            for name in names:
                key, value = next(self._orders)
                expected = self._expected[target(name), key]
                expected[0] += 1
                expected[1] += msgspec.json.decode(value)["amount"]
                yield source(name), key, value
