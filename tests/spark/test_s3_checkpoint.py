"""An application whose checkpoint is on an S3 store."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable

import pytest
from tests.spark.place import Place, error_of, store_rows, until
from tests.spark.topologies import totals

from hayase import State
from hayase.app.reset import plan_reset, reset_application
from hayase.core.config import StreamsConfig
from hayase.core.errors import LeaseHeldError
from hayase.storage.open import open_blobs
from hayase.testing.s3_server import S3Server

pytestmark = pytest.mark.s3

KEYS = 5


def amounts(numbers: Iterable[int]) -> list[tuple[str, dict[str, int], int]]:
    return [(f"k{i % KEYS}", {"amount": i}, i) for i in numbers]


def expected(last: int) -> dict[str, dict[str, int]]:
    found = {f"k{k}": range(k, last, KEYS) for k in range(KEYS)}
    return {key: {"n": len(given), "total": sum(given)} for key, given in found.items()}


@pytest.fixture
def checkpoint(s3_server: S3Server) -> str:
    """A folder that no other test uses."""
    return s3_server.url("data", f"apps/{uuid.uuid4().hex}")


def test_an_application_goes_on_from_its_checkpoint_when_the_local_state_is_gone(place: Place, checkpoint: str) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(range(100)))
    first = place.run(totals(), checkpoint_dir=checkpoint, max_records_per_epoch=30)
    assert first.progress().consumed == 100
    assert place.last("out") == store_rows(first, "totals") == expected(100)
    assert not (place.folder / "state" / place.application_id / "checkpoint").exists()

    # Another folder rather than an emptied one: this process has the first one open.
    shutil.rmtree(place.folder / "state")
    place.put("in", amounts(range(100, 150)))
    elsewhere = place.folder / "elsewhere"
    second = place.run(totals(), checkpoint_dir=checkpoint, state_dir=elsewhere)
    assert second.progress().consumed == 50
    assert place.last("out") == store_rows(second, "totals") == expected(150)

    config = StreamsConfig(place.settings(checkpoint_dir=checkpoint, state_dir=elsewhere))
    assert plan_reset(config).present == (checkpoint, str(elsewhere / place.application_id / "state"))
    reset_application(config, place.log)
    assert open_blobs(checkpoint).is_empty() and plan_reset(config).present == ()


def test_a_second_copy_is_refused_and_a_copy_that_was_followed_stops(place: Place, checkpoint: str) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(range(10)))
    with place.app(totals(), checkpoint_dir=checkpoint) as app:
        app.start()
        assert isinstance(error_of(place.app(totals(), checkpoint_dir=checkpoint).start), LeaseHeldError)
        until(lambda: place.last("out") == expected(10), app)
        blobs = open_blobs(checkpoint)
        beat = blobs.get(blobs.list("lease/")[-1])
        assert beat is not None
        assert blobs.put_if_absent("lease/000000000009-000000000000", beat.replace(b'"token":"', b'"token":"other'))
        assert app.wait()
        assert app.state is State.ERROR and app.error is not None and app.error.condition == "LEASE_LOST"


def test_a_store_without_conditional_put_is_refused_for_exactly_once_and_does_for_at_least_once(
    place: Place, checkpoint: str
) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(range(50)))
    url = f"{checkpoint}&conditional_put=false"
    refused = error_of(place.app(totals(), checkpoint_dir=url).start)
    assert refused.condition == "PUBLISH_NOT_ATOMIC"
    for last in (50, 70):
        done = place.run(totals(), checkpoint_dir=url, processing_guarantee="at_least_once")
        assert place.last("out") == store_rows(done, "totals") == expected(last)
        place.put("in", amounts(range(50, 70)))
