"""An independent batch computation of the demo's results: SQL on DuckDB over what is in the input topics.

It shares no code with the streaming side, not even the decoding, and says in SQL what the example says in the DSL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from hayase.cli.demo.topics import DEAD_LETTERS, INPUTS, read_topic
from hayase.log.protocol import Log

OUTPUTS = ("enriched-orders", "sales", DEAD_LETTERS)
_SHOWN = 5

_INPUT = """
create table parsed as
select *, doc is null or json_type(doc) <> 'OBJECT'
       or json_type(doc, '$.amount') not in ('UBIGINT', 'BIGINT') as malformed
from (select *, try(decode(value)) as text, case when json_valid(text) then text::json end as doc from "orders");

create table good as
select partition, "offset", timestamp_ms, key, doc->>'$.product' as product, doc->>'$.card' as card,
       (doc->>'$.id')::bigint as id, (doc->>'$.quantity')::bigint as quantity, (doc->>'$.amount')::bigint as amount
from parsed where not malformed and not (doc->>'$.test')::boolean;

create table addresses as
select key, timestamp_ms, (d->>'$.street') || ', ' || (d->>'$.city') as address, d->>'$.region' as region
from (select *, decode(value)::json as d from "users");

create table names as
select decode(key) as product, decode(latest)::json->>'$.name' as name
from (select key, max_by(struct_pack(v := value), "offset").v as latest from "products" group by key)
where latest is not null;
"""

_EXPECTED = """
create table expected_enriched as
select g.key, g.timestamp_ms, g.id, coalesce(n.name, '(unknown)') as product, g.quantity, g.amount,
       '**** ' || right(g.card, 4) as card, a.address, a.region
from good g
asof join addresses a on g.key = a.key and g.timestamp_ms >= a.timestamp_ms
left join names n on n.product = g.product;

create table in_windows as
select id, timestamp_ms // 21600000 * 21600000 as window_start_ms,
       max(timestamp_ms) over (partition by partition order by "offset") as stream_time_ms,
       stream_time_ms >= window_start_ms + 21600000 + 1800000 as late
from good;

create table expected_sales as
select product, region, window_start_ms, count(*) as orders, sum(quantity)::bigint as quantity,
       sum(amount)::bigint as revenue, max(timestamp_ms) as timestamp_ms
from expected_enriched join in_windows using (id) where not late
group by all;

create table expected_dead_letters as select key, value, timestamp_ms from parsed where malformed;
"""

_ACTUAL = """
create table actual_enriched as
select coalesce(encode(d->>'$.user'), key) as key, timestamp_ms, (d->>'$.id')::bigint as id, d->>'$.product' as product,
       (d->>'$.quantity')::bigint as quantity, (d->>'$.amount')::bigint as amount, d->>'$.card' as card,
       d->>'$.address' as address, d->>'$.region' as region
from (select *, decode(value)::json as d from "enriched-orders");

create table actual_sales as
select k->>'$.product' as product, k->>'$.region' as region, window_start_ms, (d->>'$.orders')::bigint as orders,
       (d->>'$.quantity')::bigint as quantity, (d->>'$.revenue')::bigint as revenue, timestamp_ms
from (
    select decode(key[:octet_length(key) - 8])::json as k,
           ('0x' || hex(key[octet_length(key) - 7:]))::bigint as window_start_ms,
           decode(max_by(value, "offset"))::json as d, max_by(timestamp_ms, "offset") as timestamp_ms
    from "sales" group by key
);

create table actual_dead_letters as select key, value, timestamp_ms from "orders-dead-letters";
"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One result compared with the batch computation, as bags of rows.

    Attributes:
        name: of the result.
        rows: rows that the batch computation has.
        missing: rows that it has and the application has not.
        unexpected: rows that the application has and it has not.
        examples: the first few of both, as text.
    """

    name: str
    rows: int
    missing: int
    unexpected: int
    examples: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether both have the same rows, each as often."""
        return not self.missing and not self.unexpected


@dataclass(frozen=True, slots=True)
class Report:
    """What the check found.

    Attributes:
        comparisons: the results, one by one.
        late: orders that the batch computation leaves out because their window was closed.
        unknown_products: orders whose product is not in the catalogue.
    """

    comparisons: tuple[Comparison, ...]
    late: int
    unknown_products: int

    @property
    def equal(self) -> bool:
        """Whether everything is equal."""
        return all(comparison.equal for comparison in self.comparisons)


def check(log: Log, store: Iterable[Mapping[str, object]], late: int) -> Report:
    """Compute the results from the input topics and compare them with the output topics and with the rows of the store.

    Args:
        log: of the topics; no process may be writing to them.
        store: the rows of the store `sales`: product, region, window_start_ms, orders, quantity, revenue, timestamp_ms.
        late: how many records the application says it refused as late.
    """
    tables = {topic: read_topic(log, topic) for topic in (*INPUTS, *OUTPUTS)}
    return check_tables(tables, list(store), late)


def check_tables(tables: Mapping[str, pa.Table], store: list[Mapping[str, object]], late: int) -> Report:
    """As `check`, on topics that were read before."""
    with duckdb.connect() as connection:
        connection.execute("set threads = 2")
        for topic, table in tables.items():
            connection.register(topic, table)
        for script in (_INPUT, _EXPECTED, _ACTUAL):
            connection.execute(script)
        connection.register("store_rows", pa.Table.from_pylist([dict(row) for row in store], _STORE))
        comparisons = (
            _compare(connection, "enriched orders", "expected_enriched", "actual_enriched"),
            _compare(connection, "topic sales", "expected_sales", "actual_sales"),
            _compare(connection, "store sales", "expected_sales", "store_rows"),
            _compare(connection, "dead letters", "expected_dead_letters", "actual_dead_letters"),
        )
        expected_late = _count(connection, "select count(*) from in_windows where late")
        unknown = _count(connection, "select count(*) from expected_enriched where product = '(unknown)'")
    counted = Comparison("late orders", expected_late, max(0, expected_late - late), max(0, late - expected_late), ())
    return Report((*comparisons, counted), expected_late, unknown)


def _compare(connection: duckdb.DuckDBPyConnection, name: str, expected: str, actual: str) -> Comparison:
    columns = [row[0] for row in connection.execute(f"describe {expected}").fetchall()]
    names = ", ".join(columns)
    counts: dict[str, int] = {}
    examples: list[str] = []
    for sign, minuend, other in (("-", expected, actual), ("+", actual, expected)):
        connection.execute(
            f"create or replace temp table difference as select {names} from {minuend} except all select {names} from "
            f"{other}"
        )
        counts[sign] = _count(connection, "select count(*) from difference")
        rows = connection.execute(f"select * from difference order by all limit {_SHOWN}").fetchall()
        examples += [f"{sign} " + ", ".join(f"{c}={v!r}" for c, v in zip(columns, row, strict=True)) for row in rows]
    return Comparison(
        name, _count(connection, f"select count(*) from {expected}"), counts["-"], counts["+"], tuple(examples)
    )


def _count(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    (row,) = connection.execute(query).fetchall()
    return int(row[0])


_STORE = pa.schema(
    {
        "product": pa.string(),
        "region": pa.string(),
        "window_start_ms": pa.int64(),
        "orders": pa.int64(),
        "quantity": pa.int64(),
        "revenue": pa.int64(),
        "timestamp_ms": pa.int64(),
    }
)
