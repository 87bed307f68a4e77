"""Record what transforms and converters in Java make of random cases: `python -m tests.connect.record_cases`.

Needs a JDK, and Maven Central once. Writes `recorded_cases.json.xz`, which `test_recorded_cases.py` replays.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.connect.random_cases import random_cases

from hayase.core.java import find_java
from hayase.testing.connect_worker import DEBEZIUM_POSTGRES, connect_jars
from hayase.testing.maven_jars import Artifact

RECORDED = Path(__file__).with_name("recorded_cases.json.xz")


def record(cases: Sequence[object], recorder: str, classes: Artifact, recorded: Path) -> None:
    """Have Java answer cases, and write them with their answers.

    Args:
        cases: what is asked.
        recorder: the program in Java, in the folder `recorder`.
        classes: what it needs.
        recorded: the file to write.
    """
    program = Path(__file__).with_name("recorder") / recorder
    with tempfile.TemporaryDirectory() as place:
        given, answers = Path(place, "cases.json"), Path(place, "answers.json")
        given.write_text(json.dumps(cases))
        command = [str(find_java().executable), "-Duser.timezone=UTC", "-cp", f"{connect_jars(classes)}/*"]
        subprocess.run([*command, str(program), str(given), str(answers)], check=True)
        pairs = list(zip(cases, json.loads(answers.read_text()), strict=True))
    recorded.write_bytes(lzma.compress(json.dumps(pairs, sort_keys=True).encode()))
    print(f"{len(pairs)} cases in {recorded}")


if __name__ == "__main__":
    record(random_cases(), "Recorder.java", DEBEZIUM_POSTGRES, RECORDED)
