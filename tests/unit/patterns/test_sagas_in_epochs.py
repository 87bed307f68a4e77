"""Commands, reactions, deadlines and sagas, in epochs that are cut anywhere and fail, equal a sequential model.

The order in which commands arrive, which is any, is that of the log; everything else is worked out by hand.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.patterns.shop_in_epochs import (
    AGGREGATES,
    CHECKOUT,
    COPY,
    ORDER,
    STOCK,
    ShopInEpochs,
    failing_now_and_then,
    shop_in_epochs,
)
from tests.unit.patterns.shop_model import AggregateModel, events_in, reactions_in, replied_in

from hayase.cli.demo.shop_customers import goods, wishes
from hayase.core.records import SourceRecord
from hayase.patterns.aggregate_processor import AggregateProcessor
from hayase.patterns.undone_commands import UndoneCommands

pytestmark = pytest.mark.long

_DEADLINE_MS = 30 * 60_000
_REACTIONS = {
    ("order", "Placed"): ("checkout-commands", "Place"),
    ("order", "CancelAsked"): ("checkout-commands", "CancelSaga"),
    ("parcel", "Dispatched"): ("stock-commands", "Take"),
}
_GIVEN_UP = {"StepTimedOut", "StepRefused"}


def _run(seed: int, orders: int, troubled: bool) -> None:
    """The shop with random orders and trouble, compared with the model."""
    random = Random(seed)
    with tempfile.TemporaryDirectory() as folder, shop_in_epochs(Path(folder), random) as shop:
        for wish in goods(orders):
            shop.send(STOCK, wish)
        with pytest.MonkeyPatch.context() as patch:
            if troubled:
                for aggregate in AGGREGATES:
                    patch.setattr(aggregate, "decider", failing_now_and_then(aggregate, random))
            _trouble(shop, seed, orders, troubled)
        shop.settle(orders)
        shop.repeat_some(10)  # what comes after all has ended changes nothing
        ledger = shop.settle(orders)
        assert ledger.settled(orders) and ledger.faults() == []
        _expect_model(shop)
        _expect_reactions(shop)
        _expect_outcomes(shop, orders)


def _trouble(shop: ShopInEpochs, seed: int, orders: int, troubled: bool) -> None:
    random, down = shop.random, False
    for wish in wishes(seed, orders):
        shop.send(ORDER, wish)
        for _ in range(random.randrange(6)) if troubled else ():
            shop.repeat_some(random.randrange(3))
            if not down and random.random() < 0.02:
                shop.downtime()
                down = True
            shop.troubled_epoch()


def _expect_model(shop: ShopInEpochs) -> None:
    """Replies, events and states are those of commands that are decided one after the other."""
    for aggregate in AGGREGATES:
        model = AggregateModel(aggregate)
        replies = _without_copies(shop.records(aggregate.replies_topic))
        expected = model.replied(shop.records(aggregate.commands_topic), replies)
        assert replied_in(replies) == expected, aggregate.name
        assert events_in(aggregate, shop.records(aggregate.events_topic)) == model.events, aggregate.name
        states = {row.key: row.value for row in shop.app.app.store(aggregate.state_store).all()}
        assert states == model.states, aggregate.name
        assert shop.records(aggregate.dead_letters_topic) == []


def _expect_reactions(shop: ShopInEpochs) -> None:
    """Each event has its reactions once, each deadline that has passed was sent once, and there is nothing else."""
    expected: Counter[tuple[str, str, str]] = Counter()
    for aggregate in AGGREGATES:
        for record in shop.records(aggregate.events_topic):
            kind, version = _header(record, "ce_type"), _header(record, "ce_aggregateversion")
            reaction = _REACTIONS.get((aggregate.name, kind))
            command_id = f"{aggregate.name}/{(record.key or b'').decode()}/{version}"
            if reaction is not None:
                expected[(*reaction, f"{command_id}/0")] += 1
            if kind == "Placed" and record.timestamp_ms + _DEADLINE_MS <= shop.now_ms:
                expected["order-commands", "Cancel", f"{command_id}/1"] += 1
    commands = [each for part in (*AGGREGATES, CHECKOUT) for each in shop.records(part.commands_topic)]
    assert reactions_in(_without_copies(commands), ("order", "parcel", "stock", "payment")) == expected


def _expect_outcomes(shop: ShopInEpochs, orders: int) -> None:
    """An order is cancelled if it is refused, and else only where it was asked for or a step was given up."""
    refused, may_fail = set(), set()
    for record in shop.records("order-events"):
        if _header(record, "ce_type") == "CancelAsked":
            may_fail.add((record.key or b"").decode())
        elif _header(record, "ce_type") == "Placed":
            wish = msgspec.json.decode(record.value or b"")["wish"]
            if wish["card"] != "good" or not wish["address"]:
                refused.add((record.key or b"").decode())
    for record in shop.records("checkout-events"):
        if _header(record, "ce_type") in _GIVEN_UP:
            may_fail.add((record.key or b"").decode())
    for part in AGGREGATES:
        for record in shop.records(part.replies_topic):
            reply = msgspec.json.decode(record.value or b"")
            if reply["status"] == "failed" and reply["command_id"].startswith("checkout:"):
                may_fail.add(reply["command_id"].split(":")[1])
    statuses = {row.key: row.value.status for row in shop.app.app.store("checkout-state").all()}
    assert len(statuses) == orders
    for key, status in statuses.items():
        if key in refused:
            assert status == "cancelled", key
        elif key not in may_fail:
            assert status == "completed", key


def _without_copies(records: list[SourceRecord]) -> list[SourceRecord]:
    return [record for record in records if all(name != COPY for name, _ in record.headers)]


def _header(record: SourceRecord, name: str) -> str:
    return (dict(record.headers)[name] or b"").decode()


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.booleans())
def test_however_epochs_are_cut_and_whatever_fails_the_shop_equals_the_model(
    seed: int, orders: int, troubled: bool
) -> None:
    _run(seed, orders, troubled)


def _ids_do_not_count_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AggregateProcessor, "_stored_reply", lambda self, envelope, now_ms: None)


def _undos_do_not_close_their_actions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(UndoneCommands, "refuse_from_now_on", lambda self, undo, version, now_ms: None)


def _reactions_run_twice(patch: pytest.MonkeyPatch) -> None:
    before = AggregateProcessor._react

    def react(self: AggregateProcessor, *arguments: Any) -> None:
        before(self, *arguments)
        before(self, *arguments)

    patch.setattr(AggregateProcessor, "_react", react)


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant",
    [_ids_do_not_count_once, _undos_do_not_close_their_actions, _reactions_run_twice],
)
def test_the_model_finds_a_fault_that_is_planted_in_the_processors(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        _many(20)


def _many(seeds: int) -> None:
    for seed in range(seeds):
        _run(seed, 4, troubled=True)
