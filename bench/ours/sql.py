"""The scenarios in SQL: the same results as the modules beside this one, in ksqlDB's language."""

from __future__ import annotations

import argparse
from pathlib import Path

from bench import avro
from bench.ours.application import run_topology
from hayase.serde.registry import RegistrySchema
from hayase.sql.engine import SqlEngine
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.sql.statements.topics import MemoryTopics
from hayase.topology.topology import Topology

_ORDER = """
    k STRING KEY, order_id BIGINT, user STRING, product STRING, region STRING, amount BIGINT, quantity BIGINT,
    status STRING
"""
_SOURCES = f"""
CREATE STREAM orders ({_ORDER}) WITH (kafka_topic='${{input}}', value_format='JSON');
"""
_AVRO = "avro_twenty_fields"
_RESULT = "result WITH (kafka_topic='${output}', value_format='JSON') AS"
_TOTALS = "COUNT(*) AS `n`, SUM(amount) AS `total`"
_MINUTE = "SIZE 1 MINUTE, GRACE PERIOD 1 MINUTE"

SCRIPTS = {
    _AVRO: """
        CREATE STREAM orders (k STRING KEY) WITH (kafka_topic='${input}', value_format='AVRO');
        CREATE STREAM result WITH (kafka_topic='${output}') AS SELECT * FROM orders WHERE amount > 5000;""",
    "filter": f"""
        CREATE STREAM {_RESULT}
        SELECT k, order_id AS `order_id`, user AS `user`, product AS `product`, amount AS `amount`
        FROM orders WHERE amount > 5000;""",
    "count_by_key": f"CREATE TABLE {_RESULT} SELECT k, {_TOTALS} FROM orders GROUP BY k;",
    "rekey_count": f"CREATE TABLE {_RESULT} SELECT product, {_TOTALS} FROM orders GROUP BY product;",
    "tumbling": f"CREATE TABLE {_RESULT} SELECT k, {_TOTALS} FROM orders WINDOW TUMBLING ({_MINUTE}) GROUP BY k;",
    "tumbling_final": f"""
        CREATE TABLE {_RESULT} SELECT k, {_TOTALS} FROM orders WINDOW TUMBLING ({_MINUTE}) GROUP BY k EMIT FINAL;""",
    "hopping": f"""
        CREATE TABLE {_RESULT}
        SELECT k, {_TOTALS} FROM orders
        WINDOW HOPPING (SIZE 1 MINUTE, ADVANCE BY 10 SECONDS, GRACE PERIOD 1 MINUTE) GROUP BY k;""",
    "stream_table_join": f"""
        CREATE TABLE users (id STRING PRIMARY KEY, name STRING, city STRING, tier BIGINT)
            WITH (kafka_topic='${{table}}', value_format='JSON');
        CREATE STREAM {_RESULT}
        SELECT k, order_id AS `order_id`, amount AS `amount`, city AS `city`, tier AS `tier`
        FROM orders JOIN users ON k = id;""",
    "stream_stream_join_where": f"""
        CREATE STREAM others ({_ORDER}) WITH (kafka_topic='${{input}}', value_format='JSON');
        CREATE STREAM {_RESULT}
        SELECT paid.k AS k, paid.order_id AS `order_id`, void.order_id AS `void_id`,
            paid.amount - void.amount AS `amount`
        FROM orders paid JOIN others void WITHIN 1 MINUTE GRACE PERIOD 1 MINUTE ON paid.k = void.k
        WHERE paid.status = 'paid' AND void.status = 'void';""",
    "ten_expressions": f"""
        CREATE STREAM {_RESULT}
        SELECT k,
            amount * quantity AS `cents`,
            amount / quantity AS `each`,
            amount > 5000 AS `large`,
            UCASE(region) AS `region`,
            CONCAT(user, '/', product) AS `what`,
            LEN(product) AS `length`,
            CASE WHEN status = 'paid' THEN amount ELSE CAST(0 AS BIGINT) END AS `paid`,
            ABS(quantity - 5) AS `distance`,
            MASK(status) AS `masked`,
            REGEXP_REPLACE(product, '[0-9]+', '#') AS `kind`
        FROM orders;""",
}


def topology(script: str, topics: dict[str, str], schemas: Path) -> Topology:
    """The topology of the one query of a script.

    Args:
        script: a name in `SCRIPTS`.
        topics: the names of input, output and perhaps table.
        schemas: folder for the schema registry of what is in Avro.
    """
    known = dict.fromkeys(topics.values(), (1, 1))
    registry = EmbeddedSchemaRegistry.in_folder(schemas)
    engine = SqlEngine({"auto.offset.reset": "earliest"}, topics=MemoryTopics(known), schema_registry=registry)
    if script == _AVRO:
        registry.register(f"{topics['input']}-value", RegistrySchema(avro.SCHEMA.read_text()))
    text = SCRIPTS[script] if script == _AVRO else _SOURCES + SCRIPTS[script]
    for name, topic in topics.items():
        text = text.replace(f"${{{name}}}", topic)
    engine.script(text)
    (query,) = engine.queries.values()
    return query.topology


def build(given: argparse.Namespace) -> Topology:
    """The topology for a command line."""
    names = ("input", "output", "table")
    topics = {name: topic for name in names if (topic := getattr(given, name)) is not None}
    return topology(given.script, topics, Path(given.state_dir) / "schemas")


if __name__ == "__main__":
    run_topology(build)
