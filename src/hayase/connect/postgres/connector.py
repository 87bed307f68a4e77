"""The PostgreSQL source connector."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.connect.config.config_def import ConfigDef, ConfigValue
from hayase.connect.contracts import (
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    Props,
    SourceConnector,
    SourcePartitionKey,
    SourceTask,
)
from hayase.connect.exceptions import ConnectError
from hayase.connect.model import SourceOffset
from hayase.connect.postgres.config import CONFIG, CaptureConfig
from hayase.connect.postgres.database import Database
from hayase.connect.postgres.debezium_keys import refused_keys
from hayase.connect.postgres.offsets import StreamOffset
from hayase.connect.postgres.task import PostgresSourceTask
from hayase.core.errors import ConfigError, MissingRequirementError

_KEYS = {
    "DATABASE_UNREACHABLE": "database.hostname",
    "MISSING_PRIVILEGE": "database.user",
    "WAL_LEVEL": "database.hostname",
    "STANDBY": "database.hostname",
    "UNSUPPORTED_VERSION": "database.hostname",
    "SLOT_OF_OTHERS": "slot.name",
    "NO_PUBLICATION": "publication.name",
    "NO_TABLES": "table.include.list",
    "NO_REPLICA_IDENTITY": "table.include.list",
    "SNAPSHOT_AT_LEAST_ONCE": "snapshot.mode",
}
"""Which key an error of the check belongs to."""


class PostgresConnector(SourceConnector):
    """Captures the tables of a PostgreSQL database as topics of Debezium's events.

    A snapshot of the rows that are there comes first, then every change, exactly once. Configuration, events and
    offsets are Debezium's, so a connector goes on where Debezium's stopped.
    """

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the connector."""
        return CONFIG

    def start(self, props: Props) -> None:
        """Take the configuration."""
        self._props = dict(props)
        CaptureConfig(props)

    def stop(self) -> None:
        """Nothing is held."""

    def task_class(self) -> type[SourceTask]:
        """One slot is read by one task."""
        return PostgresSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One task, whatever `tasks.max` is."""
        return [dict(self._props)]

    def exactly_once_support(self, props: Props) -> ExactlyOnceSupport | None:
        """Every change comes exactly once, and every row of a snapshot: tables without a key are refused.

        Without `required`, tables without a key are read again if their snapshot is interrupted.
        """
        return ExactlyOnceSupport.SUPPORTED

    def can_define_transaction_boundaries(self, props: Props) -> ConnectorTransactionBoundaries:
        """Transactions of the log can be those of the database."""
        return ConnectorTransactionBoundaries.SUPPORTED

    def signal_topic(self, props: Props) -> tuple[str, bytes] | None:
        """The topic of signals, with the key that they have in Debezium."""
        config = CaptureConfig(props)
        return None if config.signal_topic is None else (config.signal_topic, config.prefix.encode())

    def alter_offsets(self, props: Props, offsets: Mapping[SourcePartitionKey, SourceOffset | None]) -> bool:
        """Check that positions can be read; the server is asked when the task starts."""
        prefix = CaptureConfig(props).prefix
        for key, offset in offsets.items():
            partition = dict(key)
            if partition.get("server") != prefix:
                raise ConnectError(
                    "INVALID_OFFSET", f'the source partition is {partition}; allowed is {{"server": "{prefix}"}}'
                )
            if offset is not None and not partition.keys() & {"chunk", "incremental"}:
                StreamOffset.from_offset(offset)
        return True

    def validate(self, props: Props) -> list[ConfigValue]:
        """Check the values, then the database: its settings, privileges, tables."""
        values = super().validate(props)
        values += [ConfigValue(key, props[key], errors=[error]) for key, error in refused_keys(props).items()]
        if any(value.errors for value in values):
            return values
        by_name = {value.name: value for value in values}
        try:
            config = CaptureConfig(props)
        except ConfigError as error:
            by_name[str(error.context.get("setting", "topic.prefix"))].errors.append(error.message)
            return values
        try:
            database = Database(config)
            try:
                database.check()
                database.slot()
                tables = database.captured_tables()
                database.check_identity(tables)
                database.check_snapshot(tables)
            finally:
                database.close()
        except (ConnectError, MissingRequirementError) as error:
            by_name[_KEYS.get(error.condition, "database.hostname")].errors.append(error.message)
        return values
