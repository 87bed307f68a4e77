"""What an earlier version left behind in mid input: today's goes on with it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.spark import before
from tests.spark.place import Place


def test_a_log_and_a_checkpoint_of_an_earlier_version_come_to_the_result_of_an_undisturbed_run(
    spark: None, tmp_path: Path
) -> None:
    with Place(tmp_path, before.unpacked(tmp_path)) as place:
        expected = json.loads(before.EXPECTED.read_text())
        assert before.outputs(place) != expected
        app = place.run(before.build(), **before.SETTINGS)
        assert 0 < app.progress().consumed < 2 * before.EVENTS + before.USERS
        assert before.outputs(place) == expected
