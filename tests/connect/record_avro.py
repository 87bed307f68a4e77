"""Record what Apicurio Registry's Avro converter makes of random values: `python -m tests.connect.record_avro`.

Its classes go back to those of Confluent's converter, which is not on Maven Central. Needs a JDK, and Maven Central
once. Writes `recorded_avro.json.xz`, which `test_recorded_avro.py` replays.
"""

from __future__ import annotations

import json
import lzma
import random
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.connect.random_cases import data

from hayase.core.java import find_java
from hayase.testing.connect_worker import connect_jars
from hayase.testing.maven_jars import Artifact

RECORDED = Path(__file__).with_name("recorded_avro.json.xz")
CONVERTER = Artifact("io.apicurio", "apicurio-registry-utils-converter", "2.6.13.Final")
_RECORDER = Path(__file__).with_name("recorder") / "AvroRecorder.java"
_CASES = 600


def random_values(seed: int = 20) -> list[dict[str, Any]]:
    """Values with their schemas, and whether Connect's names and versions are to be in the Avro schema."""
    chance, found = random.Random(seed), list[dict[str, Any]]()
    while len(found) < _CASES:
        given = data(chance)
        if given is not None and given.get("schema") is not None:
            found.append({"data": given, "meta": chance.random() < 0.7})
    return found


def main() -> None:
    """Carry out all cases in Java, and write cases with their answers."""
    cases = random_values()
    with tempfile.TemporaryDirectory() as place:
        given, answers = Path(place, "cases.json"), Path(place, "answers.json")
        given.write_text(json.dumps(cases))
        command = [str(find_java().executable), "-Duser.timezone=UTC", "-cp", f"{connect_jars(CONVERTER)}/*"]
        subprocess.run([*command, str(_RECORDER), str(given), str(answers)], check=True)
        pairs = list(zip(cases, json.loads(answers.read_text()), strict=True))
    RECORDED.write_bytes(lzma.compress(json.dumps(pairs, sort_keys=True).encode()))
    print(f"{len(pairs)} cases in {RECORDED}")


if __name__ == "__main__":
    main()
