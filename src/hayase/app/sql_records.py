"""What the checkpoints of a script's queries remember of its last run: definitions, and schemas that were inferred."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from hayase.core.objects import JsonObject
from hayase.runtime.epochs.terms import newest_term
from hayase.sql.analysis.plan_text import plan_text
from hayase.sql.analysis.steps import sources_of
from hayase.sql.analysis.upgrades import check_upgrade
from hayase.sql.catalog.catalog import Catalog
from hayase.sql.catalog.sources import DataSource
from hayase.sql.catalog.stored import source_from_json, source_to_json
from hayase.sql.errors import StatementError
from hayase.sql.plan.upgrade import StepShape, check_query_upgrade, shapes_of
from hayase.sql.statements.results import PersistentQuery
from hayase.storage.blobs import BlobStore
from hayase.storage.numbered_names import numbers_of
from hayase.task.epoch_record import Epochs

FOLDER = "sql/"
STARTING = "sql/starting/"
"""The definitions that queries are started with, until it is known what became of that."""
_DIGITS = 6


class NumberedJson:
    """A value in a checkpoint, of which the last one counts; each one is a blob with a number.

    Args:
        blobs: the checkpoint.
        folder: in it, ending in `/`.
    """

    def __init__(self, blobs: BlobStore, folder: str) -> None:
        self._blobs = blobs
        self._folder = folder

    def get(self) -> JsonObject | None:
        """The value; `None` if there is none."""
        numbers = self._numbers()
        data = self._blobs.get(self._name(numbers[-1])) if numbers else None
        return None if data is None else json.loads(data)

    def put(self, value: JsonObject) -> None:
        """Keep another value, if it is another one."""
        if value == (self.get() or {}):
            return
        numbers = self._numbers()
        self._blobs.put_if_absent(self._name(max(numbers, default=0) + 1), json.dumps(value).encode())
        for number in numbers:
            self._blobs.delete(self._name(number))

    def _numbers(self) -> list[int]:
        return sorted(numbers_of(self._blobs.list(self._folder), self._folder, _DIGITS, ".json"))

    def _name(self, number: int) -> str:
        return f"{self._folder}{number:0{_DIGITS}}.json"


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """The definition that a query ran with.

    Attributes:
        statement: as SQL.
        plan: its logical plan, as text.
        sources: what it reads, by name.
        sink: what it writes; `None` if it only keeps a table.
        shapes: steps that bind later definitions.
    """

    statement: str
    plan: str
    sources: Mapping[str, DataSource]
    sink: DataSource | None
    shapes: tuple[StepShape, ...]

    @classmethod
    def of(cls, query: PersistentQuery, statement: str, catalog: Catalog) -> QueryRecord:
        """The record of a query whose statement is this one."""
        sources = {each.source.name: each.source for each in sources_of(query.plan)}
        sink = None if query.sink is None or query.sink in sources else catalog.find(query.sink)
        return cls(statement, plan_text(query.plan), sources, sink, shapes_of(query.plan))

    @classmethod
    def from_json(cls, data: JsonObject) -> QueryRecord:
        """A record that `to_json` wrote."""
        return cls(
            data["statement"],
            data["plan"],
            {name: source_from_json(source) for name, source in data["sources"].items()},
            None if data["sink"] is None else source_from_json(data["sink"]),
            tuple(map(StepShape.from_json, data["shapes"])),
        )

    def to_json(self) -> JsonObject:
        """What JSON keeps of it."""
        return {
            "statement": self.statement,
            "plan": self.plan,
            "sources": {name: source_to_json(source) for name, source in self.sources.items()},
            "sink": None if self.sink is None else source_to_json(self.sink),
            "shapes": [shape.to_json() for shape in self.shapes],
        }

    def check_goes_on_as(self, new: QueryRecord, name: str) -> None:
        """Whether the state that this definition left can be used by another one.

        Raises:
            StatementError: `CANNOT_REPLACE`: it cannot, by ksqlDB's rules of CREATE OR REPLACE.
        """
        if (self.plan, self.sources, self.sink) == (new.plan, new.sources, new.sink):
            return
        if self.sources.keys() != new.sources.keys():
            raise StatementError(
                "CANNOT_REPLACE", f"it read {', '.join(self.sources)}, and now reads {', '.join(new.sources)}"
            )
        for source in self.sources:
            check_upgrade(self.sources[source], new.sources[source])
        if self.sink is not None and new.sink is not None:
            check_upgrade(self.sink, new.sink)
        if self.plan != new.plan:
            check_query_upgrade(name, self.shapes, new.shapes)


def check_unchanged_or_replaceable(blobs: BlobStore, new: QueryRecord, name: str, application_id: str) -> None:
    """Compare a query with the definitions that its checkpoint was made with.

    Raises:
        StatementError: `CANNOT_REPLACE`: the state of the query cannot be used by its new definition.
    """
    for data in (NumberedJson(blobs, FOLDER).get(), _begun(blobs)):
        if data is None:
            continue
        old = QueryRecord.from_json(data)
        try:
            old.check_goes_on_as(new, name)
        except StatementError as error:
            what = "what it reads has changed" if old.statement == new.statement else f"it was: {old.statement}"
            raise cannot_go_on(name, application_id, error.message, what) from error


def cannot_go_on(name: str, application_id: str, reason: str, what: str) -> StatementError:
    """`CANNOT_REPLACE` of a query whose checkpoint is of another definition.

    Args:
        name: of the query.
        application_id: of its topology.
        reason: why its state cannot be used.
        what: the difference.
    """
    return StatementError(
        "CANNOT_REPLACE",
        f"the statement cannot be applied: {name} has run with another definition, and cannot go on with this one: "
        f"{reason} ({what}). Write it as it was; or give the result another name, which begins without state; or start "
        f"the query over, with its input read from the beginning: `hayase app reset {application_id}`",
    )


def remember_start(blobs: BlobStore, record: QueryRecord) -> None:
    """Note the definition that a query is about to run with.

    It counts if an epoch is begun with it, be it that the process is killed and settles nothing: an epoch of a term
    that has begun since. Epochs of a run that holds the lease, so that this start comes to nothing, are of an earlier
    one.
    """
    settle_start(blobs)
    if NumberedJson(blobs, FOLDER).get() != record.to_json():
        NumberedJson(blobs, STARTING).put({"term": newest_term(blobs), "record": record.to_json()})


def settle_start(blobs: BlobStore) -> None:
    """Keep the definition that a query was started with if it has begun an epoch; else that has left nothing."""
    begun = _begun(blobs)
    if begun is not None:
        NumberedJson(blobs, FOLDER).put(begun)
    NumberedJson(blobs, STARTING).put({})


def remember(blobs: BlobStore, record: QueryRecord) -> None:
    """Keep the definition that a query runs with."""
    NumberedJson(blobs, FOLDER).put(record.to_json())
    NumberedJson(blobs, STARTING).put({})


def _begun(blobs: BlobStore) -> JsonObject | None:
    """The definition of a start that is not settled, if an epoch was begun with it."""
    started = NumberedJson(blobs, STARTING).get()
    if not started:
        return None
    epochs = Epochs(blobs)
    last = epochs.record(max(epochs.recorded(), default=-1))
    return started["record"] if last is not None and last.term > started["term"] else None
