"""Keys of Debezium that would change events are refused, by the check and by a task."""

from __future__ import annotations

import pytest

from hayase.connect.postgres.config import CaptureConfig
from hayase.connect.postgres.connector import PostgresConnector
from hayase.core.errors import ConfigError

_PROPS = {
    "topic.prefix": "shop", "database.hostname": "localhost", "database.user": "capture", "database.dbname": "shop",
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("column.mask.with.12.chars", "public.users.name"),
        ("column.mask.hash.SHA-256.with.salt.CzQMA0cB5K", "public.users.name"),
        ("message.key.columns", "public.users:name"),
        ("snapshot.select.statement.overrides.public.users", "SELECT * FROM users WHERE id > 5"),
        ("provide.transaction.metadata", "true"),
        ("schema.name.adjustment.mode", "avro"),
    ],
)
def test_a_key_that_asks_for_other_events_is_an_error_at_that_key(key: str, value: str) -> None:
    found = {each.name: each.errors for each in PostgresConnector().validate({**_PROPS, key: value})}
    assert [error for error in found[key] if error.startswith(f"{key} is not supported")] == found[key] != []
    with pytest.raises(ConfigError, match="is not supported") as raised:
        CaptureConfig({**_PROPS, key: value})
    assert raised.value.context["setting"] == key


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("provide.transaction.metadata", "false"),
        ("schema.name.adjustment.mode", "none"),
        ("message.key.columns", ""),
        ("max.queue.size", "16384"),
        ("key.converter", "JsonConverter"),
        ("transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState"),
    ],
)
def test_a_key_that_changes_nothing_is_accepted(key: str, value: str) -> None:
    assert CaptureConfig({**_PROPS, key: value}).prefix == "shop"
