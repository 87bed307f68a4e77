from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.query.local_app import LocalApp

from hayase.storage.lmdb_env import close_environment


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalApp]:
    """An application on a folder of its own."""
    made = LocalApp(tmp_path)
    yield made
    made.close()
    for data in tmp_path.rglob("data.mdb"):  # each takes a part of the process's address space
        close_environment(data.parent)
