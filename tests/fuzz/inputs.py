"""Inputs for decoders: random bytes and damaged valid ones, the same in every run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from tests.budget import LIMIT

TOTAL = "HAYASE_FUZZ_INPUTS"
"""Environment variable: how many inputs the whole suite tries, instead of what follows."""
ALL, SOME, FEW = 201_000, 6_000, 900
"""In `make test-slow`, in `make test`, in `make test-fast`."""
BATCH = 40
SECONDS_MAX = 30.0
"""For one batch, on a machine that does other things as well."""

_HUGE = [
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff" * 8,
    b"\x80" * 9 + b"\x01",
    b"\xfe" + b"\xff" * 8 + b"\x01",
]
_HUGE += [
    b"\xdd\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\x80\x80\x80\x80\x08",
    b"\0\0\0\0",
]


def total(*, slow: bool) -> int:
    """How many inputs the suite tries in all."""
    if TOTAL in os.environ:
        return int(os.environ[TOTAL])
    if slow:
        return ALL
    return FEW if int(os.environ.get(LIMIT, "100")) <= 3 else SOME


def damaged(random: Random, corpus: Sequence[bytes]) -> bytes:
    """One input, made of valid ones."""
    data = bytearray(random.choice(corpus))
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        at = random.randrange(len(data) + 1)
        match random.randrange(9):
            case 0:
                data = bytearray(random.randbytes(random.choice((0, 1, 2, 5, 8, 16, 60))))
            case 1 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case 2:
                del data[at:]
            case 3:
                data[at:] = random.choice(corpus)[at:]
            case 4:
                data[at : at + random.choice((1, 2, 4, 8))] = random.choice(_HUGE)
            case 5:
                data[at:at] = random.randbytes(random.choice((1, 4)))
            case 6:
                del data[at : at + random.choice((1, 4, 8))]
            case 7:
                data[at:at] = data[random.randrange(len(data) + 1) :][:50]
            case 8 if at < len(data):
                data[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
    return bytes(data)


def batches(name: str, corpus: Sequence[bytes], count: int) -> Iterator[list[bytes | None]]:
    """Batches of inputs, `count` in all; in each some are valid and one is null."""
    number = 0
    while count > 0:
        random = Random(f"{name} {number}")
        size = min(BATCH, count)
        batch: list[bytes | None] = [damaged(random, corpus) for _ in range(size)]
        if number % 2:
            batch[random.randrange(size)] = random.choice(corpus)
            batch.append(None)
        yield batch
        number, count = number + 1, count - size


def run(
    name: str, corpus: Sequence[bytes], count: int, folder: Path, check: Callable[[list[bytes | None]], None]
) -> None:
    """Check batch after batch; of one that fails, is slow or kills the process the inputs are in `folder`, as hex."""
    for batch in batches(name, corpus, count):
        shown = "\n".join("null" if each is None else each.hex() for each in batch)
        (folder / "last-batch.hex").write_text(shown)
        begun = time.perf_counter()
        check(batch)
        assert time.perf_counter() - begun < SECONDS_MAX, f"{name}: {SECONDS_MAX} s for one of\n{shown}"
