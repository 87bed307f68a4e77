"""Clients that others have made, as they are, in environments of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.clients.environments import cycle_in_node, cycle_in_python
from tests.unit.server.command_servers import execute, listening_server_in

from hayase.server.context import ServerContext

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServerContext]:
    with listening_server_in(tmp_path) as context:
        yield context


def succeeded(entity: dict[str, Any]) -> bool:
    return bool(entity["commandStatus"]["status"] == "SUCCESS")


def test_ksqldb_client_of_npm_goes_through_its_whole_cycle(served: ServerContext) -> None:
    found = cycle_in_node("ksqldb_client", str(served.settings.listener.port))
    for made in ("stream", "table", "terminated"):
        assert succeeded(found[made]["data"]["rows"][0])
    assert [each["data"]["rows"] for each in found["inserted"]] == [[{"status": "ok", "seq": 0}]] * 2
    assert found["pulled"]["data"]["rows"] == [{"K": "a", "N": 2}]
    assert found["pushed"] == {"rows": [{"V": 1}, {"V": 2}], "status": 200}
    assert found["closed"] == [200, 200]
    assert [each["name"] for each in found["streams"] + found["tables"]] == ["S", "T"]
    assert {"s", "T"} <= {each["name"] for each in found["topics"]}
    assert [each["id"] for each in found["queries"]] == ["CTAS_T_0"]
    assert [field["name"] for field in found["described"]["fields"]] == ["K", "N"]
    assert [found[each]["error"]["error_code"] for each in ("refused", "refusedQuery")] == [40001, 40001]


def test_jetblack_ksql_dbapi_of_pypi_goes_through_its_whole_cycle(served: ServerContext) -> None:
    found = cycle_in_python("jetblack", served.settings.listener.url)
    assert found["info"]["KsqlServerInfo"]["serverStatus"] == "RUNNING"
    assert found["health"]["isHealthy"] is True
    assert all(succeeded(each) for each in found["created"] + found["terminated"])
    assert found["inserted"] == [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}]
    assert found["pulled"] == [{"K": "a", "N": 2}]
    assert found["pushed"] == [{"V": 1}, {"V": 2}]
    assert found["tables"][0]["tables"][0]["name"] == "T"
    assert found["described"][0]["sourceDescription"]["name"] == "T"
    assert found["status"]["status"] == "SUCCESS"
    assert found["closed"] is False
    assert found["refused"] == ["KsqlStatementError", "Source NOPE does not exist."]


@pytest.mark.slow
def test_cubes_driver_of_npm_lists_describes_and_makes_and_drops_tables(served: ServerContext) -> None:
    execute(served, "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);")
    found = cycle_in_node("cube", served.settings.listener.url)
    assert [each["fullTableName"] for each in found["tables"]] == ["S"]
    assert found["schema"] == {"": {"S": [{"name": "K", "type": "STRING"}, {"name": "V", "type": "INTEGER"}]}}
    assert succeeded(found["created"])
    assert found["described"]["sourceDescription"]["topic"] == "totals"
    assert found["download"]["types"] == [{"name": "K", "type": "text"}, {"name": "N", "type": "bigint"}]
    assert found["preAggregations"] == [{"table_name": "totals"}]
    assert succeeded(found["dropped"])
    assert "Source NOPE does not exist." in found["refused"]
    assert "Select queries" in found["select"]
