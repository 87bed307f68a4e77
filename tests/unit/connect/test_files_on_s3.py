"""Files of buckets as records, and records as files of buckets."""

from __future__ import annotations

import json
import threading
import uuid
from pathlib import Path

import pytest
import s3fs
from tests.unit.connect.test_files import ROWS, rows, send, sink, source

from hayase.connect.files.file_sink import create_file
from hayase.log.protocol import Log
from hayase.testing.s3_server import S3Server

pytestmark = [pytest.mark.s3, pytest.mark.long]
UNUSED = Path("unused")


@pytest.fixture
def folder(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty folder of a bucket, which the environment says how to reach."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_server.endpoint)
    s3fs.S3FileSystem.clear_instance_cache()
    return f"s3://data/{uuid.uuid4().hex}"


def test_records_become_files_of_a_bucket_once(log: Log, folder: str) -> None:
    with sink(log, UNUSED, path=f"{folder}/out", format="parquet") as connector:
        send(connector, *ROWS)
        connector.run_to_end()
        connector.kill()
        send(connector, {"id": 3, "city": "Nara"})
        connector.run_to_end()
    files = s3fs.S3FileSystem(skip_instance_cache=True)
    assert len(files.glob(f"{folder}/out/*.parquet")) == 2
    manifests = [json.loads(files.cat(path)) for path in sorted(files.find(f"{folder}/out/_manifests"))]
    assert [(each["start"], each["end"], each["records"]) for each in manifests] == [(0, 2, 2), (2, 3, 1)]


def test_files_of_a_bucket_become_records_once_also_those_that_come_later(log: Log, folder: str) -> None:
    files = s3fs.S3FileSystem(skip_instance_cache=True)
    files.pipe_file(f"{folder}/in/a.json", b'{"id": 1}\n{"id": 2}\n')
    props = {"format": "json", "after": "move", "move.path": f"{folder}/done"}
    with source(log, UNUSED, path=f"{folder}/in/*.json", **props) as connector:
        connector.run_to_end()
        connector.kill()
        files.pipe_file(f"{folder}/in/b.json", b'{"id": 3}\n')
        connector.run_to_end()
        assert rows(connector) == [{"id": 1}, {"id": 2}, {"id": 3}]
    files.invalidate_cache()
    assert [path.rpartition("/")[2] for path in files.find(folder)] == ["a.json", "b.json"]
    assert len(files.find(f"{folder}/done")) == 2


def test_of_two_that_create_a_file_of_a_bucket_one_wins(folder: str) -> None:
    one, two = (s3fs.S3FileSystem(skip_instance_cache=True) for _ in range(2))
    two.find(folder)  # has seen that it is empty
    assert create_file(one, f"{folder}/a", b"one")
    assert not create_file(two, f"{folder}/a", b"two")
    assert two.cat(f"{folder}/a") == b"one"


def test_a_store_that_is_away_is_waited_for(log: Log, folder: str, s3_server: S3Server) -> None:
    with sink(log, UNUSED, path=f"{folder}/out") as connector:
        send(connector, ROWS[0])
        s3_server.pause()
        comes_back = threading.Timer(2, s3_server.start)
        comes_back.start()
        try:
            connector.run_to_end()
        finally:
            comes_back.join()
    assert len(s3fs.S3FileSystem(skip_instance_cache=True).glob(f"{folder}/out/*.json")) == 1
