"""Workers and whole applications are killed at every step of an epoch while sagas run, and every saga ends right."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.crash.conftest import MakeScene
from tests.crash.scene import Failpoint, Scene, Started, wait_for
from tests.crash.shop_under_test import services
from tests.crash.test_kills import PLANNER, WORKER

from hayase.cli.demo.shop_customers import Wish, goods, wishes
from hayase.cli.demo.shop_facts import Facts
from hayase.log.protocol import OutputBatch
from hayase.patterns import EventSourced, PatternsApp
from hayase.patterns.command_reading import command_headers

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1_800)]
Tell = Callable[[Scene, object], None]

ORDERS = 12
ROWS = ("before_rows", "after_rows")
"""Services send each other records of topics, and no rows."""
STEPS = tuple(name for name in WORKER if name not in ROWS)
MODULE = "tests.crash.shop_under_test"


def shop_scene(make_scene: MakeScene, log_kind: str, seed: int) -> Scene:
    """A scene with the topics of the shop, and what customers wish in them."""
    scene = make_scene(log_kind, seed, MODULE, **{"commit.interval.ms": 0})
    found = services()
    orders, stock = found["orders"].order, found["stock"].stock
    parts = (orders, found["orders"].checkout, stock, found["payments"].payment, found["shipping"].parcel)
    there = {topic for part in parts for topic in part.topics} & {*scene.log.topics()}
    for topic in there:  # of an earlier test on the same broker
        scene.log.delete_topic(topic)
    for name, module in found.items():
        app = PatternsApp(module.topology, {**scene.settings, "application.id": f"{scene.name}-{name}"}, partitions=2)
        app.create_topics()
        app.close()
    write(scene, stock, list(goods(ORDERS)))
    write(scene, orders, list(wishes(seed, ORDERS)))
    return scene


def write(scene: Scene, aggregate: EventSourced[Any, Any, Any], sent: list[Wish]) -> None:
    """Commands, as customers send them."""
    types = sys.modules["shop_messages"]
    made = [aggregate.command(wish.key, getattr(types, wish.type)(**wish.fields)) for wish in sent]
    headers = [command_headers(each, f"{aggregate.name}-{n}", "/tests", 0, {}) for n, each in enumerate(made)]
    keys: list[bytes | None] = [each.aggregate_id.encode() for each in made]
    values: list[bytes | None] = [each.data for each in made]
    writer = scene.log.writer()
    writer.append([OutputBatch(aggregate.commands_topic, keys, values, [0] * len(made), None, headers)])
    writer.close()


def expect_every_order_settled(scene: Scene, started: Started) -> None:
    """Wait until no saga is open, stop the application, and look at what happened."""
    facts = Facts(scene.log)

    def settled() -> bool:
        assert started.process.poll() is None, started.said()
        facts.read()
        return facts.ledger.settled(ORDERS)

    wait_for(settled, 600, f"orders; they are {dict(facts.ledger.states())}")
    scene.stop_file.touch()
    assert started.wait() == 0, started.said()
    facts = Facts(scene.log)
    facts.read()
    assert facts.ledger.faults() == []
    states = facts.ledger.states()
    assert states["shipped"] and states["cancelled"]


@pytest.mark.parametrize("seed", [1, 2])
def test_sagas_end_right_when_workers_are_killed_at_every_step(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell
) -> None:
    scene = shop_scene(make_scene, log_kind, seed)
    epochs = random.Random(seed).sample(range(1, 14), len(STEPS))
    kills = [Failpoint(name, "kill_worker", epoch) for name, epoch in zip(STEPS, epochs, strict=True)]
    started = scene.start(kills, bounded=False)
    expect_every_order_settled(scene, started)
    assert [str(kill) for kill in kills if not started.fired(kill)] == []
    for kill in kills:
        tell(scene, kill)


@pytest.mark.parametrize("seed", [3])
def test_sagas_end_right_when_the_application_is_killed_again_and_again(
    log_kind: str, seed: int, make_scene: MakeScene, tell: Tell
) -> None:
    scene = shop_scene(make_scene, log_kind, seed)
    for name in random.Random(seed).sample([*PLANNER, *STEPS], 5):
        kill = Failpoint(name, "kill_app", scene.done_epochs() + scene.random.randint(1, 3))
        started = scene.start([kill], bounded=False)
        assert started.wait() != 0 and started.fired(kill), f"{kill}\n{started.said()}"
        tell(scene, kill)
    expect_every_order_settled(scene, scene.start(bounded=False))
