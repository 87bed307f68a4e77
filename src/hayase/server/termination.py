"""The end of everything that a server runs: POST /ksql/terminate."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hayase.server.context import ServerContext
from hayase.sql.ast.words import name_text
from hayase.sql.catalog.sources import DataSource
from hayase.sql.grammar.parser import parse_statement


def terminate_all(context: ServerContext, delete: Sequence[re.Pattern[str]]) -> dict[str, object]:
    """End all queries and drop all streams, tables and types, by commands as users give them.

    Args:
        context: of the server.
        delete: patterns of the topics that go with what is over them.

    Raises:
        HayaseError: a command could not be carried out; those before it were.
    """
    context.push_queries.close_all()
    commands, engine = context.commands, context.engine
    with commands.lock:
        done = commands.execute(parse_statement("TERMINATE ALL;"), {})
        for source in sorted(engine.catalog, key=lambda each: each.name):
            commands.execute(parse_statement(_drop(source, delete)), {})
        for name in sorted(engine.catalog.types):
            commands.execute(parse_statement(f"DROP TYPE {name_text(name)};"), {})
    return {
        "@type": "currentStatus",
        "statementText": "TERMINATE CLUSTER;",
        "commandId": "cluster/TerminateCluster/terminate",
        "commandStatus": dict(done.status.entity),
        "commandSequenceNumber": commands.last_sequence,
        "warnings": [],
    }


def _drop(source: DataSource, delete: Sequence[re.Pattern[str]]) -> str:
    deletes = not source.is_source and any(pattern.fullmatch(source.topic) for pattern in delete)
    return f"DROP {source.kind.value} {name_text(source.name)}{' DELETE TOPIC' if deletes else ''};"
