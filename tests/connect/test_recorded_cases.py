"""Transforms, predicates and converters do what Kafka's and Debezium's did, except for listed deviations."""

from __future__ import annotations

import base64
import json
import lzma
import struct
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.connect.random_cases import CONVERTERS, DEBEZIUM, PREDICATES, TRANSFORMS
from tests.connect.run_cases import answer

HERE = Path(__file__).parent
DEVIATIONS: dict[str, dict[str, Any]] = tomllib.loads((HERE / "case_deviations.toml").read_text("utf-8"))
KINDS = sorted(
    [f"{name} {kind}" for name in CONVERTERS for kind in ("read", "write")]
    + [
        f"{name} transform"
        for name in (*TRANSFORMS, f"{DEBEZIUM}ExtractNewRecordState", f"{DEBEZIUM}outbox.EventRouter")
    ]
    + [f"{name} predicate" for name in PREDICATES]
)


@cache
def recorded() -> dict[str, list[tuple[int, dict[str, Any], dict[str, Any]]]]:
    """Number, case and answer, by class and kind."""
    found: dict[str, list[tuple[int, dict[str, Any], dict[str, Any]]]] = {kind: [] for kind in KINDS}
    pairs = json.loads(lzma.decompress((HERE / "recorded_cases.json.xz").read_bytes()))
    for number, (case, wanted) in enumerate(pairs):
        found[f"{case['class']} {case['kind']}"].append((number, case, wanted))
    return found


def comparable(case: dict[str, Any], found: dict[str, Any]) -> Any:
    """An answer as it compares: Java has an order of its own for maps, and writes more digits of small floats."""
    if "error" in found:
        return "an error"
    if case["kind"] == "write" and found["bytes"] is not None:
        try:
            found = {"json": json.loads(base64.b64decode(found["bytes"]))}
        except ValueError:
            return found
    return rounded(found)


def rounded(value: Any) -> Any:
    """A value whose floats have the digits of single precision."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, float) and abs(value) < 3e38:
        return struct.unpack("f", struct.pack("f", value))[0]
    return value


@pytest.mark.parametrize("kind", KINDS)
def test_the_class_does_what_the_one_in_java_did(kind: str) -> None:
    different = {
        number: (case["config"], wanted, found)
        for number, case, wanted in recorded()[kind]
        for found in [answer(case)]
        if comparable(case, found) != comparable(case, wanted)
    }
    deviations = DEVIATIONS.get(kind.rpartition(".")[2], {"cases": []})["cases"]
    assert {number: each for number, each in different.items() if number not in deviations} == {}
    assert set(deviations) - different.keys() == set(), "a deviation is gone"


def test_each_class_has_cases_that_succeed() -> None:
    failing = {kind for kind, cases in recorded().items() if all("error" in wanted for _, _, wanted in cases)}
    assert failing == set()
