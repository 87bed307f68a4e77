"""Record the keys of Kafka Connect and of Debezium's PostgreSQL source: `python -m tests.connect.record_keys`.

Needs a JDK, and Maven Central once. Writes `recorded_keys.json`, by kind, with defaults.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from pathlib import Path

from hayase.core.java import find_java
from hayase.testing.connect_worker import DEBEZIUM_POSTGRES, connect_jars

RECORDED = Path(__file__).with_name("recorded_keys.json")

if __name__ == "__main__":
    program = Path(__file__).parent / "recorder" / "KeyRecorder.java"
    command = [str(find_java().executable), "-cp", f"{connect_jars(DEBEZIUM_POSTGRES)}/*", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    keys: dict[str, dict[str, str]] = defaultdict(dict)
    for line in done.stdout.splitlines():
        kind, _, rest = line.partition("\t")
        if kind in ("worker", "source", "sink", "postgres"):
            name, _, default = rest.partition("\t")
            keys[kind][name] = default
    RECORDED.write_text(json.dumps(keys, indent=1) + "\n")
