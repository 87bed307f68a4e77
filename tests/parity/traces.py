"""What the real Kafka Streams did with random topologies, recorded.

`python -m tests.parity.traces` records it again (needs Java).
"""

from __future__ import annotations

import hashlib
import json
import lzma
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.golden.cases import Case
from tests.parity.topologies import Random
from tests.parity.wide import Wide


def digest(text: str) -> str:
    """Stands for a text that is too long to be kept."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Traces:
    """The recorded topologies of one generator, a seed each.

    Attributes:
        file: where they are kept.
        generator: makes a topology from a seed.
        count: how many there are.
        stores: of Kafka Streams; those in memory forget windows to the millisecond, those on disk by segments, as here.
    """

    file: str
    generator: type[Random]
    count: int
    stores: str

    def case(self, seed: int) -> Case:
        """The random topology of a seed with what Kafka Streams did."""
        case = self.generator(seed).case()
        given, expected = self._recorded[seed]
        assert given == _given(case), f"seed {seed} was recorded of another topology; run python -m tests.parity.traces"
        return {**case, "expected": expected}

    def record(self) -> None:
        """Record all.

        Of the text of `describe()` the digest, and of sessions nothing but what was sent: not all keys are known.
        """
        from tests.parity.kafka_streams import kafka_streams

        found = []
        with kafka_streams(self.stores) as real:
            for seed in range(self.count):
                case = self.generator(seed).case()
                expected = real.record(case)["expected"]
                if "describe" in expected:
                    expected["describe"] = digest(expected["describe"])
                stores = expected.get("stores", {})
                expected["stores"] = {name: store for name, store in stores.items() if store["kind"] != "session"}
                found.append((_given(case), expected))
        self._path.write_bytes(lzma.compress(json.dumps(found, separators=(",", ":")).encode(), preset=9))

    @property
    def _path(self) -> Path:
        return Path(__file__).with_name(self.file)

    @cached_property
    def _recorded(self) -> list[tuple[str, dict[str, Any]]]:
        found: list[tuple[str, dict[str, Any]]] = json.loads(lzma.decompress(self._path.read_bytes()))
        return found


def _given(case: Case) -> str:
    return digest(json.dumps([case["config"], case["topology"], case["inputs"]], sort_keys=True))


PLAIN = Traces("traces.json.xz", Random, 2000, "in_memory")
WIDE = Traces("wide.json.xz", Wide, 1000, "rocksdb")

if __name__ == "__main__":
    PLAIN.record()
    WIDE.record()
