"""Generated records."""

from __future__ import annotations

import json

import pytest

from hayase.core.errors import ConfigError
from hayase.log.protocol import Log
from hayase.testing.connect import ConnectorTestDriver

PLAIN = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
FIELDS = {"id": {"kind": "sequence", "start": 1}, "city": {"kind": "choice", "of": ["Oslo", "Rome"]}}


def records(log: Log, **props: str) -> list[tuple[object, object]]:
    given = {"connector.class": "DatagenSource", "topic": "made", "fields": json.dumps(FIELDS), "records": "5"}
    more = {key.replace("_", "."): value for key, value in props.items()}
    with ConnectorTestDriver({**given, "records.per.second": "0", **more}, worker=PLAIN, log=log) as connector:
        connector.step()
        connector.kill()
        connector.run_to_end()
        return [
            (json.loads(each.key or b"null"), json.loads(each.value or b"null")) for each in connector.records("made")
        ]


@pytest.mark.long
def test_the_same_seed_makes_the_same_records_whatever_happens_in_between(log: Log) -> None:
    one_by_one = records(log, batch_size="1")
    log.delete_topic("made")
    assert one_by_one == records(log, name="other")
    assert [value["id"] for _, value in one_by_one] == [1, 2, 3, 4, 5]  # type: ignore[index]


@pytest.mark.long
def test_a_field_is_the_key(log: Log) -> None:
    assert [key for key, _ in records(log, key_field="id")] == [1, 2, 3, 4, 5]


def test_fields_that_are_none_are_refused_with_what_is_allowed(log: Log) -> None:
    with pytest.raises(ConfigError, match="sequence"):
        records(log, fields='{"id": {"kind": "number"}}')
