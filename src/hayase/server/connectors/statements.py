"""Statements about connectors: what they ask a Connect worker, and their answers."""

from __future__ import annotations

import dataclasses

from hayase.core.logs import MASK
from hayase.core.secrets import in_clear
from hayase.server.connectors.protocol import ConnectService, ConnectServiceError, Json
from hayase.server.context import ServerContext
from hayase.server.entities.sources import source_description
from hayase.sql.ast import statements as ast
from hayase.sql.ast.expressions import StringLiteral
from hayase.sql.ast.statement_text import statement_text
from hayase.sql.ast.text import expression_text
from hayase.sql.errors import StatementError

Entity = dict[str, object]
_CLASS = "connector.class"
_HIDDEN = "[string]"
_CONFLICT, _NOT_FOUND = 409, 404


def shown_text(statement: ast.Statement, text: str) -> str:
    """The text of a statement as answers repeat it: values of a connector's configuration are hidden but its class."""
    if not isinstance(statement, ast.CreateConnector):
        return text
    properties = tuple(
        (name, value if name == _CLASS else StringLiteral(_HIDDEN)) for name, value in statement.properties
    )
    return statement_text(dataclasses.replace(statement, properties=properties)) + ";"


def check_connector(statement: ast.CreateConnector, connect: ConnectService) -> None:
    """Whether a connector can be made.

    Raises:
        StatementError: its configuration is wrong; all errors are named.
        ConnectServiceError: there is one of that name, or the worker does not answer.
    """
    if _exists(statement.name, connect):
        if statement.if_not_exists:
            return
        raise ConnectServiceError(_CONFLICT, "CONNECTOR_EXISTS", f"Connector {statement.name} already exists")
    config = config_of(statement)
    plugin = config.get(_CLASS)
    if plugin is None:
        raise StatementError(
            "INVALID_CONNECTOR",
            f"Validation error: Connector config of {statement.name} contains no connector type: set connector.class",
        )
    if not plugin.strip():
        raise StatementError("INVALID_CONNECTOR", "Validation error: Connector type cannot be empty")
    try:
        errors = connect.errors(config)
    except ConnectServiceError as error:
        raise _failed("validate connector configuration", error) from error
    if errors:
        raise StatementError("INVALID_CONNECTOR", "Validation error: " + "\n".join(errors))


def create_connector(statement: ast.CreateConnector, connect: ConnectService) -> Entity:
    """Make a connector; raises as `check_connector`."""
    if statement.if_not_exists and _exists(statement.name, connect):
        return {"@type": "warning_entity", "message": f"Connector {statement.name} already exists"}
    check_connector(statement, connect)
    try:
        made = connect.create(config_of(statement))
    except ConnectServiceError as error:
        raise _failed("create connector", error) from error
    info = {**made, "config": {name: _shown(name, str(value)) for name, value in made["config"].items()}}
    return {"@type": "connector_info", "info": info}


def drop_connector(statement: ast.DropConnector, connect: ConnectService) -> Entity:
    """End and forget a connector; raises ConnectServiceError."""
    try:
        connect.delete(statement.name)
    except ConnectServiceError as error:
        if statement.if_exists and error.status == _NOT_FOUND:
            return {"@type": "warning_entity", "message": f"Connector '{statement.name}' does not exist."}
        raise _failed("drop connector", error) from error
    return {"@type": "drop_connector", "connectorName": statement.name}


def describe_connector(context: ServerContext, name: str) -> Entity:
    """The answer of DESCRIBE CONNECTOR, with the streams and tables over its topics; raises ConnectServiceError."""
    connect = context.connect
    try:
        status = connect.status(name)
    except ConnectServiceError as error:
        raise _failed("query connector status", error) from error
    try:
        info = connect.info(name)
        topics = list(connect.topics(name))
    except ConnectServiceError as error:
        raise _failed("describe connector", error) from error
    sources = [source for source in context.engine.catalog if source.topic in topics]
    return {
        "@type": "connector_description",
        "connectorClass": info["config"].get(_CLASS, ""),
        "status": status,
        "sources": [source_description(context, source, extended=False) for source in sources],
        "topics": topics,
    }


def list_connectors(connect: ConnectService, kind: str | None) -> Entity:
    """The answer of LIST CONNECTORS.

    Args:
        connect: the worker.
        kind: `source` or `sink`; `None`: both.

    Raises:
        ConnectServiceError: the worker does not answer.
    """
    try:
        names = connect.names()
    except ConnectServiceError as error:
        raise _failed("list connectors", error) from error
    connectors: list[Entity] = []
    warnings: list[Entity] = []
    for name in names:
        try:
            info = connect.info(name)
            if kind is None or info["type"] == kind:
                connectors.append(
                    {
                        "name": name,
                        "type": info["type"],
                        "className": info["config"].get(_CLASS, ""),
                        "state": summary(connect.status(name)),
                    }
                )
        except ConnectServiceError as error:
            if kind is None:
                connectors.append({"name": name, "type": "unknown"})
            warnings.append({"message": f"Could not describe connector {name}: {error.message}"})
    return {"@type": "connector_list", "warnings": warnings, "connectors": connectors}


def list_plugins(connect: ConnectService) -> Entity:
    """The answer of LIST CONNECTOR PLUGINS; raises ConnectServiceError."""
    try:
        plugins = connect.plugins()
    except ConnectServiceError as error:
        raise _failed("list connector plugins", error) from error
    return {
        "@type": "connector_plugins_list",
        "connectorsPlugins": [
            {"className": each["class"], "type": each["type"], "version": each.get("version")} for each in plugins
        ],
    }


def summary(status: Json) -> str:
    """The state of a connector and its tasks in a few words.

    Example:
        >>> summary({"connector": {"state": "RUNNING"}, "tasks": [{"state": "RUNNING"}, {"state": "FAILED"}]})
        'WARNING (1/2 tasks RUNNING)'
    """
    state = str(status["connector"]["state"])
    if state != "RUNNING":
        return state
    count = len(status["tasks"])
    running = sum(task["state"] == "RUNNING" for task in status["tasks"])
    word = "FAILED" if running == 0 else "WARNING" if running < count else "RUNNING"
    return f"{word} ({running}/{count} tasks RUNNING)"


def config_of(statement: ast.CreateConnector) -> dict[str, str]:
    """The configuration that a statement gives, as texts, with the name."""
    config = {
        name: value.value if isinstance(value, StringLiteral) else expression_text(value).lower()
        for name, value in statement.properties
    }
    return {**config, "name": statement.name}


def _exists(name: str, connect: ConnectService) -> bool:
    try:
        return name in connect.names()
    except ConnectServiceError as error:
        raise _failed("list connectors", error) from error


def _shown(name: str, value: str) -> str:
    return MASK if in_clear(name, value) else value


def _failed(what: str, error: ConnectServiceError) -> ConnectServiceError:
    return ConnectServiceError(error.status, error.condition, f"Failed to {what}: {error.message}")
