"""Files of folders as records, and records as files."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from typing import Any

import fsspec
import polars as pl
import pytest
from fsspec.implementations.local import LocalFileSystem

from hayase.connect.exceptions import ConnectError
from hayase.core.errors import ConfigError, HayaseError
from hayase.log.protocol import Log
from hayase.testing.connect import ConnectorTestDriver

PLAIN = {"key.converter": "StringConverter", "value.converter.schemas.enable": "false"}
ROWS = [{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Rome"}]


def source(log: Log, pattern: Path, **props: str) -> ConnectorTestDriver:
    given = {"connector.class": "FileSource", "name": "files", "path": str(pattern), "topic": "rows", "settle.ms": "0"}
    more = {key.replace("_", "."): value for key, value in props.items()}
    return ConnectorTestDriver({**given, "list.interval.ms": "0", **more}, worker=PLAIN, log=log)


def rows(connector: ConnectorTestDriver) -> list[object]:
    return [json.loads(record.value or b"null") for record in connector.records("rows")]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "lines"])
def test_rows_of_every_format_become_records(log: Log, tmp_path: Path, kind: str) -> None:
    frame, path = pl.DataFrame(ROWS), tmp_path / f"in.{kind}"
    wanted: list[object] = list(ROWS)
    if kind == "csv":
        frame.write_csv(path)
        wanted = [{key: str(value) for key, value in row.items()} for row in ROWS]
    elif kind == "parquet":
        frame.write_parquet(path)
    elif kind == "json":
        frame.write_ndjson(path)
    else:
        path.write_text("one\ntwo\n")
        wanted = ["one", "two"]
    with source(log, tmp_path / "*", format=kind) as connector:
        connector.run_to_end()
        assert rows(connector) == wanted


@pytest.mark.long
def test_files_are_read_in_the_order_of_their_names_and_once(log: Log, tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.txt").write_text(f"{name}1\n{name}2\n{name}3\n")
    with source(log, tmp_path / "*.txt", batch_size="2") as connector:
        connector.step()
        connector.step()
        connector.kill()
        connector.run_to_end()
        connector.kill()
        connector.run_to_end()
        assert rows(connector) == ["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3"]


@pytest.mark.long
def test_a_file_is_deleted_when_it_is_published_and_its_name_is_free_again(log: Log, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    with source(log, tmp_path / "*.txt", after="delete") as connector:
        for text in ("one\n", "two\nthree\n"):
            file.write_text(text)
            connector.run_to_end()
            assert not file.exists()
        assert rows(connector) == ["one", "two", "three"]
        assert connector.offsets() == []


@pytest.mark.long
def test_a_file_is_moved_when_it_is_published(log: Log, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with source(log, tmp_path / "*.txt", after="move", move_path=str(tmp_path / "done")) as connector:
        connector.run_to_end()
    assert (tmp_path / "done" / "a.txt").read_text() == "one\n"


@pytest.mark.long
def test_a_file_that_was_published_and_not_deleted_is_deleted_and_not_read_again(log: Log, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with source(log, tmp_path / "*.txt") as connector:
        connector.run_to_end()
    with source(log, tmp_path / "*.txt", after="delete") as connector:
        connector.run_to_end()
        assert rows(connector) == ["one"]
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.long
def test_a_row_that_cannot_be_read_is_an_error_with_file_and_row(log: Log, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id":1}\nno json\n{"id":2}\n')
    with source(log, tmp_path / "*.json", format="json") as connector, pytest.raises(ConnectError, match="row 2"):
        connector.run_to_end()
    with source(log, tmp_path / "*.json", format="json", errors_tolerance="all") as connector:
        connector.run_to_end()
        assert rows(connector) == [{"id": 1}, {"id": 2}]
        assert connector.metrics()["rows-skipped-total"] == 1


@pytest.mark.long
def test_a_file_that_grows_after_it_was_found_is_an_error(log: Log, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with source(log, tmp_path / "*.txt") as connector:
        connector.run_to_end()
        connector.kill()
        (tmp_path / "a.txt").write_text("one\ntwo\n")
        with pytest.raises(ConnectError, match=r"settle\.ms"):
            connector.run_to_end()


def test_a_move_needs_a_folder(log: Log, tmp_path: Path) -> None:
    with pytest.raises(HayaseError, match=r"move\.path"):
        source(log, tmp_path, after="move").start()


def sink(log: Log, folder: Path, **props: str) -> ConnectorTestDriver:
    given = {"connector.class": "FileSink", "name": "out", "topics": "rows", "path": str(folder)}
    more = {key.replace("_", "."): value for key, value in props.items()}
    return ConnectorTestDriver({**given, "range.interval.ms": "0", **more}, worker=PLAIN, log=log)


def send(connector: ConnectorTestDriver, *values: object, timestamp_ms: int = 0) -> None:
    for value in values:
        connector.produce("rows", None, json.dumps(value).encode(), timestamp_ms=timestamp_ms)


def test_ranges_become_files_with_numbers(log: Log, tmp_path: Path) -> None:
    with sink(log, tmp_path) as connector:
        send(connector, *ROWS)
        connector.run_to_end()
        send(connector, {"id": 3})
        connector.run_to_end()
    first, second = sorted(tmp_path.glob("rows+0+*.json"))
    assert [json.loads(line) for line in first.read_text().splitlines()] == ROWS
    assert [json.loads(line) for line in second.read_text().splitlines()] == [{"id": 3}]
    assert first.name == "rows+0+0000000000.json"


def test_files_are_sorted_by_time_and_field(log: Log, tmp_path: Path) -> None:
    with sink(
        log, tmp_path, format="parquet", partition_time_format="day=%Y-%m-%d", partition_fields="city"
    ) as connector:
        send(connector, *ROWS, timestamp_ms=86_400_000)
        connector.run_to_end()
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet"))
    assert found == [f"day=1970-01-02/city={city}/rows+0+0000000000.parquet" for city in ("Oslo", "Rome")]
    assert pl.read_parquet(tmp_path / found[0]).to_dicts() == [ROWS[0]]


def test_a_range_that_was_written_and_not_finished_is_not_written_twice(log: Log, tmp_path: Path) -> None:
    with sink(log, tmp_path, format="csv") as connector:
        send(connector, *ROWS)
        connector.step()
        connector.kill()
        connector.run_to_end()
    (file,) = tmp_path.glob("*.csv")
    assert file.read_text() == "id,city\n1,Oslo\n2,Rome\n"


def test_a_task_that_dies_between_file_and_manifest_leaves_what_the_next_one_completes(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sink(log, tmp_path, format="csv") as connector:
        send(connector, *ROWS)
        monkeypatch.setattr("hayase.connect.files.file_sink.json.dumps", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            connector.step()
        monkeypatch.undo()
        connector.kill()
        connector.run_to_end()
    (manifest,) = (tmp_path / "_manifests" / "out").iterdir()
    assert json.loads(manifest.read_text())["files"] == [file.name for file in tmp_path.glob("*.csv")]


def test_records_wait_for_further_ones(log: Log, tmp_path: Path) -> None:
    with sink(log, tmp_path, range_interval_ms="1000000", range_records="3") as connector:
        send(connector, *ROWS)
        connector.run_to_end()
        assert list(tmp_path.glob("*.json")) == []
        send(connector, *ROWS)
        connector.run_to_end()
        assert len(list(tmp_path.glob("*.json"))) == 1


def test_a_value_that_is_no_row_becomes_a_dead_letter(log: Log, tmp_path: Path) -> None:
    letters = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "letters"}
    with sink(log, tmp_path, format="csv", **letters) as connector:
        send(connector, ROWS[0], "no row", ROWS[1])
        connector.run_to_end()
        assert [letter.value for letter in connector.records("letters")] == [b'"no row"']
    (file,) = tmp_path.glob("*.csv")
    assert file.read_text() == "id,city\n1,Oslo\n2,Rome\n"


def test_a_format_that_there_is_not_is_refused(log: Log, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="PARQUET"):
        sink(log, tmp_path, format="orc")


def test_files_are_written_to_and_read_from_any_file_system_of_fsspec(log: Log, tmp_path: Path) -> None:
    folder = f"memory://{tmp_path.name}"
    files = fsspec.filesystem("memory")
    with sink(log, Path("unused"), path=f"{folder}/out", format="parquet") as connector:
        send(connector, *ROWS)
        connector.run_to_end()
        connector.kill()
        send(connector, {"id": 3, "city": "Nara"})
        connector.run_to_end()
    written = files.glob(f"{folder}/out/*.parquet")
    assert len(written) == 2
    log.create_topic("copies", 1, {})
    more = {"topic": "copies", "after": "move", "move.path": f"{folder}/done"}
    with source(log, Path("unused"), path=f"{folder}/out/*.parquet", format="parquet", **more) as connector:
        connector.run_to_end()
        copies = [json.loads(record.value or b"null") for record in connector.records("copies")]
    assert copies == [*ROWS, {"id": 3, "city": "Nara"}]
    assert (len(files.glob(f"{folder}/out/*.parquet")), len(files.glob(f"{folder}/done/*.parquet"))) == (0, 2)
    files.rm(f"/{tmp_path.name}", recursive=True)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nosuch://bucket/out", r"there is no file system nosuch://\. A path is as /data/in, s3://bucket/in"),
        ("abfs://bucket/out", "the library for abfs:// is not installed"),
        ("", "String must be non-empty"),
    ],
)
def test_a_path_whose_file_system_is_not_there_is_refused_at_its_key(
    log: Log, tmp_path: Path, path: str, said: str
) -> None:
    for made in (sink, source):
        with pytest.raises(ConfigError, match=f"for configuration path: {said}"):
            made(log, tmp_path, path=path)


class _CutOff(io.BytesIO):
    """A file whose store is away once, in the middle."""

    away = 0

    def _fail_once(self) -> None:
        if self.tell() and not self.away:
            type(self).away += 1
            raise OSError("away")

    def readinto(self, buffer: Any, /) -> int:
        self._fail_once()
        line = self.readline()
        buffer[: len(line)] = line
        return len(line)

    def read(self, size: int | None = -1, /) -> bytes:
        self._fail_once()
        return super().read(size)


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_file_whose_store_goes_away_in_the_middle_is_read_on(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    frame = pl.DataFrame(ROWS)
    frame.write_ndjson(tmp_path / "in.json") if kind == "json" else frame.write_parquet(tmp_path / "in.parquet")
    monkeypatch.setattr(_CutOff, "away", 0)
    monkeypatch.setattr(LocalFileSystem, "open", lambda files, path, mode: _CutOff(Path(path).read_bytes()))
    with source(log, tmp_path / "*", format=kind, errors_tolerance="all") as connector:
        connector.run_to_end()
        assert rows(connector) == ROWS
    assert _CutOff.away == 1


WITHOUT_TOMBSTONES = {
    "transforms": "rows",
    "transforms.rows.type": "Filter",
    "transforms.rows.predicate": "deleted",
    "predicates": "deleted",
    "predicates.deleted.type": "RecordIsTombstone",
}


def test_a_corrected_configuration_writes_the_range_on_which_the_one_before_failed(log: Log, tmp_path: Path) -> None:
    with sink(log, tmp_path, format="parquet") as connector:
        send(connector, *ROWS)
        connector.produce("rows", None, None)
        with pytest.raises(ConnectError):
            connector.run_to_end()
    with sink(log, tmp_path, format="parquet", **WITHOUT_TOMBSTONES) as connector:
        connector.run_to_end()
    (manifest,) = (tmp_path / "_manifests" / "out").iterdir()
    described = json.loads(manifest.read_text())
    assert (described["start"], described["end"], described["records"]) == (0, 3, 2)
    assert pl.read_parquet(tmp_path / described["files"][0]).rows(named=True) == ROWS


def test_a_file_that_another_configuration_has_left_without_a_manifest_does_not_count(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sink(log, tmp_path, format="csv") as connector:
        send(connector, *ROWS)
        monkeypatch.setattr("hayase.connect.files.file_sink.json.dumps", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            connector.step()
        monkeypatch.undo()
    renamed = {
        "transforms": "town",
        "transforms.town.renames": "city:town",
        "transforms.town.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
    }
    with sink(log, tmp_path, format="csv", **renamed) as connector:
        connector.run_to_end()
    (manifest,) = (tmp_path / "_manifests" / "out").iterdir()
    (name,) = json.loads(manifest.read_text())["files"]
    assert (tmp_path / name).read_text() == "id,town\n1,Oslo\n2,Rome\n"
    assert len([*tmp_path.glob("*.csv")]) == 2


def test_an_open_range_of_another_folder_is_refused_with_that_folder(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sink(log, tmp_path / "one") as connector:
        send(connector, *ROWS)
        monkeypatch.setattr("hayase.connect.files.file_sink.json.dumps", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            connector.step()
        monkeypatch.undo()
    with (
        sink(log, tmp_path / "two") as connector,
        pytest.raises(ConnectError, match=f"for {tmp_path}/one, and whether it is complete there is not known"),
    ):
        connector.run_to_end()


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        ("json", {"id": 2, "city": "x" * 300}),
        ("json", {"id": 2, "city": "a\0b"}),
        ("parquet", {"id": "two", "city": "Oslo"}),
        ("parquet", {"id": 1 << 70, "city": "Oslo"}),
    ],
    ids=["long name of a folder", "no name of a folder", "other type", "large number"],
)
def test_a_record_that_no_file_can_hold_costs_one_dead_letter(
    log: Log, tmp_path: Path, kind: str, bad: dict[str, object]
) -> None:
    rows = [{"id": 1, "city": "Oslo"}, bad, {"id": 3, "city": "Oslo"}]
    props = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "dead"}
    with sink(log, tmp_path, format=kind, partition_fields="city", **props) as connector:
        send(connector, *rows)
        connector.run_to_end()
        assert [json.loads(record.value or b"") for record in connector.records("dead")] == [bad]
    (file,) = tmp_path.rglob(f"city=Oslo/*.{kind}")
    found = pl.read_parquet(file) if kind == "parquet" else pl.read_ndjson(file)
    assert found["id"].to_list() == [1, 3]


def test_records_that_no_file_can_hold_are_an_error_where_none_is_tolerated(log: Log, tmp_path: Path) -> None:
    with sink(log, tmp_path, partition_fields="city") as connector:
        send(connector, {"id": 1, "city": "x" * 300})
        with pytest.raises(ConnectError, match="cannot be the name of a folder"):
            connector.run_to_end()


def test_a_driver_that_is_refused_leaves_no_folder(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ConfigError):
        sink(log, tmp_path, format="orc")
    assert list(tmp_path.glob("hayase-connector-*")) == []
