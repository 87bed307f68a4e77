"""The settings of ksqlDB: which count here, which are accepted without effect, which are refused.

One table drives SET, LIST PROPERTIES and the settings of a query's topology.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial

from hayase.core.config_table import SETTINGS as SETTINGS_OF_STREAMS
from hayase.core.errors import ConfigError
from hayase.core.logs import MASK
from hayase.sql import setting_values as values
from hayase.sql.ast.location import Location
from hayase.sql.errors import StatementError
from hayase.sql.setting_names import SERVER_SETTINGS

_USER_INFO = re.compile(r"//[^/?#\s]*@")
_PREFIXES = ("ksql.", "hayase.query.", "hayase.server.")
STREAMS_PREFIX = "ksql.streams."
FUNCTIONS_PREFIX = "ksql.functions."
_INTERNAL = "ksql.streams.__"
OF_STREAMS = {
    "auto.offset.reset": "auto.offset.reset",
    "cache.max.bytes.buffering": "statestore.cache.max.bytes",
    "commit.interval.ms": "commit.interval.ms",
    "processing.guarantee": "processing.guarantee",
    "statestore.cache.max.bytes": "statestore.cache.max.bytes",
}
"""Settings of Kafka Streams that ksqlDB takes without a prefix, by what they are called here."""


class Use(Enum):
    """What becomes of a setting."""

    HONOURED = "honoured"
    ACCEPTED = "accepted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        use: what becomes of it.
        default: its value where it is not set; `None`: unset.
        meaning: what it does, or why it does nothing.
        read: what reads the text of a value; raises ValueError with what is allowed.
        of_server: it belongs to the configuration of a server or program; SET cannot change it.
    """

    use: Use
    default: str | None
    meaning: str
    read: values.Read = values.any_text
    of_server: bool = False

    @property
    def is_editable(self) -> bool:
        """Whether SET takes it."""
        return not self.of_server and self.use is not Use.REFUSED


def _honoured(default: str | None, meaning: str, read: values.Read) -> Setting:
    return Setting(Use.HONOURED, default, meaning, read)


def _accepted(default: str | None, meaning: str, read: values.Read = values.any_text) -> Setting:
    return Setting(Use.ACCEPTED, default, meaning, read)


def _refused(meaning: str) -> Setting:
    return Setting(Use.REFUSED, None, meaning)


def _of_topology(name: str, text: str) -> object:
    """The value of a setting of Kafka Streams."""
    parse = SETTINGS_OF_STREAMS[name][1]
    try:
        return parse(name, text)
    except ConfigError as error:
        raise ValueError(f"allowed is {error.message.rpartition('; allowed is ')[2]}") from error


_ONE_TAIL = "all push queries over a topic read one tail of it"

SETTINGS: Mapping[str, Setting] = {
    "auto.offset.reset": _honoured(
        "latest",
        "where a query without position begins: earliest or latest",
        partial(_of_topology, "auto.offset.reset"),
    ),
    "cache.max.bytes.buffering": _honoured(
        "10485760", "the record cache of aggregations and tables, in bytes", values.whole(0)
    ),
    "statestore.cache.max.bytes": _honoured(None, "the newer name of cache.max.bytes.buffering", values.whole(0)),
    "commit.interval.ms": _honoured(
        "2000", "the time from one epoch to the next while there is input", values.whole(0)
    ),
    "processing.guarantee": _honoured(
        "exactly_once_v2", "as in Kafka Streams; ksqlDB's default is at_least_once", values.guarantee
    ),
    "ksql.cast.strings.preserve.nulls": _accepted(
        "true", "a null that is cast to STRING is always null", values.boolean
    ),
    "ksql.create.or.replace.enabled": _honoured("true", "whether CREATE OR REPLACE is allowed", values.boolean),
    "ksql.fail.on.deserialization.error": _honoured(
        "false", "whether a record that cannot be read stops its query", values.boolean
    ),
    "ksql.fail.on.production.error": _honoured(
        "true", "whether a record that cannot be written stops its query", values.boolean
    ),
    "ksql.headers.columns.enabled": _honoured("true", "whether columns of headers are allowed", values.boolean),
    "ksql.insert.into.values.enabled": _honoured("true", "whether INSERT INTO … VALUES is allowed", values.boolean),
    "ksql.lambdas.enabled": _accepted("true", "lambdas are always allowed", values.boolean),
    "ksql.nested.error.set.null": _accepted("true", "an expression that fails is null as a whole", values.boolean),
    "ksql.new.query.planner.enabled": _honoured(
        "false", "keys of several columns have the order of SELECT", values.boolean
    ),
    "ksql.output.topic.name.prefix": _honoured("", "what topics of results begin with", values.topic_prefix),
    "ksql.persistence.default.format.key": _honoured(
        "KAFKA", "the format of keys where WITH has none", values.format_name
    ),
    "ksql.persistence.default.format.value": _honoured(
        None, "the format of values where WITH has none", values.format_name
    ),
    "ksql.persistence.wrap.single.values": _honoured(
        None, "whether an only value column is a field of a record", values.boolean
    ),
    "ksql.sink.partitions": _honoured(
        None, "partitions of topics of results; default: those of the leftmost source", values.whole(1, values.INT_MAX)
    ),
    "ksql.sink.replicas": _honoured(
        None, "replicas of topics of results; default: those of the leftmost source", values.whole(1, 32767)
    ),
    "ksql.source.table.materialization.enabled": _honoured(
        "true", "whether CREATE SOURCE TABLE keeps its rows", values.boolean
    ),
    "ksql.suppress.enabled": _honoured("true", "whether EMIT FINAL is allowed", values.boolean),
    "ksql.suppress.buffer.size.bytes": _accepted(
        "-1", "results that wait for EMIT FINAL are in the state, on disk", values.whole(-1)
    ),
    "ksql.timestamp.throw.on.invalid": _honoured(
        "false", "whether a bad TIMESTAMP column stops its query", values.boolean
    ),
    "ksql.variable.substitution.enable": _honoured(
        "true", "whether a server replaces ${name}; a script always does", values.boolean
    ),
    "ksql.windowed.session.key.legacy": _accepted(
        "false", "keys of sessions are written as Kafka Streams does it", values.boolean
    ),
    "ksql.query.pull.table.scan.enabled": _honoured(
        "true", "whether a pull query may read all rows of a table", values.boolean
    ),
    "ksql.query.pull.range.scan.enabled": _honoured(
        "true", "whether a pull query may read a range of keys", values.boolean
    ),
    "ksql.query.pull.stream.enabled": _honoured(
        "true", "whether a pull query may read a stream to its end", values.boolean
    ),
    "ksql.query.pull.limit.clause.enabled": _honoured("true", "whether a pull query may have LIMIT", values.boolean),
    "hayase.query.pull.adhoc.enabled": _honoured(
        "true", "whether pull queries may have joins, groups and ORDER BY", values.boolean
    ),
    "ksql.query.pull.interpreter.enabled": _accepted(
        "true", "expressions of pull queries are compiled", values.boolean
    ),
    "ksql.query.push.v2.enabled": _honoured(
        "false", "whether push queries over results of queries have v2's ids", values.boolean
    ),
    "ksql.query.push.v2.catchup.consumer.msg.window": _accepted("50", _ONE_TAIL, values.whole(0)),
    "ksql.query.push.v2.max.catchup.consumers": _accepted("5", _ONE_TAIL, values.whole(0)),
    "ksql.query.pull.max.allowed.offset.lag": _accepted(None, "answers come from the newest epoch", values.whole(0)),
    "ksql.logging.processing.rows.include": _honoured(
        "false", "whether the processing log shows the data that failed", values.boolean
    ),
    "ksql.logging.processing.stream.auto.create": _honoured(
        "false", "whether the processing log is a stream of SQL", values.boolean
    ),
    "ksql.logging.processing.stream.name": _honoured(
        "KSQL_PROCESSING_LOG", "the name of that stream", values.not_empty
    ),
    "ksql.logging.processing.topic.auto.create": _honoured(
        "true", "whether the topic of the processing log is made; ksqlDB's default is false", values.boolean
    ),
    "ksql.logging.processing.topic.name": _honoured(
        None, "default: ksql.service.id with ksql_processing_log behind it", values.topic_name
    ),
    "ksql.logging.processing.topic.partitions": _honoured(
        "1", "partitions of that topic", values.whole(1, values.INT_MAX)
    ),
    "ksql.logging.processing.topic.replication.factor": _honoured(
        "1", "copies of its partitions", values.whole(-1, 32767)
    ),
    "ksql.runtime.feature.shared.enabled": _accepted(
        "false", "all queries of a script share one runtime", values.boolean
    ),
    "ksql.extension.dir": _refused("functions are Python modules, not jars; name them with --functions"),
    "ksql.security.extension.class": _refused("Java classes cannot be loaded"),
    "ksql.udfs.enabled": _accepted("true", "functions of modules are on where modules are named", values.boolean),
    **{
        name: Setting(Use(use), default, meaning, read, of_server=True)
        for name, (use, default, meaning, read) in SERVER_SETTINGS.items()
    },
}
"""Settings by name; those that begin with `ksql.streams.` and `ksql.functions.` come beside them."""


def setting_of(name: str, location: Location | None = None) -> Setting:
    """What becomes of a setting of a session.

    Args:
        name: of the setting.
        location: where a statement names it.

    Raises:
        StatementError: `UNKNOWN_SETTING`: ksqlDB has no such setting. `REFUSED_SETTING`: Hayase refuses it, or it
            belongs to the configuration of a server.
    """
    found = _find(name)
    if found is None:
        raise StatementError(
            "UNKNOWN_SETTING",
            f"Unknown property: {name}. {_advice(name)}",
            location=location,
        )
    if found.use is Use.REFUSED:
        raise StatementError("REFUSED_SETTING", f"{name} cannot be set: {found.meaning}", location=location)
    if found.of_server:
        raise StatementError(
            "REFUSED_SETTING",
            f"Cannot override property '{name}': it belongs to the configuration that a server or program starts with "
            f"({found.meaning}). Give it there, e.g. `hayase sql run … -c {name}=…`",
            location=location,
        )
    return found


def check_setting(name: str, value: object, location: Location | None = None) -> Setting:
    """As `setting_of`, with the value that it is to have.

    Raises:
        StatementError: as of `setting_of`; `INVALID_SETTING`: the value is not allowed.
    """
    found = setting_of(name, location)
    problem = _problem(found, value)
    if problem is not None:
        raise StatementError(
            "INVALID_SETTING",
            f"Invalid value {_shown(value)} for configuration {name}: {problem}",
            location=location,
        )
    return found


def configured_setting(name: str, value: object) -> Setting | None:
    """A setting of the configuration that a program or server starts with; `None`: it is none of SQL.

    Raises:
        ConfigError: `UNKNOWN_SETTING`: ksqlDB has no such setting. `REFUSED_SETTING`: Hayase refuses it.
            `INVALID_SETTING`: the value is not allowed.
    """
    found = _find(name)
    if found is None:
        if name.startswith(_PREFIXES):
            raise ConfigError("UNKNOWN_SETTING", f"there is no setting {name!r}; {_advice(name)}", setting=name)
        return None
    if found.use is Use.REFUSED:
        raise ConfigError("REFUSED_SETTING", f"{name} cannot be set: {found.meaning}", setting=name)
    problem = _problem(found, value)
    if problem is not None:
        raise ConfigError("INVALID_SETTING", f"{name} is {_shown(value)!r}: {problem}", setting=name)
    return found


def check_configuration(given: Mapping[str, object]) -> list[str]:
    """Check the settings of SQL that a program starts with; others are not looked at.

    Returns:
        Warnings: settings that have no effect.

    Raises:
        ConfigError: as of `configured_setting`.
    """
    warnings: list[str] = []
    for name, value in given.items():
        found = configured_setting(name, value)
        if found is not None and found.use is Use.ACCEPTED:
            warnings.append(_no_effect(name, found))
    return warnings


def plain_setting_name(name: str) -> str:
    """The name that counts where a setting has two: `auto.offset.reset` for `ksql.streams.auto.offset.reset`."""
    plain = name.removeprefix(STREAMS_PREFIX)
    return plain if plain in OF_STREAMS else name


def setting_text(value: object) -> str:
    """The text of a value, which a request may give as a boolean or number of JSON."""
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def _shown(value: object) -> object:
    """A value without the user and password of an address."""
    return _USER_INFO.sub(f"//{MASK}@", value) if isinstance(value, str) else value


def _problem(setting: Setting, value: object) -> str | None:
    """Why a value is not allowed; objects of a program, such as functions, are for the topology to check."""
    if not isinstance(value, str | int | float):
        return None
    try:
        setting.read(setting_text(value))
    except ValueError as error:
        return str(error)
    return None


def _find(name: str) -> Setting | None:
    return SETTINGS.get(plain_setting_name(name)) or _with_prefix(name)


def _with_prefix(name: str) -> Setting | None:
    if name.startswith(FUNCTIONS_PREFIX):
        return _honoured(None, "handed to the functions", values.any_text)
    if name.startswith(STREAMS_PREFIX):
        plain = name.removeprefix(STREAMS_PREFIX)
        meaning = "a setting of the topology, see docs/configuration.md"
        if plain in SETTINGS_OF_STREAMS:
            return _honoured(None, meaning, partial(_of_topology, plain))
        if name.startswith(_INTERNAL):
            return _honoured(None, meaning, values.any_text)
        return _accepted(None, "Hayase has no setting of Kafka Streams of that name")
    return None


def effective(*layers: Mapping[str, object]) -> dict[str, object]:
    """The settings that count: defaults, with the layers over them, the last one on top."""
    counting: dict[str, object] = {
        name: setting.default for name, setting in SETTINGS.items() if setting.default is not None
    }
    for layer in layers:
        counting.update(layer)
    return counting


def warning_of(name: str, value: object, location: Location | None = None) -> str | None:
    """What to tell a user who sets something that has no effect here; raises as `check_setting`."""
    setting = check_setting(name, value, location)
    return _no_effect(name, setting) if setting.use is Use.ACCEPTED else None


def _no_effect(name: str, setting: Setting) -> str:
    return f"{name} has no effect: {setting.meaning}"


def _advice(name: str) -> str:
    near = difflib.get_close_matches(name, SETTINGS, n=1)
    suggestion = f"Did you mean {near[0]}? " if near else ""
    return (
        f"{suggestion}LIST PROPERTIES shows all settings; those of queries' topologies begin with {STREAMS_PREFIX}, "
        f"those of functions with {FUNCTIONS_PREFIX}"
    )


def is_on(settings: Mapping[str, object], name: str) -> bool:
    """Whether a setting of true or false is true; without a value its default counts."""
    value = settings.get(name)
    if value is None and name in SETTINGS:
        value = SETTINGS[name].default
    return str(value).lower() == "true"


def streams_config(settings: Mapping[str, object]) -> dict[str, object]:
    """What settings of ksqlDB are for the topology of a query, under the names of Kafka Streams.

    Args:
        settings: those that count, see `effective`.
    """
    config: dict[str, object] = {
        "deserialization.exception.handler": _handler(settings, "ksql.fail.on.deserialization.error"),
        "production.exception.handler": _handler(settings, "ksql.fail.on.production.error"),
        "processing.log.rows.include": is_on(settings, "ksql.logging.processing.rows.include"),
    }
    for name, value in settings.items():
        plain = name.removeprefix(STREAMS_PREFIX)
        if value is None or name.startswith(_INTERNAL):
            continue
        if plain in OF_STREAMS:
            config[OF_STREAMS[plain]] = value
        elif name.startswith(STREAMS_PREFIX) and plain in SETTINGS_OF_STREAMS:
            config[plain] = value
    return config


def _handler(settings: Mapping[str, object], name: str) -> str:
    return "log_and_fail" if is_on(settings, name) else "log_and_continue"
