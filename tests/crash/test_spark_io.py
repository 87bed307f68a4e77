"""An application between a streaming Spark DataFrame and a Spark writer is killed at every step.

Each row comes and goes once.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import polars as pl
import pytest
from tests.crash.conftest import MakeScene
from tests.crash.scene import Failpoint, Scene
from tests.crash.spark_app_under_test import input_folder, output_folder

from hayase.core.failpoints import SPARK_NAMES

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
Tell = Callable[[Scene, object], None]

FILES, ROWS = 5, 20
MODULE = "tests.crash.spark_app_under_test"


def load(scene: Scene) -> None:
    folder = input_folder(scene.settings)
    folder.mkdir()
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        (folder / f"{number}.json").write_text("".join(json.dumps({"id": each}) + "\n" for each in ids))


def archived(scene: Scene) -> list[tuple[int, str]]:
    """Id and tag of every row in the numbered folders."""
    found = []
    for folder in output_folder(scene.settings).glob("n=*"):
        for file in folder.glob("*.parquet"):
            found += [(row["value"]["id"], row["value"]["tag"]) for row in pl.read_parquet(file).to_dicts()]
    return found


def expect_each_row_once(scene: Scene) -> None:
    written = [value for partition in scene.output("noisy") for _, value, _ in partition]
    assert sorted(value["id"] for value in written) == list(range(FILES * ROWS))
    assert sorted(archived(scene)) == sorted((value["id"], value["tag"]) for value in written)


def kill_at(scene: Scene, tell: Tell, *kills: Failpoint) -> None:
    load(scene)
    for kill in kills:
        scene.run_until_killed(kill)
        tell(scene, kill)
    scene.run()
    expect_each_row_once(scene)


def test_killed_after_a_batch_was_published_and_after_a_range_was_written_each_row_is_there_once(
    make_scene: MakeScene, tell: Tell
) -> None:
    kills = Failpoint("after_spark_publish", "kill_app", 2), Failpoint("after_spark_write", "kill_app", 1)
    kill_at(make_scene("embedded", 1, MODULE), tell, *kills)


@pytest.mark.slow
def test_killed_at_every_step_of_a_frame_and_a_writer_each_row_is_there_once(
    log_kind: str, make_scene: MakeScene, tell: Tell
) -> None:
    of_source, of_sink = SPARK_NAMES[:2], SPARK_NAMES[2:]
    kills = [Failpoint(name, "kill_app", epoch) for epoch, name in enumerate(of_source, 1)]
    kills += [Failpoint(name, "kill_app", number) for number, name in enumerate(of_sink, 1)]
    kill_at(make_scene(log_kind, 2, MODULE), tell, *kills)
