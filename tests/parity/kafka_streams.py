"""The real Kafka Streams beside the tests.

`recorder/Oracle.java` runs cases of the golden format in its TopologyTestDriver.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.golden.cases import Case

from hayase.core.errors import MissingRequirementError
from hayase.core.java import find_java
from hayase.testing.maven_jars import Artifact, maven_jars

VERSION = "4.3.1"
ARTIFACTS = (
    Artifact("org.apache.kafka", "kafka-streams", VERSION),
    Artifact("org.apache.kafka", "kafka-streams-test-utils", VERSION),
    Artifact("com.fasterxml.jackson.core", "jackson-databind", "2.21.2"),
    Artifact("org.slf4j", "slf4j-nop", "1.7.36"),
)
_SOURCES = Path(__file__).parent / "recorder"


class KafkaStreams:
    """A process that answers each case with what Kafka Streams did."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def record(self, case: Case) -> Case:
        """The case with what Kafka Streams did with it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "oracle_failed" not in found, found
        return {**case, "expected": found}


@contextmanager
def kafka_streams(stores: str = "in_memory") -> Iterator[KafkaStreams]:
    """Kafka Streams, or a skipped test where there is no Java compiler or no way to its jars."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("no javac on PATH: the recorder cannot be compiled")
    try:
        java = find_java()
        jars = maven_jars(f"kafka-streams-{VERSION}", ARTIFACTS, java)
    except MissingRequirementError as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="hayase-recorder-") as folder:
        sources = [str(path) for path in sorted(_SOURCES.glob("*.java"))]
        subprocess.run(
            [compiler, "-nowarn", "-cp", f"{jars}/*", "-d", folder, *sources], check=True, capture_output=True
        )
        command = [
            "java",
            f"-Dstores={stores}",
            f"-Djava.io.tmpdir={folder}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
        ]
        with subprocess.Popen(
            [*command, "-cp", f"{jars}/*:{folder}", "Oracle"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        ) as process:
            try:
                yield KafkaStreams(process)
            finally:
                process.kill()
