"""The tables of a read model's versions, the view that shows one of them, and how far each is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from hayase.core.errors import ConfigError, StateError
from hayase.patterns.read_models.targets import Session, Target
from hayase.patterns.replies import EventPosition

_VERSIONS = """CREATE TABLE IF NOT EXISTS hayase_read_models (
    name text NOT NULL, version integer NOT NULL, served integer NOT NULL, PRIMARY KEY (name, version)
)"""


def table_of(name: str, version: int) -> str:
    """The table of a version.

    Example:
        >>> table_of("orders", 2)
        'orders_v2'
    """
    return f"{name}_v{version}"


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """A version of a read model in its database.

    Attributes:
        version: its number.
        served: whether the view shows it.
        offsets: next offset by (topic id, partition).
        topics: ids of the topics that it reads.
    """

    version: int
    served: bool
    offsets: dict[tuple[str, int], int]
    topics: frozenset[str] = frozenset()

    @property
    def position(self) -> int:
        """How many offsets it has behind it, over all partitions."""
        return sum(self.offsets.values())


def prepare(session: Session, target: Target, name: str, version: int) -> None:
    """Make the table of a version, and the view if there is none; check a table that is there.

    Raises:
        ConfigError: `READ_MODEL_TABLE_CHANGED`: it has other columns than the program says.
    """
    table, declared = table_of(name, version), target.shape.columns
    with session.transaction():
        there = session.columns(table)
        known = bool(session.columns("hayase_read_models"))
        registered = known and session.execute(
            "SELECT served FROM hayase_read_models WHERE name = ? AND version = ?", (name, version)
        )
        if registered and not there:
            raise changed(name, version, "has been dropped")
        if not there:
            columns = [f"{column} {target.column_type(each)}" for column, each in declared.items()]
            key = ", ".join(target.shape.key)
            session.execute(f"CREATE TABLE {table} ({', '.join(columns)}, PRIMARY KEY ({key}))")
        else:
            check_columns(session, target, name, version)
        if not known:
            session.execute(_VERSIONS)
        if not registered:
            first = not session.execute("SELECT 1 FROM hayase_read_models WHERE name = ? AND served = 1", (name,))
            session.execute("INSERT INTO hayase_read_models VALUES (?, ?, ?)", (name, version, int(first)))
            if first:
                session.create_view(name, table)


def check_columns(session: Session, target: Target, name: str, version: int) -> None:
    """Refuse a table that has other columns than the program says.

    Columns beside those are allowed: others may add some, with a default or NULL.

    Raises:
        ConfigError: `READ_MODEL_TABLE_CHANGED`.
    """
    there = session.columns(table_of(name, version))
    if not there:
        raise changed(name, version, "has been dropped")
    for column, declared in target.shape.columns.items():
        expected = target.column_type(declared)
        if column not in there:
            raise changed(name, version, f"has no column {column!r}")
        if there[column].lower() != expected.lower():
            raise changed(name, version, f"has the column {column!r} as {there[column]}, not as {expected}")


def changed(name: str, version: int, what: str) -> ConfigError:
    """The error of a table that is not as it was made."""
    return ConfigError(
        "READ_MODEL_TABLE_CHANGED",
        f"the table {table_of(name, version)!r} {what}: it was changed beside the read model, or the type of its rows "
        f"has changed. Fill a new one from the beginning: version={version + 1}, then `hayase read-models switch`",
        read_model=name,
        version=version,
    )


def versions(session: Session, name: str) -> list[VersionInfo]:
    """The versions that the database has, in order."""
    if not session.columns("hayase_read_models"):
        return []
    rows = session.execute("SELECT version, served FROM hayase_read_models WHERE name = ? ORDER BY version", (name,))
    return [
        VersionInfo(version, bool(served), offsets(session, name, version), _topics(session, name, version))
        for version, served in rows
    ]


def _topics(session: Session, name: str, version: int) -> frozenset[str]:
    if not session.columns("hayase_offsets"):
        return frozenset()
    sql = "SELECT DISTINCT topic_id FROM hayase_offsets WHERE connector = ?"
    return frozenset(topic_id for (topic_id,) in session.execute(sql, (table_of(name, version),)))


def offsets(session: Session, name: str, version: int) -> dict[tuple[str, int], int]:
    """How far a version is: next offset by (topic id, partition)."""
    if not session.columns("hayase_offsets"):
        return {}
    rows = session.execute(
        "SELECT topic_id, kafka_partition, next_offset FROM hayase_offsets "
        "WHERE connector = ? AND next_offset IS NOT NULL",
        (table_of(name, version),),
    )
    return {(topic_id, partition): offset for topic_id, partition, offset in rows}


def check_topic(session: Session, name: str, version: int, topic: str, topic_id: str, ends: Mapping[int, int]) -> None:
    """Refuse a table whose offsets are none of the topic: what is in it would be skipped, or added to other rows.

    Args:
        session: of the database.
        name: of the read model.
        version: of its table.
        topic: that it reads.
        topic_id: of the topic.
        ends: the end of each partition.

    Raises:
        ConfigError: `READ_MODEL_OF_ANOTHER_TOPIC`.
    """
    if not session.columns("hayase_offsets"):
        return
    rows = session.execute(
        "SELECT topic_id, kafka_partition, next_offset FROM hayase_offsets "
        "WHERE connector = ? AND topic = ? AND next_offset IS NOT NULL AND next_offset > 0",
        (table_of(name, version), topic),
    )
    for id_, partition, offset in rows:
        if id_ != topic_id:
            what = "was deleted and made again since, or is that of another log"
        elif offset > ends.get(partition, 0):
            what = f"ends at offset {ends.get(partition, 0)} of partition {partition}: it is an older copy"
        else:
            continue
        raise ConfigError(
            "READ_MODEL_OF_ANOTHER_TOPIC",
            f"the table {table_of(name, version)!r} has the records of {topic!r} up to offset {offset} of partition "
            f"{partition}, and the topic {what}. New records would be skipped, or written beside rows that it does not "
            f"have. Fill a new table from the beginning: version={version + 1}, then `hayase read-models switch`",
            read_model=name,
            version=version,
            topic=topic,
        )


def reached(session: Session, name: str, position: EventPosition) -> bool:
    """Whether the served version is at a position.

    Raises:
        StateError: `POSITION_OF_ANOTHER_TOPIC`: it has records of a topic of that name with another id, and none of
            that of the position. Offsets of two topics say nothing of each other, and neither will it be filled from
            the other one: no wait would end.
    """
    if not session.columns("hayase_read_models") or not session.columns("hayase_offsets"):
        return False
    served = session.execute("SELECT version FROM hayase_read_models WHERE name = ? AND served = 1", (name,))
    if not served:
        return False
    table = table_of(name, served[0][0])
    rows = session.execute(
        "SELECT topic_id, kafka_partition, next_offset FROM hayase_offsets WHERE connector = ? AND topic = ? "
        "ORDER BY generation DESC",
        (table, position.topic),
    )
    wanted = position.topic_id
    there = [(partition, at or 0) for id_, partition, at in rows if wanted in ("", id_)]
    others = sorted({id_ for id_, _, at in rows if at and id_ != wanted})
    if wanted and others and not there:
        raise StateError(
            "POSITION_OF_ANOTHER_TOPIC",
            f"the position is one in the topic {position.topic!r} with the id {wanted}, and the table {table!r} has "
            f"the records of one of that name with the id {', '.join(others)}: the topic was deleted and made again in "
            "between, or one of both is that of another log. If the position is the older one, its events are gone; "
            f"else fill a new table from the beginning: version={served[0][0] + 1}, then `hayase read-models switch`",
            read_model=name,
            topic=position.topic,
        )
    at = next((at for partition, at in there if partition == position.partition), 0)
    return bool(at >= position.offset)


def switch(session: Session, target: Target, name: str, version: int, timeout_s: float) -> int | None:
    """Have the view show a version, in one transaction, as soon as it is not behind the one that is shown.

    Returns:
        The version that was shown before.

    Raises:
        StateError: `READ_MODEL_NOT_FILLED`: it is behind, even after the timeout; `UNKNOWN_VERSION`.
        ConfigError: `READ_MODEL_TABLE_CHANGED`.
    """
    give_up_at = time.monotonic() + timeout_s
    while True:
        with session.transaction():
            known = {each.version: each for each in versions(session, name)}
            if version not in known:
                raise StateError(
                    "UNKNOWN_VERSION",
                    f"the read model {name!r} has no version {version} in {target.place}; it has "
                    f"{', '.join(map(str, known)) or 'none'}. Run the program that has it, which fills it",
                )
            before = next((each for each in known.values() if each.served), None)
            behind = 0 if before is None else _behind(known[version], before)
            if not behind:
                if not session.columns(table_of(name, version)):
                    raise changed(name, version, "has been dropped")
                session.execute(
                    "UPDATE hayase_read_models SET served = CASE version WHEN ? THEN 1 ELSE 0 END WHERE name = ?",
                    (version, name),
                )
                session.create_view(name, table_of(name, version))
                return before.version if before is not None else None
        if time.monotonic() > give_up_at:
            raise StateError(
                "READ_MODEL_NOT_FILLED",
                f"version {version} of the read model {name!r} is {behind} offsets behind the version that is "
                "shown: readers would see older rows. Let the program that fills it run, then try again",
            )
        time.sleep(0.05)


def _behind(new: VersionInfo, old: VersionInfo) -> int:
    """How many offsets a version lacks of the topics that both read; of others the old one says nothing."""
    if not new.offsets:
        return old.position
    return sum(
        max(0, offset - new.offsets.get(place, 0)) for place, offset in old.offsets.items() if place[0] in new.topics
    )


def drop(session: Session, name: str, version: int) -> None:
    """Remove the table of a version that is not shown.

    Raises:
        StateError: `READ_MODEL_SERVED`: the view shows it.
    """
    with session.transaction():
        if any(each.version == version and each.served for each in versions(session, name)):
            raise StateError(
                "READ_MODEL_SERVED",
                f"the view {name!r} shows version {version}; switch to another version before it is dropped",
            )
        session.execute(f"DROP TABLE IF EXISTS {table_of(name, version)}")
        if session.columns("hayase_read_models"):
            session.execute("DELETE FROM hayase_read_models WHERE name = ? AND version = ?", (name, version))
        if session.columns("hayase_offsets"):
            session.execute("DELETE FROM hayase_offsets WHERE connector = ?", (table_of(name, version),))
