"""Record what Kafka Connect's own worker answers: `python -m tests.connect.record`.

Needs Java, and Maven Central once. Writes `rest_answers.json`, which `test_recorded_rest.py` replays.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import httpx2
from tests.connect.rest_steps import answers

from hayase.testing.connect_worker import KafkaConnectWorker
from hayase.testing.kafka_broker import KafkaBroker

RECORDED = Path(__file__).with_name("rest_answers.json")
_STRINGS = "org.apache.kafka.connect.storage.StringConverter"


def main() -> None:
    """Start a broker and a worker, ask, and write the answers."""
    settings = {"group.id": "recorded", "key.converter": _STRINGS, "value.converter": _STRINGS}
    with tempfile.TemporaryDirectory() as place, KafkaBroker(start_timeout_s=300) as broker:
        folder = Path(place)
        (folder / "in.txt").write_text("one\ntwo\n")
        with (
            KafkaConnectWorker(broker.bootstrap_servers, folder, settings=settings) as worker,
            httpx2.Client(base_url=worker.url, timeout=120) as client,
        ):
            found = [[said, answer] for said, answer in answers(client, folder)]
    RECORDED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"{len(found)} answers in {RECORDED}")


if __name__ == "__main__":
    main()
