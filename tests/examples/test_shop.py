"""The shop: four services, random orders, and the proof from their topics."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.examples.shop_services import FOLDER, SERVICES, shop_of

from hayase.cli.demo import shop_proof as proof
from hayase.cli.demo.shop_customers import goods, wishes
from hayase.cli.main import run_cli

ORDERS = 40


def bought(seed: int, orders: int = ORDERS) -> Any:
    """The ledger after random orders, with records in any order between the services, and time that passes."""
    random = Random(seed)
    with shop_of(seed) as shop:
        for wish in goods(orders):
            shop.ask(SERVICES["stock"].stock, wish)
        for wish in wishes(seed, orders):
            shop.ask(SERVICES["orders"].order, wish)
            for _ in range(random.randrange(8)):
                shop.step()
            if random.random() < 0.05:
                shop.pass_time(random.choice([1, 40]))  # with 40 seconds, commands without an answer are sent again
        return shop.settle(orders)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_every_order_is_shipped_and_paid_once_or_cancelled_with_goods_and_money_back(seed: int) -> None:
    ledger = bought(seed)
    assert ledger.settled(ORDERS)
    assert ledger.faults() == []
    states = ledger.states()
    assert states["shipped"] > 3 and states["cancelled"] > 3 and states["shipped"] + states["cancelled"] == ORDERS
    assert ledger.sums["PaymentRefused"] and ledger.sums["Refunded"] and ledger.sums["Released"]


def fact(topic: str, key: str, kind: str, **fields: object) -> Any:
    return proof.Fact(topic, key, kind, fields)


def shipped(*left_out: str) -> Any:
    """The ledger of one order that was shipped, without some of its events."""
    facts = [
        fact("stock-events", "pen", "Restocked", quantity=5),
        fact("order-events", "1", "Placed", wish={"cents": 7, "quantity": 2}),
        fact("stock-events", "pen", "Reserved", order="1", quantity=2),
        fact("payment-events", "1", "Captured", cents=7),
        fact("parcel-events", "1", "Dispatched", item="pen"),
        fact("stock-events", "pen", "Sold", order="1", quantity=2),
        fact("order-events", "1", "Shipped"),
        fact("checkout-events", "1", "Completed", status="completed"),
    ]
    ledger = proof.Ledger()
    ledger.add(each for each in facts if each.type not in left_out)
    return ledger


def test_the_proof_holds_for_an_order_of_which_nothing_is_missing() -> None:
    assert shipped().faults() == [] and shipped().settled(1)


@pytest.mark.parametrize("event", ["Captured", "Dispatched", "Sold", "Shipped", "Completed", "Reserved"])
def test_the_proof_finds_what_is_missing(event: str) -> None:
    assert shipped(event).faults()


def test_the_proof_finds_what_happened_twice() -> None:
    for again in (
        fact("payment-events", "1", "Captured", cents=7),
        fact("parcel-events", "1", "Dispatched", item="pen"),
        fact("order-events", "1", "Cancelled"),
        fact("payment-events", "1", "Refunded", cents=7),
        fact("stock-events", "pen", "Sold", order="1", quantity=2),
    ):
        ledger = shipped()
        ledger.add([again])
        assert ledger.faults(), again


def test_describe_knows_all_services_of_the_shop(capsys: pytest.CaptureFixture[str]) -> None:
    others = [part for name in ("stock", "payments", "shipping") for part in ("--with", str(FOLDER / f"{name}.py"))]
    assert run_cli(["describe", str(FOLDER / "orders.py"), "--patterns", *others]) == 0
    out = capsys.readouterr().out
    assert "Dispatched --> stock: Take (take)" in out
    assert "3 pay --> payment: Charge; success Captured; refusal PaymentRefused; undo Refund" in out
    assert "in none of these programs" not in out and "Refused:" not in out


def test_the_shop_is_short_enough_to_read() -> None:
    assert sum(len(file.read_text().splitlines()) for file in FOLDER.glob("*.py")) < 400
