"""The configuration of the PostgreSQL source: Debezium's keys."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import all_of, at_least, between, list_of, matching, non_empty, non_null, one_of
from hayase.connect.postgres.column_types import TypeModes
from hayase.connect.postgres.debezium_keys import refused_keys
from hayase.connect.postgres.text_values import SESSION_OPTIONS
from hayase.core.errors import ConfigError

APPLICATION_NAME = "hayase-capture"
_REGEX_LIST = "regular expressions with commas between, each of which matches a whole name"


def _regexes(name: str, value: object) -> None:
    for pattern in value if isinstance(value, list) else ():
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(
                "INVALID_SETTING", f"{name} has {pattern!r}, which is no regular expression: {error}", setting=name
            ) from error


def _define() -> ConfigDef:
    required = all_of(non_null, non_empty)
    high, medium, low = Importance.HIGH, Importance.MEDIUM, Importance.LOW
    text, number, long, flag, texts = (
        ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN, ConfigType.LIST,
    )  # fmt: skip
    definition = ConfigDef()
    add = definition.define
    add("database.hostname", text, validator=required, importance=high, documentation="Host of the server.")
    add("database.port", number, 5432, between(1, 65535), high, "Port of the server.")
    add("database.user", text, validator=required, importance=high, documentation="User that captures.")
    add("database.password", ConfigType.PASSWORD, None, None, high, "Its password.")
    add("database.dbname", text, validator=required, importance=high, documentation="The database.")
    add("database.sslmode", text, "prefer", None, medium, "TLS, as libpq's `sslmode`: disable, require, verify-full, …")
    add("database.sslrootcert", text, None, None, medium, "File with the certificates that are trusted.")
    add("database.sslcert", text, None, None, medium, "File with the client's certificate.")
    add("database.sslkey", text, None, None, medium, "File with the key of the client's certificate.")
    add(
        "topic.prefix",
        text,
        validator=all_of(required, matching(r"[\w.\-]+", "letters, digits, dots, hyphens and underscores are allowed")),
        importance=high,
        documentation="Begins the names of all topics, and names the server in events and offsets.",
    )
    add(
        "topic.delimiter",
        text,
        ".",
        matching(r"[\w.\-]", "one of . - _ is allowed"),
        low,
        "Stands between parts of topics.",
    )
    add("plugin.name", text, "pgoutput", one_of("pgoutput"), medium, "The output plug-in of the server.")
    add(
        "slot.name", text, "debezium",
        matching(r"[a-z0-9_]{1,63}", "up to 63 lower-case letters, digits and underscores are allowed"),
        medium, "The replication slot; made if it is not there.",
    )  # fmt: skip
    add("publication.name", text, "dbz_publication", required, medium, "The publication whose tables are captured.")
    add(
        "publication.autocreate.mode", text, "all_tables", one_of("disabled", "all_tables", "filtered"), medium,
        "How a missing publication is made: for all tables, for the captured ones (filtered), or not at all.",
    )  # fmt: skip
    for kind, what in (("schema", "schemas"), ("table", "tables, as schema.table"), ("column", "schema.table.column")):
        add(f"{kind}.include.list", texts, [], _regexes, medium, f"What is captured of {what}: {_REGEX_LIST}.")
        add(f"{kind}.exclude.list", texts, [], _regexes, medium, f"What is left out of {what}: {_REGEX_LIST}.")
    add(
        "snapshot.mode", text, "initial", one_of("initial", "initial_only", "no_data", "never", "when_needed"), medium,
        "Whether rows that are there at the start are read: initial: once; initial_only: and then no changes; no_data "
        "or never: only changes; when_needed: also again when the slot has lost changes.",
    )  # fmt: skip
    add("incremental.snapshot.chunk.size", number, 8192, at_least(1), low, "Rows of one chunk of a snapshot.")
    add("max.batch.size", number, 2048, at_least(1), low, "Most records of one poll.")
    add("poll.interval.ms", long, 50, at_least(1), low, "How long a poll waits for changes.")
    add("status.update.interval.ms", number, 10000, at_least(100), low, "How often the server hears of this client.")
    add("heartbeat.interval.ms", number, 0, at_least(0), medium, "How often a heartbeat record is written; 0: never.")
    add(
        "signal.data.collection", text, None, None, medium,
        "A table of the publication, as schema.table, with the columns id, type and data, for signals: "
        "execute-snapshot, stop-snapshot, log.",
    )  # fmt: skip
    add(
        "signal.enabled.channels", texts, ["source"], list_of("source", "kafka"), medium,
        "Where signals come from: source: signal.data.collection; kafka: signal.kafka.topic.",
    )  # fmt: skip
    add(
        "signal.kafka.topic", text, None, None, medium,
        "A topic of one partition in the worker's log, for signals: the key is topic.prefix, the value a JSON object "
        "with type, data and, if wanted, id; default: topic.prefix with -signal.",
    )  # fmt: skip
    for kind in ("include", "exclude"):
        add(
            f"message.prefix.{kind}.list", texts, [], _regexes, low,
            f"Prefixes of logical decoding messages that are {'captured' if kind == 'include' else 'left out'}: "
            f"{_REGEX_LIST}.",
        )  # fmt: skip
    add("topic.heartbeat.prefix", text, "__debezium-heartbeat", required, low, "Begins the topic of heartbeats.")
    add("tombstones.on.delete", flag, True, None, medium, "Whether a delete is followed by a record without value.")
    add(
        "skipped.operations", texts, ["t"], None, low,
        "Kinds of changes that are left out: c (insert), u, d, t (truncate), or none.",
    )  # fmt: skip
    add(
        "decimal.handling.mode", text, "precise", one_of("precise", "double", "string"), medium,
        "How numeric and money become values; precise cannot hold NaN and infinity: errors.tolerance decides.",
    )  # fmt: skip
    add(
        "time.precision.mode", text, "adaptive", one_of("adaptive", "adaptive_time_microseconds", "connect"), medium,
        "How dates and times become values: by the column's precision, or Kafka Connect's own types (milliseconds).",
    )  # fmt: skip
    add(
        "binary.handling.mode", text, "bytes", one_of("bytes", "base64", "base64-url-safe", "hex"), low,
        "How bytea becomes a value.",
    )  # fmt: skip
    add("interval.handling.mode", text, "numeric", one_of("numeric", "string"), low, "How interval becomes a value.")
    add("hstore.handling.mode", text, "json", one_of("json", "map"), low, "How hstore becomes a value.")
    add(
        "include.unknown.datatypes", flag, False, None, medium, "Whether columns of other types are captured, as bytes."
    )
    add(
        "unavailable.value.placeholder", text, "__debezium_unavailable_value", required, medium,
        "Stands for a large value that an update left as it was: the server does not send it.",
    )  # fmt: skip
    return definition


CONFIG = _define()


class NameFilter:
    """Which names are captured.

    Args:
        include: regular expressions, one of which matches the whole name; none: all names.
        exclude: regular expressions, none of which does; looked at only where `include` is empty.

    Example:
        >>> [NameFilter(["public[.].*"], []).matches(name) for name in ("public.users", "audit.users")]
        [True, False]
    """

    def __init__(self, include: list[str], exclude: list[str]) -> None:
        self._include = [re.compile(pattern.strip(), re.IGNORECASE) for pattern in include]
        self._exclude = [re.compile(pattern.strip(), re.IGNORECASE) for pattern in exclude]

    def matches(self, name: str) -> bool:
        """Whether a name is captured."""
        if self._include:
            return any(pattern.fullmatch(name) for pattern in self._include)
        return not any(pattern.fullmatch(name) for pattern in self._exclude)


class CaptureConfig(TypedConfig):
    """The configuration, parsed and checked.

    Raises:
        ConfigError: a value, or values that exclude each other.
    """

    def __init__(self, props: Mapping[str, object]) -> None:
        super().__init__(CONFIG, props)
        for key, error in refused_keys(props).items():
            raise ConfigError("INVALID_SETTING", error, setting=key)
        self.prefix = self.string("topic.prefix")
        self.delimiter = self.string("topic.delimiter")
        self.database = self.string("database.dbname")
        self.slot = self.string("slot.name")
        self.publication = self.string("publication.name")
        self.filters: dict[str, NameFilter] = {}
        for kind in ("schema", "table", "column"):
            include, exclude = self.list(f"{kind}.include.list"), self.list(f"{kind}.exclude.list")
            if include and exclude:
                raise ConfigError(
                    "INVALID_SETTING",
                    f"{kind}.include.list and {kind}.exclude.list are both set; give one of them",
                    setting=f"{kind}.exclude.list",
                )
            self.filters[kind] = NameFilter(include, exclude)
        self.messages = NameFilter(self.list("message.prefix.include.list"), self.list("message.prefix.exclude.list"))
        channels = self.list("signal.enabled.channels")
        self.signal_table = self.optional_string("signal.data.collection") if "source" in channels else None
        topic = self.optional_string("signal.kafka.topic") or f"{self.prefix}-signal"
        self.signal_topic = topic if "kafka" in channels else None
        self.reads_rows = self.string("snapshot.mode") not in ("no_data", "never")
        self.exactly_once = str(props.get("exactly.once.support", "")).lower() == "required"
        self.skipped = frozenset(self.list("skipped.operations")) - {"none"}
        self.modes = TypeModes(
            decimals=self.string("decimal.handling.mode"),
            times=self.string("time.precision.mode"),
            binaries=self.string("binary.handling.mode"),
            intervals=self.string("interval.handling.mode"),
            hstores=self.string("hstore.handling.mode"),
            unknown=self.bool("include.unknown.datatypes"),
            placeholder=self.string("unavailable.value.placeholder"),
        )

    def captures(self, namespace: str, table: str) -> bool:
        """Whether a table is captured."""
        return self.filters["schema"].matches(namespace) and self.filters["table"].matches(f"{namespace}.{table}")

    def captures_column(self, namespace: str, table: str, column: str) -> bool:
        """Whether a column is captured."""
        return self.filters["column"].matches(f"{namespace}.{table}.{column}")

    def topic(self, *parts: str) -> str:
        """A topic below the prefix; characters that topics cannot have become underscores."""
        return re.sub(r"[^a-zA-Z0-9._\-]", "_", self.delimiter.join((self.prefix, *parts)))

    def conninfo(self, *, replication: bool, application_name: str) -> str:
        """The connection string of libpq."""
        from psycopg.conninfo import make_conninfo

        options = " ".join(f"-c {name}={value}" for name, value in SESSION_OPTIONS.items())
        settings: dict[str, str | int | None] = {
            "host": self.string("database.hostname"),
            "port": self.int("database.port"),
            "user": self.string("database.user"),
            "password": self.password("database.password"),
            "dbname": self.database,
            "application_name": application_name,
            "client_encoding": "UTF8",
            "connect_timeout": 10,
            "options": options,
            "sslmode": self.string("database.sslmode"),
            "sslrootcert": self.optional_string("database.sslrootcert"),
            "sslcert": self.optional_string("database.sslcert"),
            "sslkey": self.optional_string("database.sslkey"),
        }
        if replication:
            settings["replication"] = "database"
        return make_conninfo("", **{name: value for name, value in settings.items() if value is not None})
