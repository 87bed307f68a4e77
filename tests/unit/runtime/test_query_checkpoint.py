"""Spark's own checkpoint of a query, kept in the application's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase.core.errors import CheckpointError
from hayase.runtime.spark_io.query_checkpoint import QueryCheckpoint
from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs


class Spark:
    """What Spark does in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str = "") -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text or name)
        path.with_name(f".{path.name}.crc").write_text("checksum")

    def plan(self, batch: int, text: str = "") -> None:
        if batch == 0:
            self.write("metadata")
        self.write(f"sources/0/{batch}")
        self.write(f"offsets/{batch}", text)

    def commit(self, batch: int) -> None:
        self.write(f"state/0/0/{batch + 1}.delta")
        self.write(f"commits/{batch}")

    def files(self) -> set[str]:
        found = (path for path in self.folder.rglob("*") if path.is_file() and not path.name.startswith("."))
        return {path.relative_to(self.folder).as_posix() for path in found}


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return open_blobs(tmp_path / "checkpoint", fsync=False)


@pytest.fixture
def runs(tmp_path: Path, blobs: BlobStore) -> Iterator[tuple[Spark, QueryCheckpoint]]:
    """Each next run has lost the folder of the one before."""

    def made() -> Iterator[tuple[Spark, QueryCheckpoint]]:
        number = 0
        while True:
            folder = tmp_path / f"run-{number}"
            kept = QueryCheckpoint(blobs, "clicks", folder)
            kept.restore()
            yield Spark(folder), kept
            number += 1

    return made()


def test_a_run_that_lost_its_folder_finds_it_as_the_last_batch_began(
    runs: Iterator[tuple[Spark, QueryCheckpoint]],
) -> None:
    spark, kept = next(runs)
    assert spark.files() == set()
    spark.plan(0)
    kept.keep(0)
    spark.commit(0)
    spark.plan(1)
    digest = kept.keep(1)
    began = spark.files()
    spark.commit(1)
    spark.plan(2)  # not kept: nothing of it was written
    again, kept_again = next(runs)
    assert again.files() == began
    assert (again.folder / "offsets/1").read_text() == "offsets/1"
    assert kept_again.keep(1) == digest


def test_what_spark_deletes_is_forgotten(runs: Iterator[tuple[Spark, QueryCheckpoint]]) -> None:
    spark, kept = next(runs)
    for batch in range(3):
        spark.plan(batch)
        kept.keep(batch)
        spark.commit(batch)
    (spark.folder / "offsets/0").unlink()
    (spark.folder / "sources/0/0").unlink()
    spark.plan(3)
    kept.keep(3)
    again, _ = next(runs)
    assert {"offsets/0", "sources/0/0"}.isdisjoint(again.files())
    assert {"offsets/3", "commits/2", "sources/0/1", "state/0/0/3.delta"} <= again.files()


def test_other_offsets_for_a_batch_than_were_kept_are_an_error(runs: Iterator[tuple[Spark, QueryCheckpoint]]) -> None:
    spark, kept = next(runs)
    spark.plan(0)
    kept.keep(0)
    again, kept_again = next(runs)
    again.plan(0, "others")
    with pytest.raises(CheckpointError) as caught:
        kept_again.keep(0)
    assert caught.value.condition == "SPARK_OFFSETS_DIFFER"


def test_a_batch_that_is_through_when_the_query_ends_is_not_run_again(
    runs: Iterator[tuple[Spark, QueryCheckpoint]],
) -> None:
    spark, kept = next(runs)
    spark.plan(0)
    kept.keep(0)
    spark.commit(0)
    kept.settle()
    again, _ = next(runs)
    assert {"commits/0", "state/0/0/1.delta"} <= again.files()


def test_of_a_batch_that_is_not_through_nothing_new_is_kept(runs: Iterator[tuple[Spark, QueryCheckpoint]]) -> None:
    spark, kept = next(runs)
    spark.plan(0)
    kept.keep(0)
    spark.write("state/0/0/1.delta")
    kept.settle()
    again, _ = next(runs)
    assert "state/0/0/1.delta" not in again.files()


def test_offsets_are_published_last(blobs: BlobStore, tmp_path: Path) -> None:
    order: list[str] = []

    class Watched:
        def __getattr__(self, name: str) -> object:
            return getattr(blobs, name)

        def put_if_absent(self, name: str, data: bytes) -> bool:
            order.append(name.rpartition("/")[2])
            return blobs.put_if_absent(name, data)

    spark = Spark(tmp_path / "run")
    spark.plan(0)
    spark.commit(0)
    spark.plan(1)
    QueryCheckpoint(Watched(), "clicks", spark.folder).keep(1)  # type: ignore[arg-type]
    kinds = [name.split("%2F")[0] for name in order]
    assert kinds.index("commits") > max(kinds.index(kind) for kind in ("metadata", "sources", "state"))
    assert kinds[-2:] == ["offsets", "offsets"]
