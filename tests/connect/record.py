"""Record what Kafka Connect's own worker answers: `python -m tests.connect.record`.

Needs Java, and Maven Central once. Writes `rest_answers.json`, which `test_recorded_rest.py` replays.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

import httpx2
from tests.connect.rest_steps import answers

from hayase.core.java import find_java
from hayase.testing.kafka_broker import KafkaBroker
from hayase.testing.maven_jars import Artifact, maven_jars
from hayase.testing.servers import HOST, ServerProcess, free_ports

VERSION = "4.3.1"
RECORDED = Path(__file__).with_name("rest_answers.json")
_GROUP = "org.apache.kafka"
_ARTIFACTS = [
    *(Artifact(_GROUP, f"connect-{name}", VERSION) for name in ("runtime", "json", "file", "transforms")),
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),  # the worker's own binding; it has the loggers
]
_START_S = 300.0


def main() -> None:
    """Start a broker and a worker, ask, and write the answers."""
    java = find_java()
    jars = maven_jars(f"connect-{VERSION}-log4j", _ARTIFACTS, java)
    with tempfile.TemporaryDirectory() as place, KafkaBroker(start_timeout_s=_START_S) as broker:
        folder = Path(place)
        (folder / "in.txt").write_text("one\ntwo\n")
        ports = free_ports(1, skip=31)
        assert ports is not None
        url = f"http://{HOST}:{ports[0]}"
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "recorded",
            "listeners": url,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.flush.interval.ms": "500",
            "exactly.once.source.support": "enabled",
            **{f"{each}.storage.topic": f"connect-{each}" for each in ("config", "offset", "status")},
            **{f"{each}.storage.replication.factor": "1" for each in ("config", "offset", "status")},
        }
        (folder / "worker.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [str(java.executable), "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
        command += ["org.apache.kafka.connect.cli.ConnectDistributed", str(folder / "worker.properties")]
        process = ServerProcess(command, folder / "worker.log", dict(os.environ))
        try:
            with httpx2.Client(base_url=url, timeout=120) as client:
                _wait_for_answer(client, folder / "worker.log")
                found = [[said, answer] for said, answer in answers(client, folder)]
        finally:
            process.end(by_force=True)
    RECORDED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"{len(found)} answers in {RECORDED}")


def _wait_for_answer(client: httpx2.Client, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx2.HTTPError:
            pass
        assert time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.5)


if __name__ == "__main__":
    main()
