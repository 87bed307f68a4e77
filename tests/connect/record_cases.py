"""Record what transforms and converters in Java make of random cases: `python -m tests.connect.record_cases`.

Needs a JDK, and Maven Central once. Writes `recorded_cases.json.xz`, which `test_recorded_cases.py` replays.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import tempfile
from pathlib import Path

from tests.connect.random_cases import random_cases

from hayase.core.java import find_java
from hayase.testing.connect_worker import DEBEZIUM_POSTGRES, connect_jars

RECORDED = Path(__file__).with_name("recorded_cases.json.xz")
_RECORDER = Path(__file__).with_name("recorder") / "Recorder.java"


def main() -> None:
    """Carry out all cases in Java, and write cases with their answers."""
    cases = random_cases()
    with tempfile.TemporaryDirectory() as place:
        given, answers = Path(place, "cases.json"), Path(place, "answers.json")
        given.write_text(json.dumps(cases))
        command = [str(find_java().executable), "-Duser.timezone=UTC", "-cp", f"{connect_jars(DEBEZIUM_POSTGRES)}/*"]
        subprocess.run([*command, str(_RECORDER), str(given), str(answers)], check=True)
        pairs = list(zip(cases, json.loads(answers.read_text()), strict=True))
    RECORDED.write_bytes(lzma.compress(json.dumps(pairs, sort_keys=True).encode()))
    print(f"{len(pairs)} cases in {RECORDED}")


if __name__ == "__main__":
    main()
