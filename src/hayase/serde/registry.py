"""A schema registry: its address, what it holds, and the client that asks it.

The protocol is Confluent's REST API, spoken by Confluent's own client. Karapace and Apicurio speak it as well.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, TypeVar, get_args
from urllib.parse import urlsplit, urlunsplit

from hayase.core.errors import ConfigError, MissingRequirementError, SchemaRegistryError, SerializationError
from hayase.core.logs import without_secrets
from hayase.core.secrets import Settings, is_reference, known_secrets, resolve, resolved, seal
from hayase.serde.registry_answers import limit_answers

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import RegisteredSchema as ClientRegistration
    from confluent_kafka.schema_registry import Schema as ClientSchema
    from confluent_kafka.schema_registry import SchemaReference as ClientReference
    from confluent_kafka.schema_registry import SchemaRegistryClient

Kind = Literal["AVRO", "PROTOBUF", "JSON"]
"""What a schema is written in."""

T = TypeVar("T")
"""What a request answers."""

_NUMBERS: dict[str, type[int] | type[float]] = {
    "cache.capacity": int,
    "cache.latest.ttl.sec": float,
    "max.retries": int,
    "retries.max.wait.ms": int,
    "retries.wait.ms": int,
    "timeout": float,
}
_TEXTS = (
    "basic.auth.user.info",
    "proxy",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
_DEFAULTS = {"timeout": 30.0}
_REFUSED_FIRST_S, _REFUSED_LAST_S = 5.0, 300.0
_REFUSALS_MAX = 10_000
REFERENCES_MAX = 500
"""How many others a schema of a registry may refer to, directly or over others: each is a request."""
_CONDITIONS = {
    401: "SCHEMA_REGISTRY_REFUSED",
    403: "SCHEMA_REGISTRY_REFUSED",
    404: "SCHEMA_NOT_FOUND",
    409: "SCHEMA_INCOMPATIBLE",
    422: "INVALID_SCHEMA",
}


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A reference from a schema to another one of the registry.

    Attributes:
        name: how the schema that refers calls it: a full record name (Avro), a file (Protobuf), a URL (JSON Schema).
        subject: where it is registered.
        version: which of the subject's versions.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegistrySchema:
    """The text of a schema, as a registry holds it.

    Attributes:
        text: the schema.
        kind: `AVRO`, `PROTOBUF` or `JSON`.
        references: the schemas it uses.
    """

    text: str
    kind: Kind = "AVRO"
    references: tuple[SchemaReference, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A version of a subject.

    Attributes:
        id: the number that records carry.
        subject: where it is registered.
        version: its place in the subject, from 1; `None` where the registry does not say.
        schema: the schema.
    """

    id: int
    subject: str
    version: int | None
    schema: RegistrySchema


class SchemaRegistry:
    """A schema registry: address and credentials.

    Immutable. May be pickled, credentials included (inside an application that is shipped, references to them);
    connections and what was fetched are kept once per process and shared by all equal instances. Needs the packages of
    the extra `schema-registry`. Values may hold references, `${env:NAME}` for example, resolved by the process that
    connects.

    Args:
        url: `http://` or `https://`; several with commas between are tried in turn.
        settings: of Confluent's client, by its own names: `basic.auth.user.info` (`user:password`), `ssl.ca.location`,
            `ssl.certificate.location`, `ssl.key.location`, `ssl.key.password`, `bearer.auth.…`, `proxy`, `timeout`
            (seconds for one request, default 30), `max.retries` (default 3), `retries.wait.ms`, `retries.max.wait.ms`,
            `cache.capacity`, `cache.latest.ttl.sec`.

    Raises:
        ConfigError: `UNKNOWN_SETTING`, `INVALID_SETTING`.

    Example:
        >>> SchemaRegistry("https://user:secret@registry.example:8081", {"max.retries": "1"})
        SchemaRegistry('https://registry.example:8081')
    """

    def __init__(self, url: str, settings: Mapping[str, object] | None = None) -> None:
        addresses = [part.strip() for part in url.split(",")] if isinstance(url, str) else []
        if not addresses or not (
            is_reference(url) or all(urlsplit(part).scheme in ("http", "https") for part in addresses)
        ):
            raise ConfigError(
                "INVALID_SETTING",
                f"schema.registry.url is {without_credentials(str(url))!r}; allowed is http://HOST:PORT or "
                "https://HOST:PORT, or several of them with commas between",
                setting="schema.registry.url",
            )
        self._url = ",".join(addresses)
        self._settings = Settings(
            {**_DEFAULTS, **{key: _checked(key, value) for key, value in (settings or {}).items()}}
        )

    @property
    def url(self) -> str:
        """The address, without credentials."""
        with contextlib.suppress(ConfigError):
            return without_credentials(resolve("schema.registry.url", self._url))
        return self._url

    def given(self) -> tuple[str, dict[str, object]]:
        """Address and settings, credentials included; references are not resolved. Never show or log them."""
        return self._url, {key: value for key, value in self._settings.items() if value != _DEFAULTS.get(key)}

    def __repr__(self) -> str:
        return f"SchemaRegistry({self.url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaRegistry) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._url)

    def __reduce__(self) -> tuple[object, ...]:
        return (SchemaRegistry, (_sealed(self._url), self._settings))

    def _key(self) -> tuple[object, ...]:
        return (self._url, *sorted(self._settings.items()))

    def subjects(self) -> list[str]:
        """All subjects; raises SchemaRegistryError, as every request does."""
        return sorted(self._ask(lambda client: client.get_subjects(), "list the subjects"))

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject, ascending; raises `SCHEMA_NOT_FOUND` if there is none."""
        return sorted(self._ask(lambda client: client.get_versions(subject), f"list the versions of {subject!r}"))

    def schema(self, schema_id: int) -> RegistrySchema:
        """The schema with this id. Asked once per process.

        Raises:
            SchemaRegistryError: `SCHEMA_NOT_FOUND`; or the registry cannot be reached, refuses or fails.
        """
        held = self.held.schemas
        if schema_id not in held:
            answer = self._ask(lambda client: client.get_schema(schema_id), f"fetch the schema with id {schema_id}")
            try:
                held[schema_id] = _schema_of(answer)
            except SchemaRegistryError:
                self._held_of_server().client.clear_caches()  # it keeps what it was answered
                raise
        return held[schema_id]

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """One version of a subject. Asked once per process."""
        what = f"fetch version {version} of {subject!r}"
        return _registered(self._ask(lambda client: client.get_version(subject, version), what))

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject."""
        what = f"fetch the latest version of {subject!r}"
        return _registered(self._ask(lambda client: client.get_version(subject, "latest"), what))

    def lookup(self, subject: str, schema: RegistrySchema, *, normalize: bool = False) -> RegisteredSchema:
        """The version of a subject that is this schema; raises `SCHEMA_NOT_FOUND` if it was never registered there."""
        given = _client_schema(schema)
        what = f"look up a schema in {subject!r}"
        return _registered(self._ask(lambda client: client.lookup_schema(subject, given, normalize), what))

    def register(self, subject: str, schema: RegistrySchema, *, normalize: bool = False) -> int:
        """Make the schema the newest version of the subject, unless it is one of its versions; its id.

        Raises:
            SchemaRegistryError: `SCHEMA_INCOMPATIBLE` with the versions before, `INVALID_SCHEMA`.
        """
        given = _client_schema(schema)
        what = f"register a schema under {subject!r}"
        return int(self._ask(lambda client: client.register_schema(subject, given, normalize), what))

    def is_compatible(self, subject: str, schema: RegistrySchema, version: int | Literal["latest"] = "latest") -> bool:
        """Whether the schema could follow that version under the subject's compatibility level."""
        given = _client_schema(schema)
        what = f"test a schema against {subject!r}"
        return bool(self._ask(lambda client: client.test_compatibility(subject, given, version), what))

    def check_registrable(self, subject: str, schema: RegistrySchema) -> None:
        """Refuse what `register` would refuse, as far as the registry says so without registering.

        Raises:
            SchemaRegistryError: `SCHEMA_INCOMPATIBLE` with the newest version of the subject, `INVALID_SCHEMA`.
        """
        try:
            fits = self.is_compatible(subject, schema)
        except SchemaRegistryError as error:
            if error.condition != "SCHEMA_NOT_FOUND":
                raise
            return  # the subject is new
        if not fits:
            raise SchemaRegistryError(
                "SCHEMA_INCOMPATIBLE",
                f"the schema registry {self.url} says that the schema is not compatible with the newest version of "
                f"{subject!r}",
            )

    def compatibility(self, subject: str | None = None) -> str:
        """The compatibility level of a subject, or the one of all that have none of their own."""
        return str(self._ask(lambda client: client.get_compatibility(subject), "ask for the compatibility level"))

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the compatibility level: `BACKWARD`, `FORWARD`, `FULL` (each also `…_TRANSITIVE`) or `NONE`."""
        self._ask(lambda client: client.set_compatibility(subject, level), f"set the compatibility level to {level!r}")

    def delete(self, subject: str, *, permanent: bool = False) -> None:
        """Delete a subject with all versions; records that carry their ids can still be read unless `permanent`."""
        self._ask(lambda client: client.delete_subject(subject), f"delete {subject!r}")
        if permanent:
            self._ask(lambda client: client.delete_subject(subject, True), f"delete {subject!r} permanently")

    @property
    def held(self) -> Held:
        """The schemas that this process has cached."""
        return self._held_of_server()

    def _held_of_server(self) -> _HeldOfServer:
        key = (os.getpid(), self._key())
        with _LOCK:
            answers = _HELD.get(key)
            if answers is None:
                answers = _HELD[key] = _HeldOfServer(client=self._connect())
            return answers

    def _connect(self) -> SchemaRegistryClient:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ImportError as error:
            raise MissingRequirementError(
                "PACKAGE_MISSING", f"a schema registry needs the extra: pip install 'hayase[schema-registry]' ({error})"
            ) from error
        settings = resolved({"url": self._url, **self._settings})
        try:
            client = SchemaRegistryClient(settings)
            limit_answers(client, float(str(settings["timeout"])))
            return client
        except (ValueError, TypeError, OSError) as error:
            text = f"settings of the schema registry {self.url}: {self._masked(error)}"
            raise ConfigError("INVALID_SETTING", text) from error

    def _masked(self, error: Exception) -> str:
        return without_secrets(str(error) or type(error).__name__, known_secrets({"url": self._url, **self._settings}))

    def _ask(self, request: Callable[[SchemaRegistryClient], T], what: str) -> T:
        from confluent_kafka.schema_registry import SchemaRegistryError as Refused

        client = self._held_of_server().client
        try:
            return request(client)
        except SchemaRegistryError:
            raise
        except Refused as error:
            condition = _CONDITIONS.get(error.http_status_code, "SCHEMA_REGISTRY_FAILED")
            message = f"the schema registry {self.url} was asked to {what} and answered {error.http_status_code}: "
            raise SchemaRegistryError(condition, message + str(error.error_message)) from error
        except Exception as error:  # of the HTTP client, the TLS library, the token source
            raise SchemaRegistryError(
                "SCHEMA_REGISTRY_UNREACHABLE",
                f"the schema registry {self.url} could not be asked to {what}: {self._masked(error)}; "
                "check schema.registry.url, that the registry runs, and its TLS settings",
            ) from error


def check_references(count: int) -> None:
    """Raises ConfigError `INVALID_SCHEMA` for a schema that refers, over others, to more than REFERENCES_MAX."""
    if count > REFERENCES_MAX:
        raise ConfigError("INVALID_SCHEMA", f"the schema refers to more than {REFERENCES_MAX} other ones")


class Refusals:
    """Schemas that the registry does not have, or that cannot be used.

    Asked for again after 5 seconds, then 10, up to 5 minutes.

    Args:
        now: seconds of a clock that only goes forward.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._found: dict[object, tuple[float, float, str, str]] = {}  # until when, how long, condition, message

    def check(self, key: object) -> None:
        """Raises SerializationError if this was refused and it is not yet time to ask again."""
        refusal = self._found.get(key)
        if refusal is not None and refusal[0] > self._now():
            raise SerializationError(*refusal[2:])

    def add(self, key: object, error: SerializationError) -> SerializationError:
        """Remember that something was refused; the error, to be raised."""
        before = self._found.pop(key, None)
        seconds = _REFUSED_FIRST_S if before is None else min(2 * before[1], _REFUSED_LAST_S)
        self._found[key] = (self._now() + seconds, seconds, error.condition, error.message)
        if len(self._found) > _REFUSALS_MAX:  # ids of a stream of garbage: the oldest go
            del self._found[next(iter(self._found))]
        return error

    def forget(self, key: object) -> None:
        """It is there now."""
        self._found.pop(key, None)

    def __len__(self) -> int:
        return len(self._found)


@dataclass(slots=True)
class Held:
    """What one process holds of a registry.

    Attributes:
        schemas: by id.
        made: what serdes made of schemas, by their own keys.
        refused: ids that the registry does not have, and what serdes could not make of schemas.
    """

    schemas: dict[int, RegistrySchema] = field(default_factory=dict)
    made: dict[object, Any] = field(default_factory=dict)
    refused: Refusals = field(default_factory=Refusals)


@dataclass(slots=True, kw_only=True)
class _HeldOfServer(Held):
    """What one process holds of a registry that is a server, with Confluent's client of it."""

    client: SchemaRegistryClient


_HELD: dict[tuple[object, ...], _HeldOfServer] = {}  # by process: sockets do not survive a fork
_LOCK = threading.Lock()


def _forget_inherited() -> None:
    global _LOCK  # noqa: PLW0603 - a thread of the parent may have held it while it connected
    _LOCK = threading.Lock()


os.register_at_fork(after_in_child=_forget_inherited)


def _checked(key: str, value: object) -> object:
    if key in _NUMBERS:
        try:
            return _NUMBERS[key](value)  # type: ignore[call-overload, arg-type] # what is no number is refused
        except (TypeError, ValueError) as error:
            raise ConfigError(
                "INVALID_SETTING", f"{key} of the schema registry is {value!r}; allowed is a number"
            ) from error
    if key in _TEXTS or key.startswith("bearer.auth."):
        return value
    near = difflib.get_close_matches(key, [*_NUMBERS, *_TEXTS], n=1, cutoff=0.6)
    advice = f"did you mean {near[0]!r}?" if near else f"allowed are {', '.join(sorted((*_NUMBERS, *_TEXTS)))}"
    raise ConfigError("UNKNOWN_SETTING", f"there is no setting {key!r} of a schema registry; {advice}")


def without_credentials(url: str) -> str:
    """Addresses without user and password.

    Example:
        >>> without_credentials("http://ada:secret@a:8081,http://b:8081")
        'http://a:8081,http://b:8081'
    """
    parts = (urlsplit(part) for part in url.split(","))
    return ",".join(urlunsplit(part._replace(netloc=part.netloc.rpartition("@")[2])) for part in parts)


def _sealed(url: str) -> str:
    return url if is_reference(url) or without_credentials(url) == url else seal(url)


def _is_kind(kind: str) -> TypeGuard[Kind]:
    return kind in get_args(Kind)


def _client_schema(schema: RegistrySchema) -> ClientSchema:
    from confluent_kafka import schema_registry as confluent

    references = [confluent.SchemaReference(each.name, each.subject, each.version) for each in schema.references]
    return confluent.Schema(schema.text, schema.kind, references)


def _schema_of(answer: ClientSchema) -> RegistrySchema:
    kind = answer.schema_type or "AVRO"
    if not isinstance(answer.schema_str, str) or not _is_kind(kind):
        raise SchemaRegistryError(
            "SCHEMA_REGISTRY_FAILED",
            f"the schema registry answered without a schema (text {answer.schema_str!r:.60}, type {kind!r:.60}): is "
            "schema.registry.url that of a registry, and has it started?",
        )
    references = tuple(map(_reference, answer.references or ()))
    return RegistrySchema(answer.schema_str, kind, references)


def _reference(answer: ClientReference) -> SchemaReference:
    if answer.name is None or answer.subject is None or answer.version is None:
        raise SchemaRegistryError(
            "SCHEMA_REGISTRY_FAILED", f"the schema registry answered with an incomplete reference: {answer!r:.200}"
        )
    return SchemaReference(answer.name, answer.subject, answer.version)


def _registered(answer: ClientRegistration) -> RegisteredSchema:
    schema = _schema_of(answer.schema)
    if answer.schema_id is None:
        raise SchemaRegistryError("SCHEMA_REGISTRY_FAILED", "the schema registry answered without the id of the schema")
    return RegisteredSchema(answer.schema_id, answer.subject or "", answer.version, schema)
