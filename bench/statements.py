"""What SQL costs before a query runs, and in decoding: `python -m bench statements`. Ours only; no Spark, no broker.

All in CPU seconds of this process, and its memory.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import polars as pl
from rich.console import Console
from rich.table import Table

from bench.data import make_orders
from bench.ours.application import ORDER
from hayase import Serdes
from hayase.sql.engine import SqlEngine
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import FormatInfo
from hayase.sql.formats.serdes import value_serde
from hayase.sql.grammar.parser import parse_script
from hayase.sql.types.sql_types import BIGINT, STRING

T = TypeVar("T")

_SOURCES = """
CREATE STREAM s{i} (k STRING KEY, a INT, b BIGINT, t STRING) WITH (kafka_topic='s{i}', format='JSON');
CREATE TABLE p{i} (k STRING PRIMARY KEY, c INT, u STRING) WITH (kafka_topic='p{i}', format='JSON');
CREATE TABLE q{i} (k STRING PRIMARY KEY, c INT, u STRING) WITH (kafka_topic='q{i}', format='JSON');
"""
_QUERIES = (
    "CREATE STREAM f{i} AS SELECT k, a + b AS c, UCASE(t) AS t FROM s{i} WHERE a > {i};",
    "CREATE TABLE g{i} AS SELECT t, COUNT(*) AS n, SUM(b) AS total FROM s{i} GROUP BY t HAVING COUNT(*) > 1;",
    "CREATE STREAM j{i} AS SELECT s.k AS k, a, c, u FROM s{i} s JOIN p{i} p ON s.k = p.k;",
    "CREATE TABLE w{i} AS SELECT k, AVG(a) AS mean FROM s{i} WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY k EMIT FINAL;",
    "CREATE STREAM c{i} AS SELECT k, CASE WHEN a > 1 THEN 'x' ELSE t END AS x, MASK(t) AS m FROM s{i};",
    "CREATE TABLE d{i} AS SELECT l.k AS k, l.c AS c, r.u AS u FROM p{i} l LEFT JOIN q{i} r ON l.k = r.k;",
    "CREATE STREAM e{i} AS SELECT k, EXPLODE(SPLIT(t, ' ')) AS word FROM s{i} PARTITION BY k;",
    "INSERT INTO f{i} SELECT k, a + b AS c, t FROM s{i} WHERE a < {i};",
)
_EACH = 3 + len(_QUERIES)
_WIDE_ITEMS = 1_900
_WIDE = {
    "aggregates": "CREATE TABLE o AS SELECT k, {} FROM s0 GROUP BY k;",
    "items": "CREATE STREAM o AS SELECT k, {} FROM s0;",
    "groups": "CREATE TABLE o AS SELECT {}, COUNT(*) AS n FROM s0 GROUP BY {};",
}
_DECODED = 200_000
_BATCH = 20_000
_ROUNDS = 5


def run(statements: int, console: Console) -> None:
    """Measure, and show what came out."""
    table = Table("what", "CPU s", "memory MB", "must be")
    SqlEngine().script(_script(_EACH))  # what is loaded once does not count
    for name, text in _WIDE.items():
        _, wide_s = _timed(partial(_wide, text))
        table.add_row(f"one statement, {_WIDE_ITEMS:,} {name}", f"{wide_s:.2f}", "", "1 s")
    script = _script(statements)
    before_mb = _memory_mb()
    parsed, parse_s = _timed(lambda: parse_script(script))
    engine = SqlEngine()
    _, plan_s = _timed(lambda: [engine.execute(each) for each in parsed])
    table.add_row(f"{len(parsed):,} statements, parsed", f"{parse_s:.2f}", "", "")
    total = f"{_memory_mb():,.0f} (+{_memory_mb() - before_mb:,.0f})"
    table.add_row(f"{len(parsed):,} statements, parsed and planned", f"{parse_s + plan_s:.2f}", total, "10 s, 300 MB")
    own, plain = decoding()
    table.add_row(f"JSON, SQL's decoder, {_DECODED:,} orders", f"{own:.3f}", "", "")
    table.add_row(f"JSON, the DSL's decoder: {own / plain:.2f} times", f"{plain:.3f}", "", "1.25 times")
    console.print(table)


def decoding() -> tuple[float, float]:
    """CPU seconds of decoding orders as SQL's rows and as the DSL's values; the best of some rounds each."""
    values = [value.encode() for _, value, _ in make_orders(_DECODED).records()]
    types = {name: BIGINT if dtype == pl.Int64 else STRING for name, dtype in ORDER.items()}
    columns = [Column(name.upper(), type_) for name, type_ in types.items()]
    codecs = [value_serde(FormatInfo("JSON"), columns).columns, Serdes.json(schema=ORDER).columns]
    best = [float("inf"), float("inf")]
    for _ in range(_ROUNDS):
        for number, codec in enumerate(codecs):
            _, seconds = _timed(partial(_decode, codec, values))
            best[number] = min(best[number], seconds)
    return best[0], best[1]


def _decode(codec: Any, values: Sequence[bytes]) -> None:
    for start in range(0, len(values), _BATCH):
        codec.decode_list(values[start : start + _BATCH]).checked()


def _script(statements: int) -> str:
    """Sources, and queries of all kinds over them."""
    parts = [text.format(i=i) for i in range(-(-statements // _EACH)) for text in (_SOURCES, *_QUERIES)]
    return "\n".join(parts)


def _wide(text: str) -> None:
    engine = SqlEngine()
    engine.script(_SOURCES.format(i=0))
    item = "SUM(a + {i}) AS x{i}" if "SELECT k, {} FROM s0 GROUP" in text else "a + {i} AS x{i}"
    items = ", ".join(item.format(i=i) for i in range(_WIDE_ITEMS))
    engine.script(text.format(items, ", ".join(f"a + {i}" for i in range(_WIDE_ITEMS))))


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def _memory_mb() -> float:
    """The most that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
