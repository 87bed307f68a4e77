"""How long a store that does not answer is waited for."""

from __future__ import annotations

import io
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from hayase.core.patience import Patience
from hayase.storage import s3_blobs
from hayase.storage.s3_blobs import S3Blobs
from hayase.storage.s3_location import S3Location


class Away:
    """A client of a store that answers after so many questions."""

    def __init__(self, questions: int) -> None:
        self.left = questions

    def get_object(self, **_: object) -> dict[str, Any]:
        self.left -= 1
        if self.left >= 0:
            raise ReadTimeoutError(endpoint_url="http://127.0.0.1:1")
        return {"Body": io.BytesIO(b"data")}


def test_a_store_that_is_away_for_days_is_asked_again_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    away = Away(20_000)
    monkeypatch.setattr(s3_blobs, "client_for", lambda _: away)
    patience = Patience(float("inf"), monotonic=lambda: 0.0, sleep=pauses.append)
    blobs = S3Blobs(S3Location.parse("s3://bucket/folder"), sleep=pauses.append, patience=patience)
    assert blobs.get("name") == b"data"
    assert len(pauses) >= 19_990 and max(pauses) <= 10.0
