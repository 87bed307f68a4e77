"""The client `ksqldb` of PyPI, as it is, over a port: statements by HTTP/1.1, rows by HTTP/2."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import requests
from tests.unit.server.command_servers import listening_server_in, wait_until

from hayase.server.context import ServerContext


def installed(name: str) -> ModuleType:
    """The package of that name that is installed: a folder of the tests has the same name."""
    file = Path(str(metadata.distribution(name).locate_file(f"{name}/__init__.py")))
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=[str(file.parent)])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        for part in [each for each in sys.modules if each.startswith(f"{name}.")]:
            patch.delitem(sys.modules, part)
    return module


ksqldb = installed("ksqldb")
pytestmark = pytest.mark.long
STATEMENTS = """
CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=2);
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServerContext]:
    with listening_server_in(tmp_path) as context:
        yield context


@pytest.fixture
def client(served: ServerContext) -> Any:
    return ksqldb.KSQLdbClient(served.settings.listener.url)


def test_it_creates_inserts_pulls_lists_describes_and_ends(client: Any) -> None:
    created = client.ksql(STATEMENTS)
    assert [each["@type"] for each in created] == ["currentStatus", "currentStatus"]
    pull = "SELECT * FROM t WHERE k = 'a';"
    client.ksql("INSERT INTO s VALUES ('a', 0);")
    wait_until(lambda: client.query_sync(pull)[1:] == [["a", 1]])  # from here on the client's 5 s are enough
    assert client.inserts_stream("s", [{"K": "a", "V": 1}, {"K": "a", "V": 2}]) == [
        {"status": "ok", "seq": 0},
        {"status": "ok", "seq": 1},
    ]
    wait_until(lambda: client.query_sync(pull)[1:] == [["a", 3]])
    assert client.ksql("LIST TABLES;")[0]["tables"][0]["name"] == "T"
    assert client.ksql("DESCRIBE t;")[0]["sourceDescription"]["writeQueries"][0]["id"] == "CTAS_T_0"
    assert "auto.offset.reset" in {each["name"] for each in client.get_properties()}
    assert client.ksql("TERMINATE CTAS_T_0; DROP TABLE t;")[0]["commandStatus"]["status"] == "SUCCESS"


def test_it_gets_pushed_rows_until_the_limit(client: Any) -> None:
    client.ksql(STATEMENTS)
    client.inserts_stream("s", [{"K": "a", "V": number} for number in range(3)])

    async def rows() -> list[Any]:
        earliest = {"auto.offset.reset": "earliest"}
        query = client.query_async("SELECT v FROM s EMIT CHANGES LIMIT 2;", earliest)
        return [row async for row in query]

    header, *found = asyncio.run(rows())
    assert header["columnNames"] == ["V"]
    assert found == [[0], [1]]


def test_it_ends_a_push_query(client: Any, served: ServerContext) -> None:
    client.ksql(STATEMENTS)

    async def until_closed() -> list[Any]:
        found = []
        async for row in client.query_async("SELECT * FROM s EMIT CHANGES;"):
            found.append(row)
            if isinstance(row, dict):
                assert await asyncio.to_thread(client.close_query, row["queryId"])
        return found

    assert len(asyncio.run(until_closed())) == 1
    wait_until(lambda: not len(served.push_queries))
    assert not client.close_query("nope")


def test_it_sees_errors(client: Any) -> None:
    with pytest.raises(requests.HTTPError) as caught:
        client.ksql("DROP TABLE nope;")
    assert caught.value.response.json()["error_code"] == 40001
