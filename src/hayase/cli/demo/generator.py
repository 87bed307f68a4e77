"""The demo's input: users, products and orders, the same for the same seed.

Times are event times around a fixed day; nothing depends on the clock. What the result of an order depends on is
settled by the times alone, however the input is cut into epochs and partitions:

* Records of a topic are at most `JITTER_MS` out of order, half of the windows' grace, so none of these is late.
* Late orders are at least `LATE_FROM_MS` behind, hours beyond the end and grace of their window.
* A user's address changes at a time before which, for longer than the jitter, that user orders nothing; users who move
  while orders come in have no late orders.
* Names of products change only before the first order. Prices go on changing; an order has its own amount.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from hayase.log.protocol import OutputBatch

Int64Array = npt.NDArray[np.int64]

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
FIRST_ORDER_MS = 1_767_571_200_000
"""2026-01-05 00:00 UTC, a Monday."""
SPAN_MS = 3 * DAY_MS
"""Time from the first to the last order."""
JITTER_MS = 15 * MINUTE_MS
LATE_FROM_MS = 10 * HOUR_MS
LATE_TO_MS = 26 * HOUR_MS
LIVE_STEP_MS = 15_000
"""Event time from one order to the next after the first `orders`, while the demo keeps running."""

_LATE_SHARE = 0.005
_JITTER_SHARE = 0.1
_TEST_SHARE = 0.02
_UNKNOWN_SHARE = 0.003
_MALFORMED_EVERY = 1_000
_QUIET_MS = 20 * MINUTE_MS

_REGIONS = {
    "Europe": ("Lisbon", "Lyon", "Turin", "Gdansk"),
    "North America": ("Boston", "Denver", "Toronto", "Puebla"),
    "South America": ("Quito", "Recife", "Rosario", "Cusco"),
    "Asia": ("Kyoto", "Busan", "Hanoi", "Pune"),
    "Africa": ("Accra", "Nairobi", "Tunis", "Durban"),
}
CITIES = [(city, region) for region, cities in _REGIONS.items() for city in cities]
"""Cities with their regions."""
_FIRST = ("Ada", "Ben", "Chen", "Dia", "Eli", "Fay", "Goro", "Hana", "Ivo", "Jun", "Kofi", "Lea", "Mio", "Noa", "Omar")
_LAST = ("Abe", "Bauer", "Costa", "Diaz", "Evans", "Fujii", "Gray", "Huber", "Ito", "Jones", "Kim", "Lopez", "Mori")
STREETS = ("Hill St", "Lake Rd", "Mill Ln", "Oak Ave", "Park Rd", "River St", "Station Rd")
_KINDS = ("Lamp", "Chair", "Desk", "Kettle", "Clock", "Mug", "Shelf", "Rug", "Fan", "Radio")
_STYLES = ("Birch", "Coral", "Dune", "Ember", "Fjord", "Grove", "Haze", "Iris", "Jade", "Kelp", "Lumen", "Moss")


@dataclass(frozen=True, slots=True)
class Records:
    """Records for one topic, in the order they are written."""

    topic: str
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps_ms: list[int]

    def __len__(self) -> int:
        return len(self.values)

    def batch(self) -> OutputBatch:
        """As the log takes them; the key decides on the partition."""
        return OutputBatch(self.topic, self.keys, self.values, self.timestamps_ms)


class Shop:
    """Makes the records of the demo.

    Args:
        orders: how many orders the three days have, at least 1,000.
        seed: of all that is drawn by lot.
    """

    def __init__(self, orders: int, seed: int = 7) -> None:
        self.orders = orders
        self._seed = seed
        self._users = min(max(orders // 20, 200), 20_000)
        self._moving = self._users // 10
        """Users from 0 on who move while orders come in; as many after them moved before."""
        self._products = len(_KINDS) * len(_STYLES)
        self._gone = 5
        """Products at the end of the catalogue that are taken out of it before the first order."""
        rng = np.random.default_rng((seed, 0))
        self._moves_ms = rng.integers(FIRST_ORDER_MS + HOUR_MS, FIRST_ORDER_MS + SPAN_MS, self._moving)
        self._prices = rng.integers(500, 50_000, self._products)

    def users(self) -> Records:
        """Users and, later, changes of address, by time."""
        rng = np.random.default_rng((self._seed, 1))
        moved = np.arange(self._moving, 2 * self._moving)
        numbers = np.concatenate([np.arange(self._users), np.arange(self._moving), moved])
        times = np.concatenate(
            [
                FIRST_ORDER_MS - rng.integers(8 * DAY_MS, 30 * DAY_MS, self._users),
                self._moves_ms,
                FIRST_ORDER_MS - rng.integers(HOUR_MS, 7 * DAY_MS, len(moved)),
            ]
        )
        order = np.argsort(times, kind="stable")
        keys: list[bytes | None] = [b"u%06d" % number for number in numbers[order].tolist()]
        values: list[bytes | None] = [
            _user(number, city, street, house)
            for number, city, street, house in zip(
                numbers[order].tolist(),
                rng.integers(0, len(CITIES), len(order)).tolist(),
                rng.integers(0, len(STREETS), len(order)).tolist(),
                rng.integers(1, 200, len(order)).tolist(),
                strict=True,
            )
        ]
        return Records("users", keys, values, times[order].tolist())

    def products(self) -> Records:
        """Products; names changed and products taken out before the first order, prices changed at any time."""
        rng = np.random.default_rng((self._seed, 2))
        changes: list[tuple[int, int, bytes | None]] = []
        for number in range(self._products):
            price = int(self._prices[number])
            renamed = rng.random() < 0.2
            draft = "Draft " if renamed else ""
            changes.append((FIRST_ORDER_MS - 30 * DAY_MS + number, number, _product(number, price * 2, draft)))
            if renamed:
                changes.append((FIRST_ORDER_MS - int(rng.integers(HOUR_MS, DAY_MS)), number, _product(number, price)))
            if number >= self._products - self._gone:
                changes.append((FIRST_ORDER_MS - MINUTE_MS, number, None))
            elif rng.random() < 0.2:
                changes.append(
                    (FIRST_ORDER_MS + int(rng.integers(HOUR_MS, SPAN_MS)), number, _product(number, price + 100))
                )
        changes.sort(key=lambda item: item[:2])
        return Records(
            "products", [b"p%03d" % n for _, n, _ in changes], [v for *_, v in changes], [t for t, *_ in changes]
        )

    def orders_from(self, start: int, count: int) -> Records:
        """The orders with the numbers from `start` on, in the order they come in."""
        rng = np.random.default_rng((self._seed, 3, start))
        numbers = np.arange(start, start + count)
        arrival = self._arrivals(numbers)
        jitter = np.where(rng.random(count) < _JITTER_SHARE, rng.integers(0, JITTER_MS, count), 0)
        late = (rng.random(count) < _LATE_SHARE) & (arrival > FIRST_ORDER_MS + LATE_TO_MS + HOUR_MS)
        times = arrival - np.where(late, rng.integers(LATE_FROM_MS, LATE_TO_MS, count), jitter)
        users = self._ordering_users(rng, times, late)
        products = self._ordered_products(rng, count)
        quantity = rng.integers(1, 6, count)
        frame = pl.DataFrame(
            {
                "id": numbers,
                "product": products,
                "quantity": quantity,
                "amount": quantity * self._prices[products % self._products],
                "card": rng.integers(4 * 10**15, 5 * 10**15, count),
                "test": rng.random(count) < _TEST_SHARE,
                "user": users,
            }
        )
        values: list[bytes | None] = frame.select(_ORDER.cast(pl.Binary)).to_series().to_list()
        for row in np.flatnonzero(numbers % _MALFORMED_EVERY == _MALFORMED_EVERY // 2).tolist():
            values[row] = _malformed(values[row] or b"", int(numbers[row]) // _MALFORMED_EVERY)
        keys = frame.select(pl.format("u{}", _padded("user", 6)).cast(pl.Binary)).to_series().to_list()
        return Records("orders", keys, values, times.tolist())

    def _arrivals(self, numbers: Int64Array) -> Int64Array:
        """When orders come in, in event time: even over the span, then at the live pace."""
        within = FIRST_ORDER_MS + numbers * SPAN_MS // self.orders
        live = FIRST_ORDER_MS + SPAN_MS + (numbers - self.orders) * LIVE_STEP_MS
        arrivals: Int64Array = np.where(numbers < self.orders, within, live)
        return arrivals

    def _ordering_users(self, rng: np.random.Generator, times: Int64Array, late: npt.NDArray[np.bool_]) -> Int64Array:
        users = rng.integers(0, self._users, len(times))
        move = np.concatenate([self._moves_ms, np.zeros(self._users - self._moving, np.int64)])[users]
        about_to_move = (times < move) & (times >= move - _QUIET_MS)
        settled = rng.integers(self._moving, self._users, len(times))
        ordering: Int64Array = np.where(about_to_move | (late & (move > 0)), settled, users)
        return ordering

    def _ordered_products(self, rng: np.random.Generator, count: int) -> Int64Array:
        """Numbers of products; some sell better than others, some are out of the catalogue or never were in it."""
        known = self._products - self._gone
        popular = (known * rng.random(count) ** 1.3).astype(np.int64)
        unknown = rng.integers(known, known + 2 * self._gone, count)
        ordered: Int64Array = np.where(rng.random(count) < _UNKNOWN_SHARE, unknown, popular)
        return ordered


def _padded(column: str, digits: int) -> pl.Expr:
    return pl.col(column).cast(pl.String).str.zfill(digits)


_ORDER = pl.format(
    '{{"id":{},"product":"p{}","quantity":{},"amount":{},"card":"{}","test":{}}}',
    "id",
    _padded("product", 3),
    "quantity",
    "amount",
    "card",
    pl.when("test").then(pl.lit("true")).otherwise(pl.lit("false")),
)
"""An order as JSON."""


def user_name(number: int) -> str:
    """The name of a user."""
    return f"{_FIRST[number % len(_FIRST)]} {_LAST[number // len(_FIRST) % len(_LAST)]}"


def product_name(number: int) -> str:
    """The name of a product; those of the first 120 are different."""
    return f"{_STYLES[number % len(_STYLES)]} {_KINDS[number // len(_STYLES) % len(_KINDS)]}"


def _user(number: int, city: int, street: int, house: int) -> bytes:
    town, region = CITIES[city]
    return (
        f'{{"name":"{user_name(number)}","street":"{house} {STREETS[street]}","city":"{town}","region":"{region}"}}'
    ).encode()


def _product(number: int, price: int, draft: str = "") -> bytes:
    return f'{{"name":"{draft}{product_name(number)}","price":{price}}}'.encode()


def _malformed(value: bytes, number: int) -> bytes:
    """The order, spoilt in one of several ways."""
    match number % 4:
        case 0:
            return value[: len(value) // 2]
        case 1:
            return value.replace(b'"amount":', b'"amount":"12.50 EUR","was":', 1)
        case 2:
            return b"order lost, see ticket"
        case _:
            return b"\xff\xfe" + value
