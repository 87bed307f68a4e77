"""`hayase connectors …` against a worker of Kafka Connect itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.connect.slot_worker import wait

from hayase.cli.main import run_cli
from hayase.testing.connect_worker import KafkaConnectWorker
from hayase.testing.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def url(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"group.id": "commands", "offset.flush.interval.ms": "500"}
    with KafkaConnectWorker(broker.bootstrap_servers, tmp_path_factory.mktemp("worker"), settings=settings) as worker:
        yield worker.url


def test_each_command_does_there_what_it_does_here(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str, code: int = 0) -> str:
        """Run a command; what it printed, and what it said about an error."""
        capsys.readouterr()
        ended = run_cli(["connectors", *arguments, "-u", url])
        said = capsys.readouterr()
        assert ended == code, said
        return said.out + said.err

    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    made = {f"topic.creation.default.{each}": "1" for each in ("partitions", "replication.factor")}
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines.txt"), "topic": "their-lines"}
    file, offsets = tmp_path / "lines.json", tmp_path / "offsets.json"
    file.write_text(json.dumps({"name": "lines", "config": {**config, **made}}))
    assert "FileStreamSource" in run("plugins")
    run("validate", str(file))
    run("create", str(file), "--wait")
    run("create", str(file), "--wait")  # changes the one that is there
    assert "RUNNING" in run("list")
    assert json.loads(run("list", "--json"))["name"] == "lines"
    assert json.loads(run("status", "lines", "--json"))["tasks"][0]["state"] == "RUNNING"
    run("pause", "lines", "--wait")
    assert "PAUSED" in run("status", "lines")
    run("resume", "lines", "--wait")
    run("restart", "lines")
    run("restart", "lines", "--only-failed")
    run("restart", "lines", "--task", "0")
    run("stop", "lines", "--wait")
    (stored,) = json.loads(run("offsets", "lines", "--json"))["offsets"]
    assert stored["offset"] == {"position": 8}
    offsets.write_text(json.dumps({"offsets": [{**stored, "offset": {"position": 4}}]}))
    run("offsets", "lines", "--set", str(offsets))
    assert "4" in run("offsets", "lines")
    run("offsets", "lines", "--reset")
    run("snapshot", "lines", "--table", "public.users", code=1)  # users of Kafka Connect write to the topic
    run("delete", "lines", "--yes")
    wait(lambda: run_cli(["connectors", "status", "lines", "-u", url]), 1)  # it is gone a moment later
    assert "No status found for connector lines" in run("status", "lines", code=1)
    file.write_text(json.dumps({"name": "lines", "config": {"connector.class": "FileStreamSource"}}))
    assert "topic" in run("validate", str(file), code=1)
