"""ASSERT TOPIC and ASSERT SCHEMA: waiting until something is there, or is gone."""

from __future__ import annotations

import time
from collections.abc import Callable

from hayase.core.errors import SchemaRegistryError
from hayase.sql.analysis.with_properties import PARTITIONS, REPLICAS, read_properties
from hayase.sql.ast.statements import AssertSchema, AssertTopic
from hayase.sql.errors import StatementError
from hayase.sql.statements.execution import Execution
from hayase.sql.statements.results import StatementResult

_TIMEOUT_MS = 1000
_STEP_S = 0.05


def assert_topic(statement: AssertTopic, execution: Execution) -> StatementResult:
    """Wait for a topic; raises StatementError if it does not come in time, or is another one."""
    properties = read_properties(statement.properties, frozenset({PARTITIONS, REPLICAS}), "ASSERT TOPIC")
    topics = execution.topics
    wanted = {"partitions": properties.number(PARTITIONS), "replicas": properties.number(REPLICAS)}

    def problem() -> str | None:
        partitions = topics.partitions(statement.name)
        if statement.exists != (partitions is not None):
            return f"Topic {statement.name} {'does not exist' if statement.exists else 'exists'}"
        actual = {"partitions": partitions, "replicas": topics.replicas(statement.name)}
        for name, number in wanted.items():
            if statement.exists and number is not None and number != actual[name]:
                return f"Mismatched configuration for topic {statement.name}: {name} {actual[name]}, expected {number}"
        return None

    _wait(problem, statement.timeout_ms)
    return StatementResult(f"Topic {statement.name} {'exists' if statement.exists else 'does not exist'}.")


def assert_schema(statement: AssertSchema, execution: Execution) -> StatementResult:
    """Wait for a schema; raises StatementError if it does not come in time."""
    if execution.registry is None:
        raise StatementError("NO_SCHEMA_REGISTRY", "ASSERT SCHEMA needs a schema registry; none is configured")
    named = {"subject": statement.subject, "id": statement.id}
    what = " ".join(f"{name} {value}" for name, value in named.items() if value is not None)

    def problem() -> str | None:
        if _has_schema(statement, execution) == statement.exists:
            return None
        return f"Schema with {what} {'does not exist' if statement.exists else 'exists'}"

    _wait(problem, statement.timeout_ms)
    return StatementResult(f"Schema with {what} {'exists' if statement.exists else 'does not exist'}.")


def _has_schema(statement: AssertSchema, execution: Execution) -> bool:
    registry = execution.registry
    try:
        if statement.id is not None:
            schema = registry.schema(statement.id)
            return statement.subject is None or registry.lookup(statement.subject, schema).id == statement.id
        registry.latest(statement.subject)
    except SchemaRegistryError as error:
        if error.condition != "SCHEMA_NOT_FOUND":
            raise
        return False
    return True


def _wait(problem: Callable[[], str | None], timeout_ms: int | None) -> None:
    until = time.monotonic() + (_TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000
    while (found := problem()) is not None:
        if time.monotonic() >= until:
            raise StatementError("ASSERTION_FAILED", found)
        time.sleep(_STEP_S)
