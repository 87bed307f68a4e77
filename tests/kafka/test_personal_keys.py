"""Keys of personal data on a Kafka broker: shared by processes, forgotten by all of them, and compacted away."""

from __future__ import annotations

import time
import uuid

import pytest
from tests.unit.patterns.test_erasure import NAME, Register, account

from hayase.patterns import SubjectKeys
from hayase.testing.kafka_broker import KafkaBroker

pytestmark = pytest.mark.kafka


def keys_on(broker: KafkaBroker, topic: str) -> SubjectKeys:
    keys = SubjectKeys(topic)
    keys.bind({"bootstrap.servers": broker.bootstrap_servers})
    return keys


def test_a_key_that_one_process_deletes_is_forgotten_by_the_other(broker: KafkaBroker) -> None:
    topic = f"keys-{uuid.uuid4().hex[:8]}"
    one, other = keys_on(broker, topic), keys_on(broker, topic)
    data = account(one).command("1", Register("ada", NAME)).data
    assert NAME.encode() not in data
    assert account(other).command_types.decode("Register", data) == Register("ada", NAME)
    assert other.erase("ada") == 1
    deadline = time.monotonic() + 30
    while account(one).command_types.decode("Register", data) != Register("ada", "[erased]", 0):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    one.close()
    other.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_deleted_keys_are_compacted_away_where_nothing_more_is_written(broker: KafkaBroker) -> None:
    keys = keys_on(broker, f"keys-{uuid.uuid4().hex[:8]}")
    for subject in ("ada", "bob"):
        account(keys).command("1", Register(subject, NAME))
    keys.erase("ada")
    assert keys.status("ada").keys_left
    deadline = time.monotonic() + 150
    while not keys.status("ada").done:
        assert time.monotonic() < deadline, keys.status("ada")
        time.sleep(1)
    assert not keys.status("bob").done
    data = account(keys).command("1", Register("bob", NAME)).data
    keys.close()
    again = keys_on(broker, keys.topic)
    assert account(again).command_types.decode("Register", data) == Register("bob", NAME)
    assert again.erase("ada") == 0
    again.close()
