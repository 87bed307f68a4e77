"""Equal push queries share one run; each client has its own buffer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.unit.server.asgi import Answer, ask, request
from tests.unit.server.loops import in_loop
from tests.unit.server.servers import DataServer

from hayase.server.push import buffer as row_buffer
from hayase.server.queries import start_query

_LATEST = {"auto.offset.reset": "latest"}
_QUERY = "SELECT id, cents * 2 AS c FROM orders WHERE cents > 0 EMIT CHANGES;"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataServer]:
    server = DataServer(tmp_path_factory.mktemp("shared"))
    server.execute(
        """
        CREATE STREAM orders (id INT KEY, cents INT, note STRING)
            WITH (kafka_topic='orders', value_format='JSON', partitions=2);
        INSERT INTO orders VALUES (1, 10, '');
        """
    )
    yield server
    server.close()


@asynccontextmanager
async def _listening(server: DataServer, text: str = _QUERY, **properties: object) -> AsyncIterator[Answer]:
    body = {"sql": text, "properties": {**_LATEST, **properties}}
    async with request(server.app, "/query-stream", body) as answer:
        assert '"queryId"' in (await answer.line() or "")
        yield answer


async def _insert(server: DataServer, *rows: str) -> None:
    text = "".join(f"INSERT INTO orders VALUES ({row});" for row in rows)
    status, answer = await ask(server.app, "/ksql", {"ksql": text})
    assert status == 200, answer


def _runs(server: DataServer) -> int:
    return len(server.context.push_queries.runs)


@in_loop
async def test_equal_queries_share_one_run_that_ends_with_the_last_of_them(server: DataServer) -> None:
    async with _listening(server) as first:
        async with _listening(server) as second:
            assert _runs(server) == 1
            await _insert(server, "2, 5, ''")
            assert [await first.line(), await second.line()] == ["[2,10]"] * 2
        await _insert(server, "3, 6, ''")
        assert await first.line() == "[3,12]"
    assert _runs(server) == 0


@in_loop
async def test_queries_that_differ_have_runs_of_their_own(server: DataServer) -> None:
    async with AsyncExitStack() as open_queries:
        for text in (_QUERY, "SELECT id FROM orders EMIT CHANGES;"):
            await open_queries.enter_async_context(_listening(server, text))
        assert _runs(server) == 2
        await open_queries.enter_async_context(_listening(server, **{"auto.offset.reset": "earliest"}))
        await open_queries.enter_async_context(
            _listening(server, "SELECT cents, COUNT(*) AS n FROM orders GROUP BY cents EMIT CHANGES;")
        )
        assert _runs(server) == 2


@in_loop
async def test_a_stream_that_is_made_again_under_its_name_is_not_shared_with_the_one_before(server: DataServer) -> None:
    made = "CREATE OR REPLACE STREAM other (id INT KEY, {} STRING) WITH (kafka_topic='orders', value_format='JSON');"
    await asyncio.to_thread(server.execute, made.format("note"))
    async with _listening(server, "SELECT * FROM other EMIT CHANGES;") as before:
        await asyncio.to_thread(server.execute, made.format("note STRING, cents"))
        async with _listening(server, "SELECT * FROM other EMIT CHANGES;") as after:
            await _insert(server, "4, 5, 'x'")
            assert await before.line() == '[4,"x"]'
            assert await after.line() == '[4,"x","5"]'


@in_loop
async def test_each_query_ends_at_its_own_limit(server: DataServer) -> None:
    async with _listening(server) as unlimited, _listening(server, _QUERY.replace(";", " LIMIT 1;")) as limited:
        assert _runs(server) == 1
        await _insert(server, "5, 1, ''", "6, 2, ''")
        assert [await limited.line(), await limited.line()] == ["[5,2]", None]
        assert sorted([await unlimited.line() or "", await unlimited.line() or ""]) == ["[5,2]", "[6,4]"]


@in_loop
async def test_a_client_that_does_not_read_delays_no_other_and_loses_nothing(
    server: DataServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, *others = row_buffer.RowBuffer.__init__.__defaults__ or ()
    monkeypatch.setattr(row_buffer.RowBuffer.__init__, "__defaults__", (400, *others))
    query = "SELECT id, note FROM orders EMIT CHANGES;"
    notes = [f"'{'x' * 100}{number}'" for number in range(20)]
    context = server.context
    slow = await start_query(
        query, {}, context, context.push_queries, context.pull_limits, context.prepared_lookups, _LATEST
    )
    try:
        async with _listening(server, query) as quick:
            assert _runs(server) == 1
            for number, note in enumerate(notes):  # one by one: each is an epoch
                await _insert(server, f"7, {number}, {note}")
                assert await quick.line() == f"[7,{note}]".replace("'", '"')
        seen: list[str] = []
        async for batch in slow:
            seen += [f"'{row[1]}'" for row in batch.rows]
            if len(seen) == len(notes):
                break
        assert seen == notes
    finally:
        await slow.close()
    assert _runs(server) == 0


@in_loop
async def test_queries_that_come_and_go_at_the_same_time_leave_no_run_and_no_thread(server: DataServer) -> None:
    async def come_and_go() -> None:
        for _ in range(5):
            async with _listening(server):
                await asyncio.sleep(0)

    await asyncio.gather(*(come_and_go() for _ in range(8)))
    assert (_runs(server), len(server.context.push_queries)) == (0, 0)
    assert [thread.name for thread in threading.enumerate() if "shared-push" in thread.name] == []
