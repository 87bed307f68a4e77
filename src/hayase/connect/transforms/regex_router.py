"""`RegexRouter`: another topic, by a regular expression."""

from __future__ import annotations

import msgspec

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType, invalid
from hayase.connect.model import ConnectRecord
from hayase.connect.transforms.base import ConfiguredTransform
from hayase.core.errors import HayaseError
from hayase.sql.functions.java.regex import compiled, expanded


def java_regex(name: str, value: object) -> None:
    """A validator: a regular expression of Java."""
    try:
        compiled(str(value or ""))
    except HayaseError as error:
        raise invalid(name, value, f"Invalid regex: {error.message}") from error


class RegexRouter(ConfiguredTransform):
    """Changes the topic by a regular expression that matches all of its name.

    Example:
        >>> from hayase.connect.model import SourceRecord
        >>> router = RegexRouter()
        >>> router.configure({"regex": "shop[.]public[.](.*)", "replacement": "$1"})
        >>> router.apply(SourceRecord(source_partition={}, source_offset={}, topic="shop.public.users")).topic
        'users'
    """

    config_def = (
        ConfigDef()
        .define(
            "regex",
            ConfigType.STRING,
            validator=java_regex,
            importance=Importance.HIGH,
            documentation="Regular expression of Java; topics that it does not match as a whole keep their name.",
        )
        .define(
            "replacement",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="The new name; $1 is the first group.",
        )
    )

    def _setup(self, config: TypedConfig) -> None:
        self._regex = compiled(config.string("regex"))
        self._replacement = config.string("replacement")

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record in its new topic; the same where the name does not match."""
        if self._regex.fullmatch(record.topic) is None:
            return record
        # As replaceFirst: the first match, which need not be the whole name.
        found = self._regex.search(record.topic)
        begin, end = found.span()
        topic = record.topic[:begin] + expanded(found, self._replacement) + record.topic[end:]
        return msgspec.structs.replace(record, topic=topic)
