"""Workers and whole applications are killed at every step of an epoch while sagas run; all of it equals the model."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.crash.conftest import MakeScene
from tests.crash.scene import PATIENCE, Failpoint, Scene, Started, wait_for
from tests.crash.test_kills import PLANNER, WORKER
from tests.examples.shop_services import wished
from tests.unit.patterns.shop_model import ORDER, PARTS, STOCK, expect_model

from hayase.cli.demo.shop_customers import Wish, goods, wishes
from hayase.cli.demo.shop_facts import Facts
from hayase.core.records import SourceRecord, TopicPartition
from hayase.log.protocol import OutputBatch
from hayase.patterns import EventSourced, PatternsApp
from hayase.patterns.command_reading import command_headers

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1_800 * PATIENCE)]
Tell = Callable[[Scene, object], None]

ORDERS, PARTITIONS = 12, 2
ROWS = ("before_rows", "after_rows")
"""Services send each other records of topics, and no rows."""
STEPS = tuple(name for name in WORKER if name not in ROWS)
MODULE = "tests.crash.shop_under_test"


class Shop:
    """The shop in a scene: its topics and stores, and the commands of customers, some at a time."""

    now_ms = 0
    """No deadline passes while a test runs."""

    def __init__(self, make_scene: MakeScene, log_kind: str, seed: int) -> None:
        self.scene = make_scene(log_kind, seed, MODULE, **{"commit.interval.ms": 0})
        self.scene.through = seed % 2 == 0  # in half of the runs as if each service were an application
        there = {topic for part in PARTS for topic in part.topics} & {*self.scene.log.topics()}
        for topic in there:  # of an earlier test on the same broker
            self.scene.log.delete_topic(topic)
        self._app = PatternsApp(ORDER.topology(*PARTS[1:]), self.scene.settings, partitions=PARTITIONS)
        self._app.create_topics()
        self._facts = Facts(self.scene.log)
        self._wishes: Iterator[Wish] = wishes(seed, ORDERS)
        self._numbers = itertools.count()
        self._write(STOCK, goods(ORDERS))

    def order(self, count: int | None = None) -> None:
        """Write so many wishes of customers; all that are left without a number."""
        self._write(ORDER, itertools.islice(self._wishes, count))

    def _write(self, aggregate: EventSourced[Any, Any, Any], sent: Iterator[Wish]) -> None:
        made = [wished(aggregate, wish) for wish in sent]
        headers = [command_headers(each, f"c{next(self._numbers)}", "/tests", 0, {}) for each in made]
        keys: list[bytes | None] = [each.aggregate_id.encode() for each in made]
        values: list[bytes | None] = [each.data for each in made]
        writer = self.scene.log.writer()
        writer.append([OutputBatch(aggregate.commands_topic, keys, values, [0] * len(made), None, headers)])
        writer.close()

    def records(self, topic: str) -> list[SourceRecord]:
        """All records of a topic, partition by partition."""
        found = []
        reader = self.scene.log.reader()
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        for place, end in self.scene.log.end_offsets(places).items():
            for batch in reader.fetch(place, 0, end) if end else ():
                found += [batch.record(row) for row in range(len(batch))]
        reader.close()
        return found

    def rows(self, store: str) -> dict[str, Any]:
        """All rows of a store."""
        return {row.key: row.value for row in self._app.store(store).all()}

    def expect_every_order_settled(self, started: Started) -> None:
        """Wait until no saga is open, stop the application, and look at what happened."""
        ledger = self._facts.ledger

        def settled() -> bool:
            assert started.process.poll() is None, started.said()
            self._facts.read()
            return ledger.settled(ORDERS)

        wait_for(settled, 600 * PATIENCE, f"orders; they are {dict(ledger.states())}")
        self.scene.stop_file.touch()
        assert started.wait() == 0, started.said()
        self._facts.read()
        assert ledger.faults() == []
        expect_model(self)
        states = ledger.states()
        assert states["shipped"] and states["cancelled"]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 4, 5))])
def test_sagas_end_right_when_workers_are_killed_at_every_step(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell
) -> None:
    shop = Shop(make_scene, log_kind, seed)
    shop.order()
    # Not epoch 1: the marker by which the driver owns the log bears the number of its first start, which is 1, too.
    epochs = random.Random(seed).sample(range(2, 14), len(STEPS))
    kills = [Failpoint(name, "kill_worker", epoch) for name, epoch in zip(STEPS, epochs, strict=True)]
    started = shop.scene.start(kills, bounded=False)
    shop.expect_every_order_settled(started)
    assert [str(kill) for kill in kills if not started.fired(kill)] == []
    for kill in kills:
        tell(shop.scene, kill)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 6])
def test_sagas_end_right_when_the_application_is_killed_at_every_step(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell
) -> None:
    shop = Shop(make_scene, log_kind, seed)
    for name in random.Random(seed).sample([*PLANNER, *STEPS], len(PLANNER) + len(STEPS)):
        shop.order(1)
        kill = Failpoint(name, "kill_app", shop.scene.done_epochs() + shop.scene.random.randint(1, 3))
        started = shop.scene.start([kill], bounded=False)
        assert started.wait() != 0 and started.fired(kill), f"{kill}\n{started.said()}"
        tell(shop.scene, kill)
    shop.order()
    shop.expect_every_order_settled(shop.scene.start(bounded=False))
