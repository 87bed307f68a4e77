"""A server that executes the statements that it has not executed yet, one by one, then says what it has."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.unit.server.command_servers import server_in

from hayase.server.context import ServerContext
from hayase.server.hosts.protocol import QueryState
from hayase.sql.grammar.parser import parse_statement

STATEMENTS = (
    "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='AVRO', partitions=2);",
    "CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;",
    "CREATE OR REPLACE STREAM c AS SELECT k, v FROM s WHERE v > 1;",
    "PAUSE CTAS_T_0;",
    "DROP STREAM c DELETE TOPIC;",
    "CREATE STREAM c (k STRING KEY, w INT) WITH (kafka_topic='C', value_format='JSON', partitions=3);",
)


def state_of(context: ServerContext) -> dict[str, object]:
    """What must be the same however the server was killed."""
    engine = context.engine
    return {
        "sources": {source.name: f"{source.schema_text} {source.topic}" for source in engine.catalog},
        "queries": {query.id: query.statement for query in engine.queries.values()},
        "paused": [each for each in engine.queries if context.host.status(each).state is QueryState.PAUSED],
        "topics": {name: context.topics.partitions(name) for name in sorted(context.topics.names())},
        "statuses": {name: status.status for name, status in context.commands.statuses.all().items()},
        "last": context.commands.last_sequence,
        "problem": context.commands.problem,
        "subjects": sorted(context.registry.subjects()) if context.registry is not None else [],
    }


def main(folder: Path) -> None:
    """Execute the rest of the statements."""
    with server_in(folder) as context:
        for text in STATEMENTS[context.commands.last_sequence + 1 :]:
            context.commands.execute(parse_statement(text), {})
        print(json.dumps(state_of(context), sort_keys=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
