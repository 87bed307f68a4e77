"""`ReadModel`: rows of a database that follow the events of an aggregate, or a table of the DSL."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from hayase.core.errors import HayaseError, ProcessingError, StateError
from hayase.core.records import SourceRecord
from hayase.patterns.read_models import registry
from hayase.patterns.read_models.registry import VersionInfo, table_of
from hayase.patterns.read_models.rows import Projection, RowShape, invalid
from hayase.patterns.read_models.sources import EventSource, Source, TableSource
from hayase.patterns.read_models.targets import Session, Target, check_name
from hayase.patterns.reasons import reason_of
from hayase.patterns.replies import EventPosition
from hayase.patterns.user_code import RAISED, failure_of

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.05


class ReadModelBehindError(HayaseError):
    """The read model has not reached a position in time; its rows may lack what lies before it."""


class ReadModel:
    """Rows in PostgreSQL or SQLite that follow events, each exactly once: the query side of CQRS.

    The rows of version n are in the table `<name>_v<n>`, and the view `<name>` shows one version: readers use the view.
    Next offsets are in the same database and change with the rows, in one transaction. A `PatternsApp` with
    `read_models=[…]` runs it, and so does `hayase read-models run`.

    Args:
        name: of the view.
        source: an `EventSourced`, or a `TableSource`.
        project: a function from a `RecordedEvent`, or from a `TableChange`, to rows: an object of the target's row
            type, `Upsert(column=…)` for some columns, `Delete(key=…)`, several of these, or `None`. It may do nothing
            else. Events of one aggregate come in their order; those of several in any: a row belongs to one aggregate.
        target: `PostgresTable` or `SqliteTable`.
        version: raise it when `project` or the rows change. A new version fills a table of its own from the beginning
            while the view shows the old one; then `switch`.
        on_erased: a function from the id of a subject to rows, called when the key of its personal data was deleted.

    Raises:
        TopologyError: `INVALID_READ_MODEL`.

    Example:
        >>> orders = ReadModel("orders", order, project, PostgresTable(OrderRow, "order_id", url))  # doctest: +SKIP
        >>> reply = app.commands(order).send("17", Place("book"))  # doctest: +SKIP
        >>> orders.wait_for(reply.position)  # doctest: +SKIP
    """

    def __init__(
        self,
        name: str,
        source: Any,
        project: Projection,
        target: Target,
        *,
        version: int = 1,
        on_erased: Projection | None = None,
    ) -> None:
        self.name = check_name(name)
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise invalid(f"the version of the read model {name!r} is {version!r}; give a whole number from 1 on")
        self.version = version
        self.table = table_of(name, version)
        self.source: Source = source if isinstance(source, TableSource) else EventSource(source)
        self.target = target
        self.on_erased = on_erased
        self._project = project
        if on_erased is not None and self.source.keys is None:
            raise invalid(f"the read model {name!r} has on_erased, and its source has no personal fields")

    @property
    def shape(self) -> RowShape:
        """The columns of its rows."""
        return self.target.shape

    def changes(self, record: SourceRecord) -> list[tuple[dict[str, object], dict[str, object] | None]]:
        """What a record changes: key and columns of each row; `None` instead of columns: the row is deleted.

        Raises:
            ProcessingError: `EVENT_UNREADABLE`, `UNKNOWN_EVENT_TYPE`, `PROJECTION_FAILED`: with the record named.
        """
        if record.topic != self.source.topic:
            return self._erased(record)
        given = self.source.read(record)
        if given is None:
            return []
        try:
            return self.projected(given)
        except RAISED as error:  # the projection is the user's
            what, reason = getattr(given, "type", "a change"), reason_of(failure_of(error))
            raise ProcessingError(
                "PROJECTION_FAILED",
                f"the read model {self.name!r} cannot take {what}: {reason}",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
            ) from error

    def projected(self, given: object) -> list[tuple[dict[str, object], dict[str, object] | None]]:
        """What an event or a change of a table changes; raises what the projection raises."""
        return list(self.shape.changes(self._project(given)))

    @property
    def topics(self) -> list[str]:
        """What it reads: its source, and with `on_erased` the topic of keys, which says who is erased."""
        keys = self.source.keys
        return [self.source.topic] if self.on_erased is None or keys is None else [self.source.topic, keys.topic]

    def _erased(self, record: SourceRecord) -> list[tuple[dict[str, object], dict[str, object] | None]]:
        keys = self.source.keys
        subject = keys.erased_subject(record) if keys is not None else None
        if subject is None or self.on_erased is None:
            return []
        return list(self.shape.changes(self.on_erased(subject)))

    def wait_for(self, position: EventPosition | None, timeout: timedelta = timedelta(seconds=10)) -> None:
        """Wait until the rows that the view shows have everything before a position: to read one's own writes.

        It asks the database, from any process; the log is not needed. In SQL it is: `next_offset` in `hayase_offsets`,
        of the connector `<name>_v<version>`, the topic's id and the partition, is at least the offset.

        Args:
            position: of a reply, `reply.position`; `None`, of a reply that is not accepted: it returns at once, for
                nothing was recorded.
            timeout: how long to wait; also for a database that is away.

        Raises:
            ReadModelBehindError: `READ_MODEL_BEHIND`: not within the timeout.
            StateError: `POSITION_OF_ANOTHER_TOPIC`: the topic was deleted and made again between the position and what
                the rows have.
            TopologyError: `INVALID_READ_MODEL`: the read model does not read the topic of the position.
        """
        if position is None:
            return
        if position.topic != self.source.topic:
            raise invalid(
                f"the read model {self.name!r} reads {self.source.topic!r}, and the position is one in "
                f"{position.topic!r}; only models that read the events themselves can be waited for"
            )
        give_up_at = time.monotonic() + timeout.total_seconds()
        reason = f"it is not at offset {position.offset} of {position.topic}-{position.partition}"
        while True:
            try:
                with self.target.session() as session:
                    if self._wait(session, position, give_up_at):
                        return
                    break
            except StateError:  # not within any time
                raise
            except HayaseError as error:
                reason = error.message
                if time.monotonic() >= give_up_at:
                    break
                time.sleep(_LONGEST_PAUSE_S)
        raise ReadModelBehindError(
            "READ_MODEL_BEHIND",
            f"the read model {self.name!r} in {self.target.place} is behind after {timeout}: {reason}. "
            "`hayase read-models status` says whether what fills it runs",
            topic=position.topic,
            partition=position.partition,
            offset=position.offset,
        )

    def _wait(self, session: Session, position: EventPosition, give_up_at: float) -> bool:
        pause_s = _FIRST_PAUSE_S
        while not registry.reached(session, self.name, position):
            if time.monotonic() + pause_s > give_up_at:
                return False
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return True

    def versions(self) -> list[VersionInfo]:
        """The versions that the database has, and how far they are.

        Raises:
            RetriableError: the database is away.
        """
        with self.target.session() as session:
            return registry.versions(session, self.name)

    def switch(self, version: int | None = None, *, timeout: timedelta = timedelta(seconds=10)) -> int | None:
        """Have the view show a version from now on, in one transaction; back to an earlier one as well.

        Args:
            version: which; default: that of the program.
            timeout: how long to wait for one that is behind the one that is shown.

        Returns:
            The version that was shown before.

        Raises:
            StateError: `READ_MODEL_NOT_FILLED`: readers would see older rows; `UNKNOWN_VERSION`.
            ConfigError: `READ_MODEL_TABLE_CHANGED`: the table has been dropped.
            RetriableError: the database is away.
        """
        with self.target.session() as session:
            wanted = self.version if version is None else version
            return registry.switch(session, self.target, self.name, wanted, timeout.total_seconds())

    def drop(self, version: int) -> None:
        """Remove the table of a version that the view does not show.

        Raises:
            StateError: `READ_MODEL_SERVED`: the view shows it.
        """
        with self.target.session() as session:
            registry.drop(session, self.name, version)


def read_models_of(namespace: Mapping[str, object]) -> dict[str, ReadModel]:
    """The read models among the values of a module, alone or in lists, by name."""
    found: dict[str, ReadModel] = {}
    for value in namespace.values():
        several: Iterable[object] = value if isinstance(value, (list, tuple)) else (value,)
        found.update((each.name, each) for each in several if isinstance(each, ReadModel))
    return found
