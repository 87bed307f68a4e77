"""What is run, and what must come out."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


class OrderLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value in the output of `filter`."""

    order_id: int
    user: str
    product: str
    amount: int


class Totals(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value in the output of the counting scenarios: how many orders, and the sum of their amounts."""

    n: int
    total: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """One application that both sides implement.

    Attributes:
        name: the argument of the command line, and the name of our module in `bench/ours/`.
        about: one line for the report.
        value_type: what a value of the output topic must be, with no field more or less.
        table: the output is a table: the last value of each key counts. Otherwise every record counts.
        expected_sql: the right result as a DuckDB query over `orders`: key, then the fields of `value_type`.
    """

    name: str
    about: str
    value_type: type[msgspec.Struct]
    table: bool
    expected_sql: str


_ALL = (
    Scenario(
        "filter",
        "filter and projection, topic to topic",
        OrderLine,
        table=False,
        expected_sql="SELECT user, order_id, user, product, amount FROM orders WHERE amount > 5000",
    ),
    Scenario(
        "count_by_key",
        "count and sum per key (100 k keys)",
        Totals,
        table=True,
        expected_sql="SELECT user, count(*), sum(amount)::BIGINT FROM orders GROUP BY user",
    ),
    Scenario(
        "rekey_count",
        "re-key by product (10 k), count and sum",
        Totals,
        table=True,
        expected_sql="SELECT product, count(*), sum(amount)::BIGINT FROM orders GROUP BY product",
    ),
)

SCENARIOS = {scenario.name: scenario for scenario in _ALL}
GUARANTEES = ("exactly_once_v2", "at_least_once")
