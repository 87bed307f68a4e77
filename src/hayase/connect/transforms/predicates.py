"""Predicates of Kafka: `HasHeaderKey`, `RecordIsTombstone`, `TopicNameMatches`."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import all_of, non_empty, non_null
from hayase.connect.contracts import Predicate
from hayase.connect.model import ConnectRecord
from hayase.connect.transforms.regex_router import java_regex
from hayase.sql.functions.java.regex import compiled


class HasHeaderKey(Predicate):
    """Whether a record has a header of a name."""

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the predicate."""
        return _HEADER

    def configure(self, props: Mapping[str, object]) -> None:
        """Take the name of the header."""
        self._name = TypedConfig(_HEADER, props).string("name")

    def test(self, record: ConnectRecord) -> bool:
        """Whether it has."""
        return any(header.key == self._name for header in record.headers)


class RecordIsTombstone(Predicate):
    """Whether a record has no value."""

    def test(self, record: ConnectRecord) -> bool:
        """Whether it has none."""
        return record.value is None


class TopicNameMatches(Predicate):
    """Whether a regular expression matches the name of a record's topic as a whole."""

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the predicate."""
        return _TOPIC

    def configure(self, props: Mapping[str, object]) -> None:
        """Take the regular expression."""
        self._regex = compiled(TypedConfig(_TOPIC, props).string("pattern"))

    def test(self, record: ConnectRecord) -> bool:
        """Whether it matches."""
        return self._regex.fullmatch(record.topic) is not None


_HEADER = ConfigDef().define(
    "name",
    ConfigType.STRING,
    validator=all_of(non_null, non_empty),
    importance=Importance.MEDIUM,
    documentation="Name of the header.",
)
_TOPIC = ConfigDef().define(
    "pattern",
    ConfigType.STRING,
    validator=all_of(non_null, non_empty, java_regex),
    importance=Importance.MEDIUM,
    documentation="Regular expression of Java that matches the whole name of a topic.",
)
