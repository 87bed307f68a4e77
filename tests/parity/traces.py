"""What the real Kafka Streams did with random topologies, recorded: `python -m tests.parity.traces` records it anew (needs Java)."""

from __future__ import annotations

import hashlib
import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

from tests.golden.cases import Case
from tests.parity.topologies import Random

TRACES = Path(__file__).with_name("traces.json.xz")
TOPOLOGIES = 2000


def digest(case: Case) -> str:
    """Of what was given to Kafka Streams."""
    given = json.dumps([case["config"], case["topology"], case["inputs"]], sort_keys=True)
    return hashlib.blake2b(given.encode(), digest_size=8).hexdigest()


@cache
def _recorded() -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = json.loads(lzma.decompress(TRACES.read_bytes()))
    return found


def traced(seed: int) -> Case:
    """The random topology of a seed with what Kafka Streams did."""
    case = Random(seed).case()
    given, expected = _recorded()[seed]
    assert given == digest(case), f"seed {seed} was recorded of another topology; run python -m tests.parity.traces"
    return {**case, "expected": expected}


def record() -> None:
    """Record all, without the text of `describe()`, which is long."""
    from tests.parity.kafka_streams import kafka_streams

    found = []
    with kafka_streams() as real:
        for seed in range(TOPOLOGIES):
            case = Random(seed).case()
            expected = {name: each for name, each in real.record(case)["expected"].items() if name != "describe"}
            found.append((digest(case), expected))
    TRACES.write_bytes(lzma.compress(json.dumps(found, separators=(",", ":")).encode(), preset=9))


if __name__ == "__main__":
    record()
