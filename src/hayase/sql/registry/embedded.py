"""A schema registry in this process: in memory, or in a folder that several processes may use.

It answers what a client of Confluent's REST protocol answers, and holds its changes as a numbered sequence of blobs:
the process that writes the next number first has made the change.
"""

from __future__ import annotations

import itertools
import json
import threading
import weakref
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from hayase.core.errors import ConfigError, SchemaRegistryError
from hayase.serde.avro_schema import load
from hayase.serde.registry import Held, RegisteredSchema, RegistrySchema, SchemaReference, SchemaRegistry
from hayase.sql.formats.protobuf_columns import compiled_schema
from hayase.sql.registry.compatibility import check_level, parsed_avro, problems
from hayase.storage.blobs import BlobStore
from hayase.storage.posix_blobs import PosixBlobs

_FOLDER = "changes/"
_DIGITS = 10
_DEFAULT_LEVEL = "BACKWARD"


@dataclass(slots=True)
class _Version:
    id: int
    deleted: bool = False


@dataclass(slots=True)
class _State:
    """What the changes so far lead to."""

    schemas: dict[int, RegistrySchema] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    subjects: dict[str, dict[int, _Version]] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    last_id: int = 0
    """Of all ids there ever were: records may carry the id of a schema that is gone, so none is given twice."""

    def apply(self, change: Mapping[str, Any]) -> None:
        match change["change"]:
            case "register":
                schema = _schema_of(change["schema"])
                self.schemas[change["id"]] = schema
                self.ids.setdefault(identity(schema), change["id"])
                self.last_id = max(self.last_id, change["id"])
                self.subjects.setdefault(change["subject"], {})[change["version"]] = _Version(change["id"])
            case "level":
                self.levels[change["subject"]] = change["level"]
            case "delete":
                for version in self.subjects[change["subject"]].values():
                    version.deleted = True
            case "purge":
                self.subjects.pop(change["subject"], None)
                used = {version.id for versions in self.subjects.values() for version in versions.values()}
                self.schemas = {each: schema for each, schema in self.schemas.items() if each in used}
                self.ids = {text: each for text, each in self.ids.items() if each in used}

    def live(self, subject: str) -> dict[int, _Version]:
        versions = self.subjects.get(subject, {})
        return {number: version for number, version in versions.items() if not version.deleted}

    def users_of(self, subject: str) -> list[str]:
        """The other subjects with a schema that refers to one of this subject; deleted ones, too: records have ids."""
        return sorted(
            other
            for other, versions in self.subjects.items()
            if other != subject
            and any(
                each.subject == subject for version in versions.values() for each in self.schemas[version.id].references
            )
        )


class EmbeddedSchemaRegistry(SchemaRegistry):
    """A schema registry without a server, for `schema.registry.url` unset, tests and single machines.

    It can be pickled if it is in a folder; one in memory only within its process.

    Args:
        blobs: where its changes are; `None`: in memory.

    Example:
        >>> registry = EmbeddedSchemaRegistry()
        >>> registry.register("words-value", RegistrySchema('"string"'))
        1
        >>> registry.latest("words-value").version
        1
    """

    def __init__(self, blobs: BlobStore | None = None) -> None:
        self._blobs = blobs
        self._number = next(_NUMBERS)
        self._changes: list[dict[str, Any]] = []
        self._state = _State()
        self._lock = threading.RLock()
        if blobs is None:
            _IN_MEMORY[self._number] = self

    @classmethod
    def in_folder(cls, folder: Path) -> Self:
        """The registry of a folder, which is made at the first change."""
        return cls(PosixBlobs(folder))

    @property
    def url(self) -> str:
        """Where it is, for messages."""
        return "embedded:memory" if self._blobs is None else f"embedded:{getattr(self._blobs, 'root', self._blobs)}"

    def __repr__(self) -> str:
        return f"EmbeddedSchemaRegistry({self.url!r})"

    def _key(self) -> tuple[Any, ...]:
        return (self._number,) if self._blobs is None else (self.url,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaRegistry) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        if self._blobs is None:
            return (_in_memory, (self._number,))
        return (EmbeddedSchemaRegistry, (self._blobs,))

    @cached_property
    def _held(self) -> Held:
        return Held()

    @property
    def held(self) -> Held:
        """What serdes made of its schemas."""
        return self._held

    def subjects(self) -> list[str]:
        """All subjects."""
        state = self._read()
        return sorted(subject for subject in state.subjects if state.live(subject))

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject, ascending; raises `SCHEMA_NOT_FOUND` if there is none."""
        return sorted(self._live(subject))

    def schema(self, schema_id: int) -> RegistrySchema:
        """The schema with this id, also if its subject was deleted; raises `SCHEMA_NOT_FOUND`."""
        state = self._state if schema_id in self._state.schemas else self._read()
        if schema_id not in state.schemas:
            raise self._missing(f"a schema with id {schema_id}")
        return state.schemas[schema_id]

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """One version of a subject; raises `SCHEMA_NOT_FOUND`."""
        live = self._live(subject)
        if version not in live:
            raise self._missing(f"version {version} of {subject!r}")
        return self._registered(subject, version)

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject; raises `SCHEMA_NOT_FOUND`."""
        return self._registered(subject, max(self._live(subject)))

    def lookup(self, subject: str, schema: RegistrySchema, *, normalize: bool = False) -> RegisteredSchema:
        """The version of a subject that is this schema; raises `SCHEMA_NOT_FOUND`."""
        wanted = identity(schema)
        for number, version in sorted(self._live(subject).items()):
            if identity(self._state.schemas[version.id]) == wanted:
                return self._registered(subject, number)
        raise self._missing(f"this schema under {subject!r}")

    def register(self, subject: str, schema: RegistrySchema, *, normalize: bool = False) -> int:
        """Make the schema the newest version of the subject, unless it is one of its versions; its id.

        Args:
            subject: where.
            schema: what.
            normalize: means nothing here: white space and the order of a JSON object's fields never matter.

        Raises:
            SchemaRegistryError: `INVALID_SCHEMA`; `SCHEMA_INCOMPATIBLE` with the versions before.
        """
        return self._register(subject, schema, None)

    def register_with_id(self, subject: str, schema: RegistrySchema, schema_id: int) -> int:
        """The same with the id that the schema has in another registry, to copy from there; nothing is compared.

        Raises:
            SchemaRegistryError: `INVALID_SCHEMA`, also if another schema has that id.
        """
        return self._register(subject, schema, schema_id)

    def _register(self, subject: str, schema: RegistrySchema, schema_id: int | None) -> int:
        self._check(schema)
        wanted = identity(schema)
        with self._lock:
            while True:
                state = self._read()
                live = sorted(state.live(subject).items())
                for _, version in live:
                    if identity(state.schemas[version.id]) == wanted and schema_id in (None, version.id):
                        return version.id
                if schema_id is None:
                    self._refuse(subject, [state.schemas[version.id] for _, version in live], schema)
                change = self._registration(state, subject, schema, schema_id)
                if self._write(change):
                    return int(change["id"])

    def _registration(
        self, state: _State, subject: str, schema: RegistrySchema, schema_id: int | None
    ) -> dict[str, Any]:
        if schema_id is not None and identity(state.schemas.get(schema_id, schema)) != identity(schema):
            raise SchemaRegistryError("INVALID_SCHEMA", f"another schema has the id {schema_id}")
        chosen = schema_id or state.ids.get(identity(schema))
        return {
            "change": "register",
            "subject": subject,
            "version": max(state.subjects.get(subject, {}), default=0) + 1,
            "id": state.last_id + 1 if chosen is None else chosen,
            "schema": asdict(schema),
        }

    def is_compatible(self, subject: str, schema: RegistrySchema, version: int | Literal["latest"] = "latest") -> bool:
        """Whether the schema could follow that version under the subject's compatibility level."""
        self._check(schema)
        before = self.latest(subject) if version == "latest" else self.version(subject, version)
        level = self._level(subject).removesuffix("_TRANSITIVE")
        return next(problems(level, [before.schema], schema, self._fetch), None) is None

    def check_registrable(self, subject: str, schema: RegistrySchema) -> None:
        """See SchemaRegistry; with all the versions that the subject's level compares."""
        self._check(schema)
        state = self._read()
        live = sorted(state.live(subject).items())
        self._refuse(subject, [state.schemas[version.id] for _, version in live], schema)

    def compatibility(self, subject: str | None = None) -> str:
        """The compatibility level of a subject, or the one of all that have none of their own.

        Raises:
            SchemaRegistryError: `SCHEMA_NOT_FOUND`: the subject has no level of its own.
        """
        levels = self._read().levels
        if subject is None:
            return levels.get("", _DEFAULT_LEVEL)
        if subject not in levels:
            raise self._missing(f"a compatibility level for {subject!r}")
        return levels[subject]

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the compatibility level."""
        self._change({"change": "level", "subject": subject or "", "level": check_level(level)})

    def delete(self, subject: str, *, permanent: bool = False) -> None:
        """Delete a subject with all versions; records that carry their ids can still be read unless `permanent`.

        Raises:
            SchemaRegistryError: `SCHEMA_NOT_FOUND`; `SCHEMA_REFERENCED`: schemas of other subjects need it.
        """
        state = self._read()
        if not (state.subjects.get(subject) if permanent else state.live(subject)):
            raise self._missing(f"the subject {subject!r}")
        users = state.users_of(subject)
        if users:
            raise SchemaRegistryError(
                "SCHEMA_REFERENCED",
                f"schemas of {', '.join(users)} refer to {subject!r}, and their records could not be read without it; "
                "delete those permanently before",
            )
        if state.live(subject):
            self._change({"change": "delete", "subject": subject})
        if permanent:
            self._change({"change": "purge", "subject": subject})
            self._held.schemas.clear()

    def _level(self, subject: str) -> str:
        levels = self._read().levels
        return levels.get(subject, levels.get("", _DEFAULT_LEVEL))

    def _live(self, subject: str) -> dict[int, _Version]:
        live = self._read().live(subject)
        if not live:
            raise self._missing(f"the subject {subject!r}")
        return live

    def _registered(self, subject: str, version: int) -> RegisteredSchema:
        schema_id = self._state.subjects[subject][version].id
        return RegisteredSchema(schema_id, subject, version, self._state.schemas[schema_id])

    def _missing(self, what: str) -> SchemaRegistryError:
        return SchemaRegistryError("SCHEMA_NOT_FOUND", f"the schema registry {self.url} does not have {what}")

    def _fetch(self, reference: SchemaReference) -> RegistrySchema:
        return self.version(reference.subject, reference.version).schema

    def _check(self, schema: RegistrySchema) -> None:
        try:
            match schema.kind:
                case "AVRO":
                    parsed_avro(schema, self._fetch)
                case "PROTOBUF" if schema.references:
                    compiled_schema(schema, self._fetch)
                case "JSON":
                    json.loads(schema.text)
        except (ConfigError, ValueError) as error:
            raise SchemaRegistryError("INVALID_SCHEMA", f"this is no {schema.kind} schema: {error}") from error

    def _refuse(self, subject: str, before: list[RegistrySchema], schema: RegistrySchema) -> None:
        reason = next(problems(self._level(subject), before, schema, self._fetch), None)
        if reason is not None:
            raise SchemaRegistryError(
                "SCHEMA_INCOMPATIBLE",
                f"the schema cannot follow the versions of {subject!r} under the compatibility level "
                f"{self._level(subject)}: {reason}",
            )

    def _change(self, change: dict[str, Any]) -> None:
        with self._lock:
            while not self._write(change):
                self._read()

    def _write(self, change: dict[str, Any]) -> bool:
        """Make the next change; `False` if another process made one before."""
        with self._lock:
            name = f"{_FOLDER}{len(self._changes):0{_DIGITS}}"
            if self._blobs is not None and not self._blobs.put_if_absent(name, json.dumps(change).encode()):
                return False
            self._changes.append(change)
            self._state.apply(change)
            return True

    def _read(self) -> _State:
        """The state with what other processes changed."""
        with self._lock:
            while self._blobs is not None:
                data = self._blobs.get(f"{_FOLDER}{len(self._changes):0{_DIGITS}}")
                if data is None:
                    break
                self._changes.append(json.loads(data))
                self._state.apply(self._changes[-1])
            return self._state


_NUMBERS = itertools.count(1)
_IN_MEMORY: weakref.WeakValueDictionary[int, EmbeddedSchemaRegistry] = weakref.WeakValueDictionary()


def _in_memory(number: int) -> EmbeddedSchemaRegistry:
    registry = _IN_MEMORY.get(number)
    if registry is None:
        raise ConfigError(
            "INVALID_SETTING",
            "a schema registry in memory exists in one process only; use EmbeddedSchemaRegistry.in_folder, or a server",
        )
    return registry


def identity(schema: RegistrySchema) -> str:
    """A text that equal schemas have in common: white space and the order of a JSON object's fields do not matter."""
    is_text = schema.kind == "PROTOBUF"
    text = " ".join(schema.text.split()) if is_text else json.dumps(load(schema.text), sort_keys=True)
    return json.dumps([schema.kind, text, [asdict(each) for each in schema.references]])


def _schema_of(stored: Mapping[str, Any]) -> RegistrySchema:
    references = tuple(SchemaReference(**each) for each in stored["references"])
    return RegistrySchema(stored["text"], stored["kind"], references)
