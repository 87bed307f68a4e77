"""The demo's input: what its check relies on."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hayase.cli.demo import generator
from hayase.cli.demo.generator import Shop

ORDERS = 20_000


@pytest.fixture(scope="module")
def orders() -> generator.Records:
    return Shop(ORDERS).orders_from(0, ORDERS)


def test_the_same_seed_gives_the_same_records_and_another_seed_others(orders: generator.Records) -> None:
    assert Shop(ORDERS).orders_from(0, ORDERS) == orders
    assert Shop(ORDERS, seed=8).orders_from(0, ORDERS) != orders
    assert Shop(ORDERS).users() == Shop(ORDERS).users()
    assert Shop(ORDERS).products() == Shop(ORDERS).products()


def test_orders_are_minutes_out_of_order_or_hours_late_and_nothing_between(orders: generator.Records) -> None:
    times = np.array(orders.timestamps_ms)
    behind = np.maximum.accumulate(times) - times
    jittered = behind <= generator.JITTER_MS
    late = behind >= generator.LATE_FROM_MS - generator.JITTER_MS
    assert (jittered | late).all()
    assert (behind > 0)[jittered].sum() > ORDERS / 20
    assert late.sum() > 10


def test_late_orders_are_more_than_an_hour_beyond_the_grace_of_their_window(orders: generator.Records) -> None:
    times = np.array(orders.timestamps_ms)
    now = np.maximum.accumulate(times)
    late = now - times > generator.JITTER_MS
    closes = (
        times // (6 * generator.HOUR_MS) * (6 * generator.HOUR_MS) + 6 * generator.HOUR_MS + 30 * generator.MINUTE_MS
    )
    assert (now[late] - closes[late] > generator.HOUR_MS).all()


def test_nobody_orders_just_before_moving_and_who_moves_meanwhile_is_never_late(orders: generator.Records) -> None:
    users = Shop(ORDERS).users()
    moves = {
        key: time for key, time in zip(users.keys, users.timestamps_ms, strict=True) if time > generator.FIRST_ORDER_MS
    }
    times = np.array(orders.timestamps_ms)
    now = np.maximum.accumulate(times)
    seen = 0
    for key, time, latest in zip(orders.keys, times.tolist(), now.tolist(), strict=True):
        if key in moves:
            seen += 1
            assert latest - time <= generator.JITTER_MS
            assert (time < moves[key]) == (latest < moves[key])
    assert seen > 100


def test_names_of_products_change_only_before_the_first_order() -> None:
    products = Shop(ORDERS).products()
    names: dict[bytes | None, str | None] = {}
    for key, value, time in zip(products.keys, products.values, products.timestamps_ms, strict=True):
        name = None if value is None else json.loads(value)["name"]
        if time >= generator.FIRST_ORDER_MS:
            assert names[key] == name
        names[key] = name
    assert None in names.values()


def test_one_order_in_a_thousand_is_malformed_and_amounts_are_whole_cents(orders: generator.Records) -> None:
    good, bad = 0, 0
    for value in orders.values:
        try:
            good += isinstance(json.loads(value or b"")["amount"], int)
            bad += not isinstance(json.loads(value or b"")["amount"], int)
        except ValueError:
            bad += 1
    assert (good, bad) == (ORDERS - ORDERS // 1000, ORDERS // 1000)


def test_orders_after_the_first_ones_go_on_in_time() -> None:
    shop = Shop(ORDERS)
    first = shop.orders_from(ORDERS, 100)
    assert min(first.timestamps_ms) >= generator.FIRST_ORDER_MS + generator.SPAN_MS - generator.LATE_TO_MS
    assert max(first.timestamps_ms) <= generator.FIRST_ORDER_MS + generator.SPAN_MS + 100 * generator.LIVE_STEP_MS
