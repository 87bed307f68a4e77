"""Captured events are those of Debezium's own connector, except for versions, times and listed deviations."""

from __future__ import annotations

import json
import lzma
import random
import shutil
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.postgres.debezium_capture import Comparable, capture_both, capture_ours, comparable, without_columns
from tests.postgres.debezium_workload import Workload, columns_of_the_moment, random_workload

from hayase.testing.connect_worker import DEBEZIUM_POSTGRES, KafkaConnectWorker
from hayase.testing.kafka_broker import KafkaBroker
from hayase.testing.postgres_server import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900)]
HERE = Path(__file__).parent
DEVIATIONS: Mapping[str, str] = tomllib.loads((HERE / "debezium_deviations.toml").read_text("utf-8"))


@cache
def recorded() -> list[dict[str, Any]]:
    """Workloads with the events that Debezium's connector made of them."""
    cases: list[dict[str, Any]] = json.loads(lzma.decompress((HERE / "debezium_events.json.xz").read_bytes()))
    return cases


def deviating(workload: Workload) -> dict[str, list[str]]:
    """Columns that are not compared, by topic."""
    return {
        topic: [column for column, sql in columns.items() if sql in DEVIATIONS]
        for topic, columns in workload.types.items()
    }


def expect_the_same(
    found: Comparable, wanted: Comparable, workload: Workload, left_out: Mapping[str, list[str]]
) -> None:
    ours, real = without_columns(found, left_out), without_columns(wanted, left_out)
    assert ours.keys() == real.keys()
    for topic, records in real.items():
        for number, (given, expected) in enumerate(zip(ours[topic], records, strict=True)):
            assert given == expected, f"record {number} of {topic}, columns {workload.types.get(topic)}"


@pytest.mark.parametrize("number", range(10))
def test_events_of_twenty_random_tables_are_those_of_debezium(
    postgres_server: PostgresServer, database: str, number: int
) -> None:
    case = recorded()[number]
    workload = Workload(**case["workload"])
    events = comparable(capture_ours(postgres_server, database, workload), same_run=False)
    of_the_moment = columns_of_the_moment(workload)
    left_out = {topic: columns + of_the_moment.get(topic, []) for topic, columns in deviating(workload).items()}
    expect_the_same(json.loads(json.dumps(events)), case["events"], workload, left_out)


def test_two_hundred_random_tables_were_recorded() -> None:
    assert sum(len(case["workload"]["types"]) for case in recorded()) == 200


def test_deviations_are_of_types_that_were_recorded() -> None:
    types = {sql for case in recorded() for columns in case["workload"]["types"].values() for sql in columns.values()}
    assert DEVIATIONS.keys() - types == set()


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.skipif(shutil.which("mvn") is None, reason="the connector comes from Maven Central")
def test_events_of_new_random_tables_are_those_of_debezium_running_beside(
    postgres_server: PostgresServer, database: str, broker: KafkaBroker, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    workload = random_workload(seed, 20)
    with KafkaConnectWorker(broker.bootstrap_servers, tmp_path, plugin=DEBEZIUM_POSTGRES) as worker:
        real, ours = capture_both(worker.url, broker, postgres_server, database, workload)
    expect_the_same(comparable(ours, same_run=True), comparable(real, same_run=True), workload, deviating(workload))
