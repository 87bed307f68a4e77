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


def digest(text: str) -> str:
    """Stands for a text that is too long to be kept."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _given(case: Case) -> str:
    return digest(json.dumps([case["config"], case["topology"], case["inputs"]], sort_keys=True))


@cache
def _recorded() -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = json.loads(lzma.decompress(TRACES.read_bytes()))
    return found


def traced(seed: int) -> Case:
    """The random topology of a seed with what Kafka Streams did."""
    case = Random(seed).case()
    given, expected = _recorded()[seed]
    assert given == _given(case), f"seed {seed} was recorded of another topology; run python -m tests.parity.traces"
    return {**case, "expected": expected}


def record() -> None:
    """Record all; of the text of `describe()` the digest."""
    from tests.parity.kafka_streams import kafka_streams

    found = []
    with kafka_streams() as real:
        for seed in range(TOPOLOGIES):
            case = Random(seed).case()
            expected = real.record(case)["expected"]
            found.append((_given(case), {**expected, "describe": digest(expected["describe"])}))
    TRACES.write_bytes(lzma.compress(json.dumps(found, separators=(",", ":")).encode(), preset=9))


if __name__ == "__main__":
    record()
