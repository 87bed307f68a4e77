"""The services of `examples/shop`, each in a test driver of its own; records travel between them in any order."""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from hayase.cli.demo import shop_proof as proof
from hayase.cli.demo.shop_customers import Wish
from hayase.cli.load import load_file
from hayase.patterns import EventSourced
from hayase.patterns.command_reading import command_headers
from hayase.patterns.reactions import AggregateCommand
from hayase.testing import TopologyTestDriver

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "shop"
SERVICES = {name: load_file(FOLDER / f"{name}.py") for name in ("orders", "stock", "payments", "shipping")}
messages = sys.modules["shop_messages"]


def wished(aggregate: EventSourced[Any, Any, Any], wish: Wish) -> AggregateCommand:
    """The command of a customer or the supplier."""
    return aggregate.command(wish.key, aggregate.command_types.types[wish.type](**wish.fields))


class Shop:
    """Four applications and what lies between them: each topic keeps its order, and nothing else does."""

    def __init__(self, drivers: dict[str, TopologyTestDriver], random: Random) -> None:
        self._drivers = drivers
        self._random = random
        self._mail: dict[tuple[str, str], deque[Any]] = defaultdict(deque)
        self._sent = 0
        self.facts: list[Any] = []

    def ask(self, aggregate: EventSourced[Any, Any, Any], wish: Wish) -> None:
        """Send what a customer or the supplier wishes."""
        made = wished(aggregate, wish)
        self._sent += 1
        headers = command_headers(made, f"c{self._sent}", "/customers", 0, {})
        self._drivers_reading(made.topic)[0].pipe(made.topic, wish.key.encode(), made.data, 0, headers)
        self._collect()

    def _drivers_reading(self, topic: str) -> list[TopologyTestDriver]:
        return [driver for driver in self._drivers.values() if driver._reads(topic)]

    def step(self) -> bool:
        """Bring one record to one service, or none if there is none; whether there was one."""
        waiting = [place for place, records in self._mail.items() if records]
        if not waiting:
            return False
        name, topic = place = self._random.choice(waiting)
        record = self._mail[place].popleft()
        self._drivers[name].pipe(topic, record.key, record.value, record.timestamp_ms, record.headers)
        self._collect()
        return True

    def pass_time(self, seconds: float) -> None:
        for driver in self._drivers.values():
            driver.advance_wall_clock_time(timedelta(seconds=seconds))
        self._collect()

    def settle(self, orders: int) -> Any:
        """Until nothing more is to come; what is known then."""
        for _ in range(200):
            while self.step():
                pass
            ledger = proof.Ledger()
            ledger.add(self.facts)
            if ledger.settled(orders):
                break
            self.pass_time(20)
        return ledger

    def _collect(self) -> None:
        """Take what the services have written: for the others, and for the proof."""
        for name, driver in self._drivers.items():
            for topic in driver.produced_topic_names():
                queue = driver.output_queue(topic)
                while queue:
                    record = queue.popleft()
                    self._note(topic, record)
                    for other, reader in self._drivers.items():
                        if other != name and reader._reads(topic):
                            self._mail[other, topic].append(record)

    def _note(self, topic: str, record: Any) -> None:
        if topic in proof.TOPICS:
            kind = dict(record.headers)["ce_type"].decode()
            self.facts.append(proof.Fact(topic, record.key.decode(), kind, msgspec.json.decode(record.value)))


@contextmanager
def shop_of(seed: int) -> Iterator[Shop]:
    """The shop, with its clock at one second."""
    with ExitStack() as stack:
        drivers = {
            name: stack.enter_context(TopologyTestDriver(module.topology, {"application.id": name}, 1_000))
            for name, module in SERVICES.items()
        }
        yield Shop(drivers, Random(seed))
