"""Record the events of Debezium's own connector on random tables: `python -m tests.postgres.record_debezium`.

Needs Java, and Maven Central once. Writes `debezium_events.json.xz`, which `test_debezium_events.py` compares with.
"""

from __future__ import annotations

import json
import lzma
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.postgres.debezium_capture import capture_both, comparable
from tests.postgres.debezium_workload import random_workload

from hayase.testing.connect_worker import DEBEZIUM_POSTGRES, KafkaConnectWorker
from hayase.testing.kafka_broker import KafkaBroker
from hayase.testing.postgres_server import PostgresServer

RECORDED = Path(__file__).with_name("debezium_events.json.xz")
_WORKLOADS = 10
_TABLES = 20


def main() -> None:
    """Run Debezium's connector on each workload that was not recorded, and write what it made of it."""
    slots = {"max_replication_slots": "60", "max_wal_senders": "60"}
    found = json.loads(lzma.decompress(RECORDED.read_bytes())) if RECORDED.exists() else []
    with (
        tempfile.TemporaryDirectory() as folder,
        KafkaBroker(start_timeout_s=300) as broker,
        PostgresServer(settings=slots) as server,
        KafkaConnectWorker(broker.bootstrap_servers, Path(folder), plugin=DEBEZIUM_POSTGRES) as worker,
    ):
        for seed in range(len(found), _WORKLOADS):
            workload = random_workload(seed, _TABLES)
            database = f"recorded_{seed}"
            with server.connect() as connection:
                connection.execute(f"CREATE DATABASE {database}".encode())
            events, _ = capture_both(worker.url, broker, server, database, workload)
            found.append({"workload": asdict(workload), "events": comparable(events, same_run=False)})
            print(f"workload {seed}: {sum(map(len, events.values()))} events of {len(events)} tables", flush=True)
            RECORDED.write_bytes(lzma.compress(json.dumps(found, sort_keys=True).encode()))


if __name__ == "__main__":
    main()
