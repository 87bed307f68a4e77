"""Checkpoints that were copied back: what is in the log already is never taken for what is new."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.spark.place import Place, store_rows
from tests.spark.topologies import amounts, expected, totals

from hayase.app.reset import forget_markers
from hayase.core.config import StreamsConfig
from hayase.core.errors import CheckpointError


def checkpoint_of(place: Place) -> Path:
    return place.folder / "state" / place.application_id / "checkpoint"


def restore(place: Place, copy: Path) -> None:
    shutil.rmtree(checkpoint_of(place))
    shutil.copytree(copy, checkpoint_of(place))


def refused(place: Place, condition: str) -> str:
    with pytest.raises(CheckpointError) as caught:
        place.run(totals())
    assert caught.value.condition == condition
    return caught.value.message


def test_an_older_checkpoint_is_refused_until_the_markers_are_given_up(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 100))
    place.run(totals())
    copy = place.folder / "copy"
    shutil.copytree(checkpoint_of(place), copy)
    place.put("in", amounts(100, 130))
    place.run(totals())
    restore(place, copy)
    place.put("in", amounts(130, 231))
    assert "--markers-only" in refused(place, "CHECKPOINT_OLDER_THAN_LOG")
    forget_markers(StreamsConfig(place.settings()), place.log)
    again = place.run(totals())
    assert again.progress().consumed == 131
    assert place.last("out") == store_rows(again, "totals") == expected(231)


def test_a_checkpoint_that_is_gone_or_another_one_is_refused(place: Place) -> None:
    place.topic("in"), place.topic("out")
    place.put("in", amounts(0, 50))
    place.run(totals())
    shutil.rmtree(place.folder / "state")
    refused(place, "APPLICATION_ID_IN_USE")
    refused(place, "APPLICATION_ID_IN_USE")
    place.log.delete_markers(place.application_id)
    assert store_rows(place.run(totals()), "totals") == expected(50)
