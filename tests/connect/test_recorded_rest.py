"""The REST interface answers as Kafka Connect's own worker was seen to answer, except for listed deviations."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import httpx2
import pytest
from tests.connect.rest_steps import answers

from hayase.connect.worker import ConnectWorker
from hayase.log.protocol import LogConfig

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
HERE = Path(__file__).parent
STRINGS = "org.apache.kafka.connect.storage.StringConverter"


def test_answers_are_those_of_kafka_connect(tmp_path: Path) -> None:
    recorded = json.loads((HERE / "rest_answers.json").read_text())
    deviations = tomllib.loads((HERE / "rest_deviations.toml").read_text())
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    props = {"listeners": "http://127.0.0.1:0", "key.converter": STRINGS, "value.converter": STRINGS}
    different: dict[str, tuple[object, object]] = {}
    with (
        ConnectWorker(LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false"}), props) as worker,
        httpx2.Client(base_url=worker.urls[0], timeout=60) as client,
    ):
        for (said, answer), (asked, wanted) in zip(answers(client, tmp_path), recorded, strict=True):
            assert said == asked, "the requests have changed: python -m tests.connect.record"
            if answer != wanted:
                different[said] = wanted, answer
    expected = {said: deviation for said in different for deviation in deviations if said.startswith(deviation)}
    assert {said: pair for said, pair in different.items() if said not in expected} == {}
    assert set(deviations) == set(expected.values()), "a deviation is gone"
