"""What is run, on what input, and what must come out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from bench.avro import FIELDS_SQL, Twenty


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


class Enriched(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value in the output of `stream_table_join`."""

    order_id: int
    amount: int
    city: str
    tier: int


class Priced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value in the output of `foreign_key_join`: the user's last order, and the price of its product."""

    order_id: int
    amount: int
    price: int


class Settled(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value in the output of the joins of two streams: a paid order and one that its user took back near it."""

    order_id: int
    void_id: int
    amount: int


class Revenue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value in the output of `python_callables`: how many orders were paid, and what these cost."""

    paid: int
    cents: int


class Ten(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value in the output of `ten_expressions`."""

    cents: int
    each: int
    large: bool
    region: str
    what: str
    length: int
    paid: int
    distance: int
    masked: str
    kind: str


@dataclass(frozen=True, slots=True)
class Input:
    """The topic of orders, and the table beside it.

    Attributes:
        name: of the topic.
        users: how many keys.
        partitions: of every topic of a run.
        table: name of the topic with a row for each user; `None`: not needed.
        products: name of the topic with rows for each product; `None`: not needed.
        value_format: of the orders, and of the output.
    """

    name: str
    users: int = 100_000
    partitions: int = 2
    table: str | None = None
    products: str | None = None
    value_format: Literal["json", "avro"] = "json"


ORDERS = Input("orders")
MANY_PARTITIONS = Input("orders-8p", partitions=8)
MANY_USERS = Input("orders-1m", users=1_000_000, table="users-1m", products="products-1m")
FEW_USERS = Input("orders-10k", users=10_000)
IN_AVRO = Input("orders-avro", value_format="avro")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One application that both sides implement, on one input.

    Attributes:
        name: the argument of the command line.
        about: one line for the report.
        application: name of our module in `bench/ours/` and of the topology on the other side.
        value_type: what a value of the output topic must be, with no field more or less.
        table: the output is a table: the last value of each key counts. Otherwise every record counts.
        expected_sql: the right result as a DuckDB query over `orders` and `users`: the key (windowed: key and start of
            the window; a session: key, start and end), then the fields of `value_type`.
        windowed: keys of the output are windowed as Kafka Streams writes them.
        sessions: these windows are sessions.
        input: what it reads.
        log: where the topics are; on the embedded log there is no peer.
        must: the ratio of throughput that is required, for the report.
        memory_max_mb: what all our processes together may take (PSS), for the report.
        quiet_s: at least so long its output must stand still, all input read, until it is complete.
        sql: our side is a script of `bench/ours/sql.py`, not a module.
        seconds: about how long one run of each side takes with 3 M orders, checking included: (ours, peer).
    """

    name: str
    about: str
    application: str
    value_type: type[msgspec.Struct]
    table: bool
    expected_sql: str
    windowed: bool = False
    sessions: bool = False
    input: Input = ORDERS
    log: Literal["kafka", "embedded"] = "kafka"
    must: float | None = None
    memory_max_mb: int | None = None
    quiet_s: float = 0
    sql: bool = False
    seconds: tuple[float, float] = (35, 40)

    @property
    def table_read(self) -> str | None:
        """The topic of the table that is read beside the orders."""
        tables = {"stream_table_join": self.input.table, "foreign_key_join": self.input.products}
        return tables.get(self.application)


_TOTALS = "count(*), sum(amount)::BIGINT"
_BY_USER = f"SELECT user, {_TOTALS} FROM orders GROUP BY user"
_BY_MINUTE = f"SELECT user, timestamp_ms - timestamp_ms % 60000 AS start, {_TOTALS} FROM orders GROUP BY ALL"
_BY_HOP = f"""
    SELECT user, start, {_TOTALS}
    FROM (
        SELECT user, amount, unnest(generate_series(
            timestamp_ms - timestamp_ms % 10000 - 50000, timestamp_ms - timestamp_ms % 10000, 10000
        )) AS start
        FROM orders
    )
    GROUP BY ALL"""
_BY_SESSION = f"""
    SELECT user, min(timestamp_ms), max(timestamp_ms), {_TOTALS}
    FROM (
        SELECT *, sum(begins::INT) OVER (PARTITION BY user ORDER BY timestamp_ms) AS number
        FROM (
            SELECT *,
                coalesce(timestamp_ms - lag(timestamp_ms) OVER (PARTITION BY user ORDER BY timestamp_ms), 0) > 30000
                    AS begins
            FROM orders
        )
    )
    GROUP BY user, number"""
_SETTLED = """
    SELECT paid.user, paid.order_id, void.order_id, paid.amount - void.amount
    FROM orders AS paid JOIN orders AS void
    ON paid.user = void.user AND abs(paid.timestamp_ms - void.timestamp_ms) <= 60000
    WHERE paid.status = 'paid' AND void.status = 'void'"""
_PAID = "status = 'paid'"
_LAST_ORDERS = "(SELECT DISTINCT ON (user) * FROM orders ORDER BY user, order_id DESC)"

_ALL = (
    Scenario(
        "filter",
        "filter and projection, topic to topic",
        "filter",
        OrderLine,
        table=False,
        expected_sql="SELECT user, order_id, user, product, amount FROM orders WHERE amount > 5000",
        must=1.2,
        seconds=(45, 35),
    ),
    Scenario(
        "count_by_key",
        "count and sum per key (100 k keys)",
        "count_by_key",
        Totals,
        table=True,
        expected_sql=_BY_USER,
        must=2.8,
        seconds=(35, 50),
    ),
    Scenario(
        "rekey_count",
        "re-key by product (10 k), count and sum",
        "rekey_count",
        Totals,
        table=True,
        expected_sql=f"SELECT product, {_TOTALS} FROM orders GROUP BY product",
        must=2,
        seconds=(35, 50),
    ),
    Scenario(
        "python_callables",
        "map_values and aggregate with Python functions (100 k keys)",
        "python_callables",
        Revenue,
        table=True,
        expected_sql=f"""
            SELECT user, count(*) FILTER ({_PAID}), coalesce(sum(amount * quantity) FILTER ({_PAID}), 0)::BIGINT
            FROM orders GROUP BY user""",
        must=0.4,
        seconds=(90, 50),
    ),
    Scenario(
        "count_by_key_8p",
        "count and sum per key (100 k keys), 8 partitions",
        "count_by_key",
        Totals,
        table=True,
        expected_sql=_BY_USER,
        input=MANY_PARTITIONS,
        must=2,
        seconds=(35, 50),
    ),
    Scenario(
        "count_by_key_1m",
        "count and sum per key (1 M keys)",
        "count_by_key",
        Totals,
        table=True,
        expected_sql=_BY_USER,
        input=MANY_USERS,
        must=2,
        memory_max_mb=2_560,
        seconds=(45, 75),
    ),
    Scenario(
        "stream_table_join",
        "join with a table of 1 M rows by key",
        "stream_table_join",
        Enriched,
        table=False,
        expected_sql="SELECT user, order_id, amount, city, tier FROM orders JOIN users USING (user)",
        input=MANY_USERS,
        must=1.5,
        seconds=(60, 90),
    ),
    Scenario(
        "table_group_moves",
        "the last orders of 1 M users by product (10 k): count and sum, every order moves its user's row",
        "table_group_moves",
        Totals,
        table=True,
        expected_sql=f"SELECT product, {_TOTALS} FROM {_LAST_ORDERS} GROUP BY product",
        input=MANY_USERS,
        must=1.5,
        seconds=(90, 150),
    ),
    Scenario(
        "foreign_key_join",
        "the last orders of 1 M users joined with 10 k products, each of which changes three times",
        "foreign_key_join",
        Priced,
        table=True,
        expected_sql=f"SELECT user, order_id, amount, price FROM {_LAST_ORDERS} JOIN products USING (product)",
        input=MANY_USERS,
        must=1,
        # Answers go through topics of the application, whose offsets the harness does not look at.
        quiet_s=30,
        seconds=(180, 300),
    ),
    Scenario(
        "tumbling",
        "count and sum per key (10 k) and minute",
        "tumbling",
        Totals,
        table=True,
        expected_sql=_BY_MINUTE,
        windowed=True,
        input=FEW_USERS,
        must=2,
        seconds=(40, 75),
    ),
    Scenario(
        "hopping",
        "count and sum per key (10 k) and minute, every 10 s",
        "hopping",
        Totals,
        table=True,
        expected_sql=_BY_HOP,
        windowed=True,
        input=FEW_USERS,
        must=2,
        seconds=(90, 300),
    ),
    Scenario(
        "session",
        "count and sum per key (10 k) and session, gap 30 s",
        "session",
        Totals,
        table=True,
        expected_sql=_BY_SESSION,
        windowed=True,
        sessions=True,
        input=FEW_USERS,
        must=2,
        seconds=(60, 120),
    ),
    Scenario(
        "stream_stream_join",
        "join of paid with void orders by key (100 k), a minute before to a minute after",
        "stream_stream_join",
        Settled,
        table=False,
        expected_sql=_SETTLED,
        must=2,
        seconds=(60, 90),
    ),
    Scenario(
        "stream_stream_join_where",
        "join of all orders by key (100 k), a minute before to a minute after; of the pairs paid with void ones",
        "stream_stream_join_where",
        Settled,
        table=False,
        expected_sql=_SETTLED,
        seconds=(60, 90),
    ),
    Scenario(
        "embedded",
        "count and sum per key (100 k keys) on the embedded log",
        "count_by_key",
        Totals,
        table=True,
        expected_sql=_BY_USER,
        log="embedded",
        seconds=(30, 0),
    ),
)

_MUST_IN_SQL = {
    "filter": 1.3,
    "count_by_key": 4,
    "rekey_count": 2.5,
    "tumbling": 3,
    "hopping": 4,
    "stream_table_join": 2,
    "stream_stream_join_where": 2,
}
_IN_SQL = (
    *(
        replace(scenario, name=f"sql_{scenario.name}", about=f"in SQL: {scenario.about}", sql=True, must=must)
        for scenario in _ALL
        if (must := _MUST_IN_SQL.get(scenario.name)) is not None
    ),
    Scenario(
        "sql_tumbling_final",
        "in SQL: count and sum per key (10 k) and minute, each window once, when it closes",
        "tumbling_final",
        Totals,
        table=True,
        expected_sql=f"SELECT * FROM ({_BY_MINUTE}) WHERE start + 120000 <= (SELECT max(timestamp_ms) FROM orders)",
        windowed=True,
        input=FEW_USERS,
        must=2,
        sql=True,
        seconds=(40, 75),
    ),
    Scenario(
        "sql_ten_expressions",
        "in SQL: ten expressions a record, of which two have no column form",
        "ten_expressions",
        Ten,
        table=False,
        expected_sql="""
            SELECT user, amount * quantity, amount // quantity, amount > 5000, upper(region),
                user || '/' || product, length(product), CASE WHEN status = 'paid' THEN amount ELSE 0 END,
                abs(quantity - 5), regexp_replace(status, '[a-z]', 'x', 'g'),
                regexp_replace(product, '[0-9]+', '#', 'g')
            FROM orders""",
        must=1,
        sql=True,
        seconds=(60, 60),
    ),
    Scenario(
        "sql_avro_twenty_fields",
        "in SQL: half of the orders, twenty fields each, Avro to Avro",
        "avro_twenty_fields",
        Twenty,
        table=False,
        expected_sql=f"SELECT user, {FIELDS_SQL} FROM orders WHERE amount > 5000",
        input=IN_AVRO,
        must=1.5,
        sql=True,
        seconds=(60, 60),
    ),
)

SCENARIOS = {scenario.name: scenario for scenario in (*_ALL, *_IN_SQL)}
GUARANTEES = ("exactly_once_v2", "at_least_once")
