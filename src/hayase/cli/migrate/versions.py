"""Which migrations a server has: a stream of events, and a table of the last one of each version."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields

from hayase.cli.migrate.project import Migration, Project
from hayase.client import SqlClient, SqlServerError
from hayase.core.errors import ConfigError

NONE = "<none>"
_CURRENT = "CURRENT"
_POLL_S = 0.1
MIGRATED, RUNNING, ERROR, PENDING = "MIGRATED", "RUNNING", "ERROR", "PENDING"


@dataclass(frozen=True)
class Event:
    """What became of a migration; all are texts, as in the stream's columns."""

    version: str
    name: str
    state: str
    checksum: str
    started_on: str = ""
    completed_on: str = ""
    previous: str = NONE
    error_reason: str = ""


_COLUMNS = tuple(each.name for each in fields(Event))


class Versions:
    """The events that a server keeps.

    Args:
        client: of the server.
        project: names the stream and the table.
        wait_s: how long an event that was written may take until the table has it.
    """

    def __init__(self, client: SqlClient, project: Project, wait_s: float = 30.0) -> None:
        self._client = client
        self._project = project
        self._wait_s = wait_s

    def initialize(self) -> None:
        """Make stream and table."""
        project = self._project
        stream_topic, table_topic = project.topics(str(self._client.info()["ksqlServiceId"]))
        replicas = project.settings.get("ksql.migrations.topic.replicas") or "1"
        if not replicas.isdigit():
            raise ConfigError(
                "INVALID_SETTING", f"ksql.migrations.topic.replicas is {replicas!r}; give a number",
                setting="ksql.migrations.topic.replicas",
            )  # fmt: skip
        texts = ", ".join(f"{name} STRING" for name in _COLUMNS)
        latest = ", ".join(f"LATEST_BY_OFFSET({name}) AS {name}" for name in _COLUMNS)
        self._client.execute(
            f"CREATE STREAM {project.stream} (version_key STRING KEY, {texts}) WITH (KAFKA_TOPIC={_text(stream_topic)},"
            f" VALUE_FORMAT='JSON', PARTITIONS=1, REPLICAS={replicas});"
        )
        self._client.execute(
            f"CREATE TABLE {project.table} WITH (KAFKA_TOPIC={_text(table_topic)}) AS SELECT version_key, {latest} "
            f"FROM {project.stream} GROUP BY version_key;",
            {"auto.offset.reset": "earliest"},
        )

    def destroy(self) -> None:
        """Drop table and stream, with their topics."""
        self._client.execute(f"DROP TABLE IF EXISTS {self._project.table} DELETE TOPIC;")
        self._client.execute(f"DROP STREAM IF EXISTS {self._project.stream} DELETE TOPIC;")

    def current(self) -> Event | None:
        """The last event; `None` if there was none."""
        return self._find(_CURRENT)

    def of(self, version: int) -> Event | None:
        """The last event of a version."""
        return self._find(str(version))

    def write(self, event: Event) -> None:
        """Keep an event, as that of its version and as the last one; returns when both can be asked for.

        Raises:
            ConfigError: `NOT_KEPT`: the table does not get it.
        """
        columns = ", ".join(("version_key", *_COLUMNS))
        for key in (_CURRENT, event.version):
            values = ", ".join(_text(each) for each in (key, *(getattr(event, name) for name in _COLUMNS)))
            self._client.execute(f"INSERT INTO {self._project.stream} ({columns}) VALUES ({values});")
        deadline_s = time.monotonic() + self._wait_s
        while self.current() != event or self.of(int(event.version)) != event:
            if time.monotonic() > deadline_s:
                raise ConfigError(
                    "NOT_KEPT", f"table {self._project.table} does not have the state of version {event.version} after "
                    f"{self._wait_s:.0f} s; look whether its query runs, by SHOW QUERIES",
                )  # fmt: skip
            time.sleep(_POLL_S)

    def _find(self, key: str) -> Event | None:
        project = self._project
        try:
            with self._client.query(
                f"SELECT {', '.join(_COLUMNS)} FROM {project.table} WHERE version_key = {_text(key)};"
            ) as rows:
                found = list(rows)
        except SqlServerError as error:
            if "does not exist" in error.message:
                raise ConfigError(
                    "NOT_INITIALIZED", f"the server has no table {project.table}: run `hayase sql migrate "
                    "initialize-metadata` first",
                ) from error  # fmt: skip
            raise
        return None if not found else Event(*(str(found[0][name.upper()] or "") for name in _COLUMNS))


def begun(migration: Migration, previous: Event | None) -> Event:
    """The event of a migration that begins."""
    last = NONE if previous is None else previous.version if previous.state == MIGRATED else previous.previous
    return Event(str(migration.version), migration.name, RUNNING, migration.checksum, now_text(), "", last)


def now_text() -> str:
    """Now, as the columns have it: milliseconds since the epoch."""
    return str(time.time_ns() // 1_000_000)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
