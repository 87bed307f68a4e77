"""Every test of `test_blobs` runs on both implementations of the blob store."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.behaviour.blobs.wire import Wire

from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs
from hayase.testing.s3_server import S3Server


@pytest.fixture(params=["posix", pytest.param("s3", marks=pytest.mark.s3)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store is."""
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        return server.url("data", f"t-{uuid.uuid4().hex}")
    return str(tmp_path / "blobs")


@pytest.fixture
def blobs(url: str) -> BlobStore:
    """The store."""
    return open_blobs(url, fsync=False)


@pytest.fixture
def wire(s3_server: S3Server) -> Iterator[Wire]:
    """A connection to the S3 server that can be disturbed."""
    with Wire(s3_server.endpoint) as made:
        yield made
