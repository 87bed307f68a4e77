"""The common base of serdes with a schema registry: Confluent's wire format, subjects, schema ids.

Wire format: a zero byte, the id of the writer's schema (4 bytes, big-endian), the payload.
"""

from __future__ import annotations

import copy
import struct
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Self, TypedDict, TypeVar

from hayase.core.config_values import boolean
from hayase.core.errors import ConfigError, SchemaRegistryError, SerializationError
from hayase.core.type_variables import T
from hayase.serde.faults import is_fault, said
from hayase.serde.protocol import Serde, Side
from hayase.serde.registry import Kind, RegistrySchema, SchemaReference, SchemaRegistry

M = TypeVar("M")
"""What a serde makes of a schema."""

SubjectNameStrategy = str | Callable[[str, Side, str], str]
"""`TopicNameStrategy`, `RecordNameStrategy`, `TopicRecordNameStrategy`, or a function of (topic, side, record name)."""

_HEAD = struct.Struct(">bI")
HEAD_SIZE = _HEAD.size
"""Bytes before the payload."""
EMPTY_ITEMS = "avro.empty.items.max"
"""The setting of `AvroSerde.empty_items_max`."""

_STRATEGIES: dict[str, Callable[[str, Side, str], str]] = {
    "TopicNameStrategy": lambda topic, side, _: f"{topic}-{side}",
    "RecordNameStrategy": lambda _topic, _side, record: record,
    "TopicRecordNameStrategy": lambda topic, _, record: f"{topic}-{record}",
}


class WriterSettings(TypedDict, total=False):
    """What the serdes take as keyword arguments; WriterOptions says what each means."""

    auto_register_schemas: bool | None
    use_latest_version: bool | None
    normalize_schemas: bool | None
    subject_name_strategy: SubjectNameStrategy | None


class SchemaSettings(WriterSettings, total=False):
    """The same, with what is said of a schema that is given."""

    references: Iterable[SchemaReference]


class ProtobufSettings(SchemaSettings, total=False):
    """The same for Protobuf."""

    message: str | None


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """How a serde finds the id that it writes; `None`: the application's setting, else Kafka's default.

    Attributes:
        auto_register_schemas: register the schema if the subject does not have it; default true.
        use_latest_version: write by the newest version of the subject instead of the serde's own schema.
        normalize_schemas: let the registry bring the schema into one form before it compares.
        subject_name_strategy: how subjects are named; default `TopicNameStrategy`: `<topic>-key`, `<topic>-value`.
    """

    auto_register_schemas: bool | None = None
    use_latest_version: bool | None = None
    normalize_schemas: bool | None = None
    subject_name_strategy: SubjectNameStrategy | None = None

    def __post_init__(self) -> None:
        if self.auto_register_schemas and self.use_latest_version:
            raise ConfigError(
                "INVALID_SETTING", "auto.register.schemas and use.latest.version are both true; they exclude each other"
            )
        _strategy(self.subject_name_strategy)

    @property
    def uses_latest(self) -> bool:
        """Whether the newest version is written, even by a serde with a schema."""
        return bool(self.use_latest_version and not self.auto_register_schemas)

    @property
    def registers(self) -> bool:
        """Whether what is not in the registry is registered."""
        return not self.uses_latest and (self.auto_register_schemas is None or self.auto_register_schemas)

    def with_settings(self, settings: Mapping[str, object], side: Side) -> WriterOptions:
        """These options, completed by the application's settings."""
        options = {each.name: getattr(self, each.name) for each in fields(self)}
        mode_given = self.auto_register_schemas is not None or self.use_latest_version is not None
        for name in ("auto_register_schemas", "use_latest_version", "normalize_schemas"):
            key = name.replace("_", ".")
            if options[name] is None and key in settings and not (mode_given and name != "normalize_schemas"):
                options[name] = boolean(key, settings[key])
        if options["subject_name_strategy"] is None:
            options["subject_name_strategy"] = settings.get(f"{side}.subject.name.strategy")
        return WriterOptions(**options)


class RegistrySerde(Serde[T]):
    """Base of the serdes whose records carry the id of a schema in a registry.

    Args:
        registry: where schemas are; `None`: the one of the application's settings (`schema.registry.url`).
        own: the schema it was given; `None`: it writes by the newest version of the subject.
        options: how the id that is written is found.
    """

    kind: ClassVar[Kind]
    _KEPT: ClassVar[tuple[str, ...]] = ("_registry", "_options", "_topic", "_side", "_own")
    """What makes two serdes of a type equal, and what is pickled; all else is made of it."""

    def __init__(
        self, registry: SchemaRegistry | str | None, own: RegistrySchema | None, options: WriterSettings
    ) -> None:
        self._registry = SchemaRegistry(registry) if isinstance(registry, str) else registry
        self._options = WriterOptions(**options)
        self._topic: str | None = None
        self._side: Side = "value"
        self._own = own
        self._forget()

    def for_topic(self, topic: str, side: Side, settings: Mapping[str, object]) -> Self:
        """A copy that knows its topic, and the application's settings where it was given none."""
        bound = copy.copy(self)
        bound._topic, bound._side = topic, side
        bound._options = self._options.with_settings(settings, side)
        if bound._registry is None and settings.get("url") is not None:
            client = {key: value for key, value in settings.items() if key not in _NOT_OF_THE_CLIENT}
            bound._registry = SchemaRegistry(str(client.pop("url")), client)
        bound._forget()
        return bound

    @property
    def registry(self) -> SchemaRegistry:
        """The registry.

        Raises:
            ConfigError: `MISSING_SETTING`: none was given.
        """
        if self._registry is None:
            raise ConfigError(
                "MISSING_SETTING",
                f"{type(self).__name__} was given no schema registry; set schema.registry.url in the application's "
                "settings, or pass registry=",
                setting="schema.registry.url",
            )
        return self._registry

    @property
    def options(self) -> WriterOptions:
        """How it finds the id that it writes."""
        return self._options

    @property
    def own(self) -> RegistrySchema | None:
        """The schema it was given; `None`: it was given none."""
        return self._own

    @abstractmethod
    def _forget(self) -> None:
        """Drop what was derived from what is kept."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._whole() == other._whole()

    def __hash__(self) -> int:
        return hash((type(self), self._topic, self._side))

    def _whole(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self._KEPT)

    def __getstate__(self) -> tuple[object, ...]:
        return self._whole()

    def __setstate__(self, state: tuple[object, ...]) -> None:
        for name, value in zip(self._KEPT, state, strict=True):
            setattr(self, name, value)
        self._forget()

    def made(self, key: object, make: Callable[[], M]) -> M:
        """What `make` makes, once per process, registry and key."""
        held = self.registry.held.made
        if key not in held:
            held[key] = make()
        answer: M = held[key]
        return answer

    def made_of(self, schema: RegistrySchema, key: object, make: Callable[[], M]) -> M:
        """What `make` makes of a schema that a record was written by, as `made`.

        That it cannot be made is remembered, too.

        Raises:
            SerializationError: `UNUSABLE_SCHEMA`: the registry's schema is none, is too large, or refers to what is not
                there.
            SchemaRegistryError: the registry did not answer when it was asked for what the schema refers to.
        """
        held = self.registry.held
        if key in held.made:
            answer: M = held.made[key]
            return answer
        held.refused.check(key)
        try:
            answer = held.made[key] = make()
        except Exception as error:
            if not (is_fault(error) or getattr(error, "condition", "") in ("INVALID_SCHEMA", "SCHEMA_NOT_FOUND")):
                raise
            refused = SerializationError(
                "UNUSABLE_SCHEMA",
                f"the record was written by a schema of the registry {self.registry.url} by which "
                f"{type(self).__name__} cannot read: {said(error)}; the schema is {schema.text[:200]!r}",
            )
            raise held.refused.add(key, refused) from error
        return answer

    def head(self, schema_id: int) -> bytes:
        """The bytes before the payload."""
        return _HEAD.pack(0, schema_id)

    def schema_id(self, data: bytes) -> int:
        """The id that a record carries; raises SerializationError."""
        if len(data) < HEAD_SIZE or data[0] != 0:
            raise SerializationError(
                "VALUE_NOT_DESERIALIZABLE",
                f"{type(self).__name__} reads a zero byte, a schema id (4 bytes) and the value; it was given "
                f"{len(data)} bytes: {data[:60]!r}. They were not written with a schema registry",
            )
        return int(_HEAD.unpack_from(data)[1])

    def written_schema(self, schema_id: int) -> RegistrySchema:
        """The schema with an id, from the registry once per process.

        Raises:
            SerializationError: `UNKNOWN_SCHEMA_ID`: the registry does not have it; or it is of another kind.
            SchemaRegistryError: the registry did not answer. That is no fault of the record, so no failure policy
                applies.
        """
        known = self.registry.held
        schema = known.schemas.get(schema_id)
        if schema is None:
            known.refused.check(schema_id)
            try:
                schema = self.registry.schema(schema_id)
            except SchemaRegistryError as error:
                if error.condition != "SCHEMA_NOT_FOUND":
                    raise
                raise known.refused.add(schema_id, self._unknown(schema_id)) from error
            known.refused.forget(schema_id)
        if schema.kind != self.kind:
            raise SerializationError(
                "VALUE_NOT_DESERIALIZABLE",
                f"{type(self).__name__} reads {self.kind}; schema id {schema_id} in {self.registry.url} is "
                f"{schema.kind}",
            )
        return schema

    def _unknown(self, schema_id: int) -> SerializationError:
        return SerializationError(
            "UNKNOWN_SCHEMA_ID",
            f"the record carries schema id {schema_id}, which the schema registry {self.registry.url} does not have; "
            "check that schema.registry.url is the registry of the program that wrote it",
        )

    def subject(self, record_name: str) -> str:
        """The subject under which this serde's schema is looked up and registered.

        Raises:
            SerializationError: `TOPIC_UNKNOWN`: the strategy needs the topic and the serde was not made for one.
        """
        strategy = self._options.subject_name_strategy
        if self._topic is None and _strategy(strategy) is not _STRATEGIES["RecordNameStrategy"]:
            raise SerializationError(
                "TOPIC_UNKNOWN",
                f"{type(self).__name__} writes under a subject named after the topic, and does not know its topic; "
                "use serde.for_topic(topic, 'key' or 'value', {}) outside of a topology",
            )
        return _strategy(strategy)(self._topic or "", self._side, record_name)

    def writing(self, own: RegistrySchema | None, record_name: str) -> tuple[int, RegistrySchema]:
        """Id and schema to write by; asked of the registry once per process.

        Args:
            own: the serde's own schema; `None`: it has none, and writes by the newest version.
            record_name: the full name of the type, for the subject.

        Raises:
            SchemaRegistryError: the registry did not answer, refuses the schema or does not have it.
        """
        options = self._options
        subject = self.subject(record_name)
        normalize = bool(options.normalize_schemas)
        if own is None or options.uses_latest:
            key = ("latest", subject)
            latest = self.made(key, lambda: self.registry.latest(subject))
            return latest.id, latest.schema
        if options.registers:
            registered_by = ("registered", subject, own, normalize)
            return self.made(registered_by, lambda: self.registry.register(subject, own, normalize=normalize)), own
        registered = self.made(
            ("found", subject, own, normalize), lambda: self.registry.lookup(subject, own, normalize=normalize)
        )
        return registered.id, own


_NOT_OF_THE_CLIENT = {
    EMPTY_ITEMS,
    *("auto.register.schemas", "use.latest.version", "normalize.schemas"),
    *("key.subject.name.strategy", "value.subject.name.strategy"),
}


def _strategy(given: SubjectNameStrategy | None) -> Callable[[str, Side, str], str]:
    if given is None:
        return _STRATEGIES["TopicNameStrategy"]
    if callable(given):
        return given
    name = given.rpartition(".")[2]  # Java's settings name the class
    if name not in _STRATEGIES:
        raise ConfigError(
            "INVALID_SETTING",
            f"subject_name_strategy is {given!r}; allowed is one of {', '.join(_STRATEGIES)}, or a function of "
            "(topic, side, record name)",
        )
    return _STRATEGIES[name]
