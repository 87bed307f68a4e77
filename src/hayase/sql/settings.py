"""The settings of ksqlDB: which count here, which are accepted without effect, which are refused.

One table drives SET, LIST PROPERTIES and the settings of a query's topology.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from hayase.core.config_table import SETTINGS as SETTINGS_OF_STREAMS
from hayase.core.errors import ConfigError
from hayase.sql.errors import StatementError
from hayase.sql.setting_names import SERVER_SETTINGS

_PREFIX = "ksql."
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
        of_server: it belongs to the configuration of a server or program; SET cannot change it.
    """

    use: Use
    default: str | None
    meaning: str
    of_server: bool = False

    @property
    def is_editable(self) -> bool:
        """Whether SET takes it."""
        return not self.of_server and self.use is not Use.REFUSED


def _honoured(default: str | None, meaning: str) -> Setting:
    return Setting(Use.HONOURED, default, meaning)


def _accepted(default: str | None, meaning: str) -> Setting:
    return Setting(Use.ACCEPTED, default, meaning)


def _refused(meaning: str) -> Setting:
    return Setting(Use.REFUSED, None, meaning)


SETTINGS: Mapping[str, Setting] = {
    "auto.offset.reset": _honoured("latest", "where a query without position begins: earliest or latest"),
    "cache.max.bytes.buffering": _honoured("10485760", "the record cache of aggregations and tables, in bytes"),
    "statestore.cache.max.bytes": _honoured(None, "the newer name of cache.max.bytes.buffering"),
    "commit.interval.ms": _honoured("2000", "how long an epoch collects records"),
    "processing.guarantee": _honoured("exactly_once_v2", "as in Kafka Streams; ksqlDB's default is at_least_once"),
    "ksql.cast.strings.preserve.nulls": _accepted("true", "a null that is cast to STRING is always null"),
    "ksql.create.or.replace.enabled": _honoured("true", "whether CREATE OR REPLACE is allowed"),
    "ksql.fail.on.deserialization.error": _honoured("false", "whether a record that cannot be read stops its query"),
    "ksql.fail.on.production.error": _honoured("true", "whether a record that cannot be written stops its query"),
    "ksql.headers.columns.enabled": _honoured("true", "whether columns of headers are allowed"),
    "ksql.insert.into.values.enabled": _honoured("true", "whether INSERT INTO … VALUES is allowed"),
    "ksql.lambdas.enabled": _accepted("true", "lambdas are always allowed"),
    "ksql.nested.error.set.null": _accepted("true", "an expression that fails is null as a whole"),
    "ksql.new.query.planner.enabled": _honoured("false", "keys of several columns have the order of SELECT"),
    "ksql.output.topic.name.prefix": _honoured("", "what topics of results begin with"),
    "ksql.persistence.default.format.key": _honoured("KAFKA", "the format of keys where WITH has none"),
    "ksql.persistence.default.format.value": _honoured(None, "the format of values where WITH has none"),
    "ksql.persistence.wrap.single.values": _honoured(None, "whether an only value column is a field of a record"),
    "ksql.sink.partitions": _honoured(None, "partitions of topics of results; default: those of the leftmost source"),
    "ksql.sink.replicas": _honoured(None, "replicas of topics of results; default: those of the leftmost source"),
    "ksql.source.table.materialization.enabled": _honoured("true", "whether CREATE SOURCE TABLE keeps its rows"),
    "ksql.suppress.enabled": _honoured("true", "whether EMIT FINAL is allowed"),
    "ksql.suppress.buffer.size.bytes": _accepted("-1", "results that wait for EMIT FINAL are in the state, on disk"),
    "ksql.timestamp.throw.on.invalid": _honoured("false", "whether a bad TIMESTAMP column stops its query"),
    "ksql.variable.substitution.enable": _honoured("true", "whether a server replaces ${name}; a script always does"),
    "ksql.windowed.session.key.legacy": _accepted("false", "keys of sessions are written as Kafka Streams does it"),
    "ksql.query.pull.table.scan.enabled": _honoured("true", "whether a pull query may read all rows of a table"),
    "ksql.query.pull.range.scan.enabled": _honoured("true", "whether a pull query may read a range of keys"),
    "ksql.query.pull.stream.enabled": _honoured("true", "whether a pull query may read a stream to its end"),
    "ksql.query.pull.limit.clause.enabled": _honoured("true", "whether a pull query may have LIMIT"),
    "hayase.query.pull.adhoc.enabled": _honoured("true", "whether pull queries may have joins, groups and ORDER BY"),
    "ksql.query.pull.interpreter.enabled": _accepted("true", "expressions of pull queries are compiled"),
    "ksql.query.push.v2.enabled": _honoured("false", "whether push queries over results of queries have v2's ids"),
    "ksql.logging.processing.rows.include": _honoured("false", "whether the processing log shows the data that failed"),
    "ksql.logging.processing.stream.auto.create": _honoured("false", "whether the processing log is a stream of SQL"),
    "ksql.logging.processing.stream.name": _honoured("KSQL_PROCESSING_LOG", "the name of that stream"),
    "ksql.logging.processing.topic.auto.create": _honoured(
        "true", "whether the topic of the processing log is made; ksqlDB's default is false"
    ),
    "ksql.logging.processing.topic.name": _honoured(
        None, "default: ksql.service.id with ksql_processing_log behind it"
    ),
    "ksql.logging.processing.topic.partitions": _honoured("1", "partitions of that topic"),
    "ksql.logging.processing.topic.replication.factor": _honoured("1", "copies of its partitions"),
    "ksql.runtime.feature.shared.enabled": _accepted("false", "all queries of a script share one runtime"),
    "ksql.extension.dir": _refused("functions are Python modules, not jars; name them with --functions"),
    "ksql.security.extension.class": _refused("Java classes cannot be loaded"),
    "ksql.udfs.enabled": _accepted("true", "functions of modules are on where modules are named"),
    **{
        name: Setting(Use(use), default, meaning, of_server=True)
        for name, (use, default, meaning) in SERVER_SETTINGS.items()
    },
}
"""Settings by name; those that begin with `ksql.streams.` and `ksql.functions.` come beside them."""


def setting_of(name: str) -> Setting:
    """What becomes of a setting of a session.

    Raises:
        StatementError: `UNKNOWN_SETTING`: ksqlDB has no such setting. `REFUSED_SETTING`: Hayase refuses it, or it
            belongs to the configuration of a server.
    """
    found = _find(name)
    if found is None:
        raise StatementError(
            "UNKNOWN_SETTING",
            f"Unknown property: {name}. {_advice(name)}",
        )
    if found.use is Use.REFUSED:
        raise StatementError("REFUSED_SETTING", f"{name} cannot be set: {found.meaning}")
    if found.of_server:
        raise StatementError(
            "REFUSED_SETTING",
            f"Cannot override property '{name}': it belongs to the configuration that a server or program starts with "
            f"({found.meaning}). Give it there, e.g. `hayase sql run … -c {name}=…`",
        )
    return found


def check_configuration(given: Mapping[str, object]) -> list[str]:
    """Check the settings of ksqlDB that a program or server starts with; others are not looked at.

    Returns:
        Warnings: settings that have no effect.

    Raises:
        ConfigError: `UNKNOWN_SETTING`: ksqlDB has no such setting. `REFUSED_SETTING`: Hayase refuses it.
    """
    warnings: list[str] = []
    for name in given:
        if not name.startswith(_PREFIX):
            continue
        found = _find(name)
        if found is None:
            raise ConfigError("UNKNOWN_SETTING", f"there is no setting {name!r}; {_advice(name)}", setting=name)
        if found.use is Use.REFUSED:
            raise ConfigError("REFUSED_SETTING", f"{name} cannot be set: {found.meaning}", setting=name)
        if found.use is Use.ACCEPTED:
            warnings.append(_no_effect(name, found))
    return warnings


def plain_setting_name(name: str) -> str:
    """The name that counts where a setting has two: `auto.offset.reset` for `ksql.streams.auto.offset.reset`."""
    plain = name.removeprefix(STREAMS_PREFIX)
    return plain if plain in SETTINGS else name


def _find(name: str) -> Setting | None:
    return SETTINGS.get(name.removeprefix(STREAMS_PREFIX)) or SETTINGS.get(name) or _with_prefix(name)


def _with_prefix(name: str) -> Setting | None:
    if name.startswith(FUNCTIONS_PREFIX):
        return _honoured(None, "handed to the functions")
    if name.startswith(STREAMS_PREFIX):
        if name.removeprefix(STREAMS_PREFIX) in SETTINGS_OF_STREAMS or name.startswith(_INTERNAL):
            return _honoured(None, "a setting of the topology, see docs/configuration.md")
        return _accepted(None, "Hayase has no setting of Kafka Streams of that name")
    return None


def effective(*layers: Mapping[str, object]) -> dict[str, object]:
    """The settings that count: defaults, with the layers over them, the last one on top."""
    values: dict[str, object] = {
        name: setting.default for name, setting in SETTINGS.items() if setting.default is not None
    }
    for layer in layers:
        values.update(layer)
    return values


def warning_of(name: str) -> str | None:
    """What to tell a user who sets something that has no effect here."""
    setting = setting_of(name)
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
