"""Short push queries, one after the other: each gives back all that it held."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator

import psutil
import pytest
from tests.unit.server.asgi import request
from tests.unit.server.servers import DataServer

_MOST_GROWTH_BYTES = 20 << 20
_TEXTS = (
    "SELECT * FROM orders EMIT CHANGES LIMIT 1;",
    "SELECT item, COUNT(*) AS n FROM orders GROUP BY item EMIT CHANGES LIMIT 1;",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[DataServer]:
    server = DataServer(tmp_path_factory.mktemp("soak"))
    server.execute(
        """
        CREATE STREAM orders (id INT KEY, item STRING) WITH (kafka_topic='orders', value_format='JSON', partitions=1);
        INSERT INTO orders VALUES (1, 'pen');
        """
    )
    yield server
    server.close()


async def _ask(server: DataServer, count: int) -> None:
    for number in range(count):
        body = {"sql": _TEXTS[number % 2], "properties": {"auto.offset.reset": "earliest"}}
        async with request(server.app, "/query-stream", body) as answer:
            assert answer.status == 200
            assert len((await answer.body()).splitlines()) == 2


def _growth_of(server: DataServer, warm_up: int, count: int) -> int:
    """How many bytes more the process has after so many queries."""
    asyncio.run(_ask(server, warm_up))
    gc.collect()
    process = psutil.Process()
    before = process.memory_info().rss
    asyncio.run(_ask(server, count))
    gc.collect()
    return int(process.memory_info().rss - before)


@pytest.mark.long
def test_a_query_that_has_ended_leaves_no_thread_and_no_entry(server: DataServer) -> None:
    asyncio.run(_ask(server, 4))
    before = threading.active_count()
    asyncio.run(_ask(server, 10))
    assert len(server.context.push_queries) == 0
    assert threading.active_count() <= before + 1


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_ten_thousand_queries_grow_by_less_than_20_mb(server: DataServer) -> None:
    assert _growth_of(server, 500, 10_000) < _MOST_GROWTH_BYTES
