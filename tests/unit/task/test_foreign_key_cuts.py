"""A foreign-key join ends with the rows of both tables joined, however its input is ordered and cut into epochs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.task.harness import Chunking, Given, run_partitions
from tests.unit.task.test_table_cuts import OFF, cuts, joined_by_foreign_key, keys, values

from hayase.serde.murmur2 import partition_for_key

FOREIGN = {"p": b"k", "q": b"l"}
records = st.lists(
    st.builds(Given, st.sampled_from("ab"), st.just(0), keys, values, st.integers(0, 120), st.just(())), max_size=30
)


def left(value: dict[str, Any] | None, time_ms: int) -> Given:
    return Given("a", 0, b"m", None if value is None else json.dumps(value).encode(), time_ms, ())


RIGHT = Given("b", 0, b"k", b'{"g":"r","n":1}', 100, ())
JOINED = [RIGHT, left({"g": "p", "n": 0}, 0), Given("b", 0, b"m", b'{"g":"r","n":2}', 100, ())]
"""With cuts behind the second and the third, the first two have a result before what follows."""
EARLY = [RIGHT._replace(timestamp_ms=0), *JOINED[1:]]
SAME = {"g": "p", "n": 7}
RIGHT_GONE = RIGHT._replace(value=None, timestamp_ms=3)
NONE, OTHER_NONE, DANGLING, OTHER_DANGLING = ({"g": g, "n": n} for g, n in (("r", 1), ("r", 2), ("q", 3), ("q", 4)))


def joined(found: list[Given], *, keeps_left: bool) -> dict[bytes, Any]:
    """The rows of both tables in the end, joined."""
    last: dict[str, dict[bytes, Any]] = {"a": {}, "b": {}}
    for record in found:
        assert record.key is not None
        last[record.topic][record.key] = None if record.value is None else json.loads(record.value)
    rows = {key: row for key, row in last["a"].items() if row is not None}
    pairs = {key: {"l": row, "r": last["b"].get(FOREIGN.get(row["g"], b""))} for key, row in rows.items()}
    return {key: pair for key, pair in pairs.items() if keeps_left or pair["r"] is not None}


@pytest.mark.parametrize("caching", [OFF, {}], ids=["uncached", "cached"])
@pytest.mark.parametrize("form", ["rows", "auto"])
@settings(max_examples=examples(40), deadline=None, print_blob=True)
@given(found=records, at=cuts, chunk=st.none() | st.just(Chunking(1, 1)))
@example(found=[*JOINED, left(NONE, 1), left(OTHER_NONE, 2)], at=[2, 3], chunk=Chunking(1, 1))
@example(found=[*JOINED, left(NONE, 1), left(None, 2)], at=[2, 3], chunk=Chunking(1, 1))
@example(found=[*JOINED, left(DANGLING, 1), left(OTHER_DANGLING, 2)], at=[2, 3], chunk=Chunking(1, 1))
@example(found=[*JOINED, left(None, 1), left(DANGLING, 2)], at=[2, 3], chunk=Chunking(1, 1))
@example(found=[*JOINED, left(NONE, 1), left(OTHER_NONE, 2)], at=[2, 3, 4], chunk=None)
@example(found=[*JOINED, left(None, 1), left(DANGLING, 2)], at=[2, 3, 4], chunk=None)
@example(found=[*EARLY, RIGHT_GONE, left(SAME, 5)], at=[3], chunk=None)
@example(found=[*EARLY, RIGHT_GONE, left(SAME, 5)], at=[3], chunk=Chunking(1, 1))
@example(found=[*EARLY, RIGHT_GONE, left(SAME, 3)], at=[3], chunk=None)
@example(found=[*EARLY, RIGHT_GONE, left(SAME, 5), left(SAME | {"n": 8}, 6)], at=[3], chunk=None)
def test_the_last_results_are_those_of_the_last_rows(
    form: str, caching: dict[str, Any], found: list[Given], at: list[int], chunk: Chunking | None
) -> None:
    placed = [each._replace(partition=partition_for_key(each.key or b"", 2)) for each in found]
    result = run_partitions(
        joined_by_foreign_key(), {"a": 2, "b": 2}, placed, at, processing_form=form, chunk=chunk, **caching
    )
    for topic in ("inner", "left"):
        last = {key: json.loads(value) for key, value in result.last(topic).items() if value is not None}
        assert last == joined(found, keeps_left=topic == "left")
