"""Commands, reactions, deadlines and sagas, in epochs that are cut anywhere and fail, equal a sequential model.

The order in which commands arrive, which is any, is that of the log; everything else is worked out by hand.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.patterns.shop_in_epochs import ShopInEpochs, failing_now_and_then, shop_in_epochs
from tests.unit.patterns.shop_model import AGGREGATES, ORDER, STOCK, expect_model

from hayase.cli.demo.shop_customers import goods, wishes
from hayase.patterns.aggregate_processor import AggregateProcessor
from hayase.patterns.command_ids import CommandIds
from hayase.patterns.undone_commands import UndoneCommands

pytestmark = pytest.mark.long


def _run(seed: int, orders: int, troubled: bool, apart: bool) -> None:
    """The shop with random orders and trouble, compared with the model."""
    random = Random(seed)
    with tempfile.TemporaryDirectory() as folder, shop_in_epochs(Path(folder), random, apart=apart) as shop:
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
        expect_model(shop)


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


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.booleans(), st.booleans())
def test_however_epochs_are_cut_and_whatever_fails_the_shop_equals_the_model(
    seed: int, orders: int, troubled: bool, apart: bool
) -> None:
    _run(seed, orders, troubled, apart)


def _ids_do_not_count_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommandIds, "reply", lambda self, command, now_ms: None)


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


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_shop_equals_the_model_for_many_seeds() -> None:
    _many(40)


def _many(seeds: int) -> None:
    for seed in range(seeds):
        _run(seed, 4, troubled=True, apart=seed % 2 == 1)
