"""Record what Apicurio Registry's Avro converter makes of random values: `python -m tests.connect.record_avro`.

Its classes go back to those of Confluent's converter, which is not on Maven Central. Needs a JDK, and Maven Central
once. Writes `recorded_avro.json.xz`, which `test_recorded_avro.py` replays.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.connect.random_cases import data
from tests.connect.record_cases import record

from hayase.testing.maven_jars import Artifact

RECORDED = Path(__file__).with_name("recorded_avro.json.xz")
CONVERTER = Artifact("io.apicurio", "apicurio-registry-utils-converter", "2.6.13.Final")
_CASES = 600


def random_values(seed: int = 20) -> list[dict[str, Any]]:
    """Values with their schemas, and whether Connect's names and versions are to be in the Avro schema."""
    chance, found = random.Random(seed), list[dict[str, Any]]()
    while len(found) < _CASES:
        given = data(chance)
        if given is not None and given.get("schema") is not None:
            found.append({"data": given, "meta": chance.random() < 0.7})
    return found


if __name__ == "__main__":
    record(random_values(), "AvroRecorder.java", CONVERTER, RECORDED)
