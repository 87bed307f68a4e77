"""The table of next offsets that a sink keeps in the database of its rows: what makes its writes exactly once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from hayase.connect.contracts import Props, SinkPartition, SinkRange, SinkTaskContext
from hayase.connect.generations import SupersededError
from hayase.core.records import TopicPartition

_CREATE = """CREATE TABLE IF NOT EXISTS hayase_offsets (
    consumer_group text NOT NULL, connector text NOT NULL, topic_id text NOT NULL, kafka_partition integer NOT NULL,
    topic text NOT NULL, generation bigint NOT NULL, next_offset bigint,
    PRIMARY KEY (consumer_group, connector, topic_id, kafka_partition)
)"""
_WHERE = "consumer_group = ? AND connector = ? AND topic_id = ? AND kafka_partition = ?"


class Answer(Protocol):
    """What a statement gave: the part of a cursor of Python's database API that is used."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""
        ...

    def fetchone(self) -> Any:
        """The next row."""
        ...


Execute = Callable[[str, Sequence[object]], Answer]
"""Runs a statement with its parameters, in the transaction that is open."""


class OffsetTable:
    """Statements about next offsets; the caller has the transaction.

    Args:
        placeholder: of a parameter in a statement: `?` or `%s`.
        lock: what a SELECT ends with that locks its rows; nothing where a transaction locks the database.
    """

    def __init__(self, placeholder: str, lock: str = "") -> None:
        self._placeholder = placeholder
        self._lock = lock

    def _sql(self, statement: str) -> str:
        return statement.replace("?", self._placeholder)

    def create(self, execute: Execute) -> None:
        """Make the table if it is not there."""
        execute(_CREATE, ())

    def alter(self, execute: Execute, props: Props, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set next offsets of a connector that is stopped.

        Args:
            execute: runs statements.
            props: configuration of the connector.
            offsets: `None`: the sink begins where the consumer group is.
        """
        self.create(execute)
        name = props["name"]
        group = props.get("consumer.override.group.id", f"connect-{name}")
        statement = self._sql(
            "UPDATE hayase_offsets SET next_offset = ? "
            "WHERE consumer_group = ? AND connector = ? AND topic = ? AND kafka_partition = ?"
        )
        for where, offset in sorted(offsets.items()):
            execute(statement, (offset, group, name, where.topic, where.partition))

    def claim(
        self, execute: Execute, context: SinkTaskContext, partitions: Sequence[SinkPartition]
    ) -> dict[SinkPartition, int]:
        """Put the task's generation into the rows of its partitions, and read their next offsets.

        Afterwards tasks of earlier generations move no offset, so they write nothing.

        Raises:
            SupersededError: a later generation has been here.
        """
        found: dict[SinkPartition, int] = {}
        for partition in sorted(partitions):
            place = _place(context, partition)
            execute(
                self._sql("INSERT INTO hayase_offsets VALUES (?, ?, ?, ?, ?, ?, NULL) ON CONFLICT DO NOTHING"),
                (*place, partition.topic, context.generation),
            )
            select = f"SELECT generation, next_offset FROM hayase_offsets WHERE {_WHERE}{self._lock}"
            generation, offset = execute(self._sql(select), place).fetchone()
            if generation > context.generation:
                raise SupersededError(
                    "SUPERSEDED",
                    f"generation {generation} of the connector has written to this database, and this task is of "
                    f"generation {context.generation}",
                    topic=partition.topic,
                    partition=partition.partition,
                )
            execute(self._sql(f"UPDATE hayase_offsets SET generation = ? WHERE {_WHERE}"), (context.generation, *place))
            if offset is not None:
                found[partition] = offset
        return found

    def move(self, execute: Execute, context: SinkTaskContext, each: SinkRange) -> bool:
        """Move the next offset of a range's partition from its start to its end; whether it was at the start."""
        moved = execute(
            self._sql(
                f"UPDATE hayase_offsets SET next_offset = ? WHERE {_WHERE} AND generation = ? "
                "AND (next_offset = ? OR next_offset IS NULL)"
            ),
            (each.end, *_place(context, each.partition), context.generation, each.start),
        )
        return moved.rowcount == 1

    def has_moved(self, execute: Execute, context: SinkTaskContext, each: SinkRange) -> bool:
        """Whether this task itself has moved the offset behind a range, by a commit whose answer was lost."""
        row = execute(
            self._sql(f"SELECT generation, next_offset FROM hayase_offsets WHERE {_WHERE}"),
            _place(context, each.partition),
        ).fetchone()
        return tuple(row or ()) == (context.generation, each.end)


def _place(context: SinkTaskContext, partition: SinkPartition) -> tuple[str, str, str, int]:
    return context.group, context.connector, partition.topic_id, partition.partition
