"""Files that Hayase did not write, in the folders of a checkpoint, are skipped and left alone."""

from __future__ import annotations

from pathlib import Path

from tests.unit.runtime.planner_scene import Scene
from tests.unit.runtime.test_open_epoch import NEW, OLD, begin, finish

from hayase.app.store_schemas import check_store_schemas
from hayase.compiler.options import configured
from hayase.core.config import StreamsConfig
from hayase.runtime.epochs.open_epoch import AMENDMENTS_FOLDER, forget_amendments
from hayase.runtime.epochs.record_retention import Floor
from hayase.runtime.epochs.terms import begin_term
from hayase.task.epoch_record import Epochs

STRANGE = (".DS_Store", "notes.txt", f"{3:020d}~", f"{3:020d} (copy)", f"{3:020d}.done~")


def put_strange_files(scene: Scene, folder: str) -> Path:
    found = scene.folder / "checkpoint" / folder
    found.mkdir(parents=True, exist_ok=True)
    for name in STRANGE:
        (found / name).write_text("not ours")
    return found


def test_in_the_folder_of_epochs(scene: Scene) -> None:
    begin(scene)
    put_strange_files(scene, "epochs")
    assert Epochs(scene.blobs).recorded() == [0] and Epochs(scene.blobs).last_done() == -1


def test_in_the_folder_of_terms(scene: Scene) -> None:
    put_strange_files(scene, "terms")
    assert [begin_term(scene.blobs), begin_term(scene.blobs)] == [1, 2]


def test_in_the_folder_of_the_floor(scene: Scene) -> None:
    found = put_strange_files(scene, "floor")
    floor = Floor(scene.blobs, "L")
    floor.raise_to(7)
    floor.raise_to(71)
    assert floor.get() == 71
    assert sorted(path.name for path in found.iterdir() if path.is_file()) == sorted(
        [*STRANGE, f"{71:020d}", "lineage-L"]
    )


def test_in_the_folder_of_amendments(scene: Scene) -> None:
    begin(scene)
    put_strange_files(scene, "amendments")
    assert finish(scene, NEW, 2) == 0
    assert finish(scene, OLD, 3) == 0
    forget_amendments(scene.blobs, 0)
    assert sorted(scene.blobs.list(AMENDMENTS_FOLDER)) == sorted(AMENDMENTS_FOLDER + name for name in STRANGE)


def test_in_the_folder_of_schemas(scene: Scene) -> None:
    put_strange_files(scene, "schemas")
    program = configured(OLD, StreamsConfig({"application.id": "app"}))
    check_store_schemas(scene.blobs, program)
    check_store_schemas(scene.blobs, program)
    assert len(scene.blobs.list("schemas/")) == len(STRANGE) + 1
