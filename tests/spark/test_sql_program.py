"""Scripts of SQL as programs: their queries share one runtime and go on after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.spark.place import Place, until

from hayase.app.sql_program import SqlProgram
from hayase.core.errors import ProcessingError
from hayase.sql.errors import ParseFailedError, StatementError
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry

SOURCES = """
SET 'auto.offset.reset' = 'earliest';
CREATE STREAM orders (user_id STRING KEY, product STRING, amount BIGINT)
    WITH (KAFKA_TOPIC = 'orders', VALUE_FORMAT = 'JSON', PARTITIONS = 2);
CREATE TABLE users (user_id STRING PRIMARY KEY, region STRING)
    WITH (KAFKA_TOPIC = 'users', VALUE_FORMAT = 'JSON', PARTITIONS = 2);
"""
ENRICHED = """
CREATE STREAM enriched AS
    SELECT o.user_id AS user_id, product, amount, region
    FROM orders o JOIN users u ON o.user_id = u.user_id WHERE amount > 0;
"""
REGIONS = "CREATE TABLE regions AS SELECT region, COUNT(*) AS n, SUM(amount) AS total FROM enriched GROUP BY region;"


def program(place: Place, *parts: str) -> SqlProgram:
    settings = {key: value for key, value in place.settings().items() if key != "commit.interval.ms"}
    return SqlProgram("\n".join(parts), settings)


def put(place: Place, first: int, last: int) -> None:
    place.put("orders", [(f"u{i % 3}", {"product": f"p{i % 2}", "amount": i}, 1_000 + i) for i in range(first, last)])


def users(place: Place) -> None:
    place.put("users", [("u0", {"region": "eu"}, 0), ("u1", {"region": "us"}, 0), ("u2", {"region": "eu"}, 0)])


def regions(last: int) -> dict[str, dict[str, Any]]:
    by_region: dict[str, list[int]] = {"eu": [], "us": []}
    for i in range(1, last):
        by_region["us" if i % 3 == 1 else "eu"].append(i)
    return {region: {"N": len(amounts), "TOTAL": sum(amounts)} for region, amounts in by_region.items()}


def test_a_query_that_reads_what_another_one_writes_runs_after_it_to_the_end(place: Place) -> None:
    place.topic("orders"), place.topic("users")
    users(place)
    put(place, 0, 30)
    with program(place, SOURCES, ENRICHED, REGIONS) as first:
        reports = first.run_to_end()
    assert set(reports) == {"CSAS_ENRICHED", "CTAS_REGIONS"}
    assert place.last("REGIONS") == regions(30)
    put(place, 30, 50)
    with program(place, SOURCES, ENRICHED, REGIONS) as again:
        reports = again.run_to_end()
    assert place.last("REGIONS") == regions(50)
    assert reports["CSAS_ENRICHED"].consumed == 20


def test_a_statement_before_others_changes_nothing_for_their_state(place: Place) -> None:
    place.topic("orders"), place.topic("users")
    users(place)
    put(place, 0, 20)
    with program(place, SOURCES, ENRICHED, REGIONS) as first:
        first.run_to_end()
    put(place, 20, 40)
    large = "CREATE STREAM large AS SELECT * FROM orders WHERE amount >= 30;"
    with program(place, SOURCES, large, ENRICHED, REGIONS) as changed:
        changed.run_to_end()
    assert place.last("REGIONS") == regions(40)
    assert sorted(row.value["AMOUNT"] for row in place.rows("LARGE")) == list(range(30, 40))


def test_queries_go_on_until_the_program_is_closed_and_their_tables_can_be_read(place: Place) -> None:
    with program(place, SOURCES, ENRICHED, REGIONS) as running:
        running.start()
        users(place)
        until(lambda: running.query("CSAS_ENRICHED").progress().consumed == 3)
        put(place, 0, 10)
        until(lambda: place.last("REGIONS") == regions(10))
        assert running.runtime.topology("CTAS_REGIONS").config.commit_interval_ms == 2_000


def test_a_script_with_an_error_creates_and_starts_nothing(place: Place) -> None:
    with pytest.raises(StatementError, match="NOWHERE"):
        program(place, SOURCES, "CREATE STREAM broken AS SELECT * FROM nowhere;")
    with pytest.raises(ParseFailedError):
        program(place, SOURCES, "CREATE STREAM broken AS SELEKT;")
    assert place.log.topics() == []


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO orders (user_id, amount) VALUES ('u', 1);", "DROP STREAM orders;", "SELECT * FROM orders;"],
)
def test_what_would_be_repeated_at_every_start_is_refused(place: Place, statement: str) -> None:
    with pytest.raises(StatementError, match="executed again at every start") as raised:
        program(place, SOURCES, statement)
    assert raised.value.location is not None and raised.value.location.line == 8


def test_two_inserts_into_one_stream_need_names(place: Place) -> None:
    columns, options = "user_id STRING KEY, amount BIGINT", "KAFKA_TOPIC='some', VALUE_FORMAT='JSON', PARTITIONS=1"
    made = f"CREATE STREAM some ({columns}) WITH ({options});"
    insert = "INSERT INTO some {}SELECT user_id, amount FROM orders WHERE amount {} 5;"
    with pytest.raises(StatementError, match="QUERY_ID"):
        program(place, SOURCES, made, insert.format("", ">"), insert.format("", "<"))
    named = [insert.format("WITH (QUERY_ID='few') ", "<"), insert.format("WITH (QUERY_ID='many') ", ">")]
    assert set(program(place, SOURCES, made, *named).queries) == {"FEW", "MANY"}


def test_the_example_is_a_program(place: Place) -> None:
    text = (Path(__file__).parents[2] / "examples" / "ecommerce.sql").read_text()
    for topic in ("orders", "users", "products"):
        place.topic(topic)
    place.put("users", [("ada", {"name": "Ada", "street": "1 A St", "city": "Ayr", "region": "north"}, 0)])
    place.put("products", [("p1", {"name": "book"}, 0)])
    order = {"product": "p1", "quantity": 2, "amount": 500, "card": "4000123412341234", "test": False}
    place.put("orders", [("ada", {"id": 1, **order}, 10), ("ada", {"id": 2, **order, "product": "p9"}, 20)])
    place.put("orders", [("ada", {"id": 3, **order, "test": True}, 30)])
    with program(place, text) as example:
        example.run_to_end()
    enriched = {row.value["id"]: row.value for row in place.rows("enriched-orders")}
    assert enriched[1]["product"] == "book" and enriched[2]["product"] == "(unknown)" and set(enriched) == {1, 2}
    assert enriched[1]["card"] == "**** 1234" and enriched[1]["address"] == "1 A St, Ayr"
    assert [row.value for row in place.rows("sales")] == [{"orders": 1, "quantity": 2, "revenue": 500}] * 2


def log_entries(place: Place) -> list[dict[str, Any]]:
    return [row.value for row in place.rows("default_ksql_processing_log")]


def test_a_changed_script_applies_its_differences_to_queries_that_go_on(place: Place) -> None:
    place.topic("orders")
    put(place, 0, 20)
    script = "CREATE TABLE products AS SELECT product, SUM(amount) AS total{} FROM orders{} GROUP BY product;"
    with program(place, SOURCES, script.format("", " WHERE amount >= 0")) as first:
        first.run_to_end()
    put(place, 20, 40)
    with program(place, SOURCES, script.format(", MAX(amount) AS most", " WHERE amount > 20")) as changed:
        changed.run_to_end()
    odd = sum(i for i in range(40) if i % 2 and (i < 20 or i > 20))
    assert place.last("PRODUCTS")["p1"] == {"TOTAL": odd, "MOST": 39}


def test_a_changed_statement_that_its_state_does_not_fit_is_named_and_nothing_starts(place: Place) -> None:
    place.topic("orders")
    put(place, 0, 20)
    script = "CREATE TABLE products AS SELECT product, {} AS total FROM orders GROUP BY product;"
    with program(place, SOURCES, script.format("SUM(amount)")) as first:
        first.run_to_end()
    with pytest.raises(StatementError, match="must keep its aggregate functions") as raised:
        program(place, SOURCES, script.format("MAX(amount)"))
    assert raised.value.location is not None and raised.value.location.line == 8
    assert "hayase app reset app-CTAS_PRODUCTS" in str(raised.value)
    with program(place, SOURCES, script.format("SUM(amount)")) as as_before:
        assert as_before.run_to_end()["CTAS_PRODUCTS"].consumed == 0


def test_what_fails_for_a_record_is_in_the_processing_log_once_and_is_a_stream_of_sql(place: Place) -> None:
    place.topic("orders")
    put(place, 0, 10)
    place.put("orders", [("u", b"no json", 5_000)])
    settings = {**place.settings(), "ksql.logging.processing.stream.auto.create": "true"}
    settings.pop("commit.interval.ms")
    query = "CREATE STREAM divided AS SELECT user_id, 100 / (amount - 5) AS share FROM orders;"
    failures = "CREATE STREAM failures AS SELECT logger, message->type AS kind FROM ksql_processing_log;"
    with SqlProgram(SOURCES + query + failures, settings) as running:
        running.run_to_end()
    entries = log_entries(place)
    assert sorted(entry["message"]["type"] for entry in entries) == [0, 1]
    assert {entry["logger"].partition(".")[2].partition(".")[0] for entry in entries} == {"app-CSAS_DIVIDED"}
    assert len(place.rows("DIVIDED")) == 10
    assert sorted(row.value["KIND"] for row in place.rows("FAILURES")) == [0, 1]


def test_a_function_of_the_script_runs_on_spark(place: Place) -> None:
    place.topic("orders")
    put(place, 1, 4)
    settings = {**place.settings(), "ksql.udfs.python.enabled": "true"}
    settings.pop("commit.interval.ms")
    function = "CREATE FUNCTION tripled (n BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS 'return 3 * n';"
    query = "CREATE STREAM large AS SELECT user_id, tripled(amount) AS amount FROM orders;"
    with SqlProgram(SOURCES + function + query, settings) as running:
        running.run_to_end()
    assert sorted(row.value["AMOUNT"] for row in place.rows("LARGE")) == [3, 6, 9]


def test_a_function_that_hangs_ends_its_query_with_an_error_that_names_function_and_statement(place: Place) -> None:
    place.topic("orders")
    put(place, 1, 4)
    settings = {**place.settings(), "ksql.udfs.python.enabled": "true", "max.poll.interval.ms": 4_000}
    settings.pop("commit.interval.ms")
    body = "import time; time.sleep(600 if n == 2 else 0); return n"
    function = f"CREATE FUNCTION spin (n BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS '{body}';"
    query = "\nCREATE STREAM spun AS SELECT user_id, spin(amount) AS amount FROM orders;"
    with (
        SqlProgram(SOURCES + function + query, settings) as running,
        pytest.raises(ProcessingError, match=r"<function SPIN>:1 in SPIN") as caught,
    ):
        running.run_to_end()
    assert caught.value.condition == "STEP_HUNG"
    assert {"query": "CSAS_SPUN", "line": 8}.items() <= dict(caught.value.context).items()


AVRO = """
SET 'auto.offset.reset' = 'earliest';
CREATE STREAM orders (user_id STRING KEY, product STRING, amount BIGINT)
    WITH (KAFKA_TOPIC = 'orders', VALUE_FORMAT = 'JSON', PARTITIONS = 2);
CREATE STREAM typed WITH (VALUE_FORMAT = 'AVRO') AS SELECT * FROM orders;
CREATE TABLE products WITH (KEY_FORMAT = 'AVRO') AS SELECT product, SUM(amount) AS total FROM typed GROUP BY product;
"""
INFERRED = "CREATE STREAM again (user_id STRING KEY) WITH (KAFKA_TOPIC = 'TYPED', VALUE_FORMAT = 'AVRO');"


def test_schemas_are_in_the_folder_of_the_log_and_stay_until_their_statement_changes(place: Place) -> None:
    place.topic("orders")
    put(place, 0, 10)
    with program(place, AVRO) as first:
        first.run_to_end()
    schemas = EmbeddedSchemaRegistry.in_folder(Path(place.config.location) / "schemas")
    assert {"TYPED-value", "PRODUCTS-key", "PRODUCTS-value"} <= set(schemas.subjects())
    copied = "CREATE STREAM copied WITH (VALUE_FORMAT = 'JSON') AS SELECT * FROM again;"
    with program(place, AVRO, INFERRED, copied) as second:
        second.run_to_end()
    assert sorted(row.value["AMOUNT"] for row in place.rows("COPIED")) == list(range(10))
    wider = AVRO.replace("SELECT * FROM orders", "SELECT *, amount * 2 AS twice FROM orders")
    put(place, 10, 12)
    with program(place, wider, INFERRED, copied) as third:
        third.run_to_end()
    assert all("TWICE" not in row.value for row in place.rows("COPIED"))
    assert len(place.rows("COPIED")) == 12
