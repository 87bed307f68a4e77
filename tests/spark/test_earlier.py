"""A checkpoint of a release that numbered and named otherwise: today's goes on with its numbers and names."""

from __future__ import annotations

import json
from pathlib import Path

from tests.spark import earlier
from tests.spark.place import Place


def test_a_program_that_was_started_under_other_numbers_and_names_keeps_them_and_its_state(
    spark: None, tmp_path: Path
) -> None:
    expected = json.loads(earlier.EXPECTED.read_text())
    with Place(tmp_path, earlier.unpacked(tmp_path)) as place:
        assert earlier.outputs(place) != expected
        place.put("names", [("w1", b"a", 0)])  # an aggregate that was lost would become this
        app = place.run(earlier.build(), **earlier.SETTINGS)
        assert 0 < app.progress().consumed < earlier.WORDS
        found = earlier.outputs(place)
        assert {**found, "named": None} == {**expected, "named": None}
        assert app.store("KTABLE-AGGREGATE-STATE-STORE-0000000008").get("a").value == "a9"
        assert [row.key for row in app.store("KTABLE-REDUCE-STATE-STORE-0000000008").all()] == ["a", "b", "c"]
