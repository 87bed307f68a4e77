"""Assignments of bundles to transactional ids: the highest number counts, and each is published once."""

from __future__ import annotations

from pathlib import Path

import pytest

from hayase.core.errors import CheckpointError, LeaseHeldError
from hayase.log.assignments import Assignment, Assignments, Place
from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs

X, Y = Place("x", 1), Place("y", 2)


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return open_blobs(str(tmp_path), fsync=False)


def test_the_highest_number_counts(blobs: BlobStore) -> None:
    assignments = Assignments(blobs)
    assert assignments.newest() == Assignment(0, {})
    first, second = Assignment(1, {"a": {"0-0": X}}), Assignment(2, {"a": {"0-0": Y}}, ["b"])
    assignments.create(first)
    assignments.create(second)
    assert assignments.newest() == second
    assert assignments.earlier(2) == [first]
    assignments.forget([first])
    assert assignments.earlier(2) == []


@pytest.mark.parametrize("there", [2, 3])
def test_a_run_that_comes_late_does_not_go_on(blobs: BlobStore, there: int) -> None:
    assignments = Assignments(blobs)
    assignments.create(Assignment(there, {}))
    with pytest.raises(LeaseHeldError) as raised:
        assignments.create(Assignment(2, {"a": {"0-0": X}}))
    assert raised.value.condition == "LEASE_LOST"
    assert assignments.newest().number == there


def test_ids_are_lost_to_another_place_to_none_and_to_another_number() -> None:
    before = Assignment(1, {"a": {"0-0": X, "0-1": Place("z", 1)}, "b": {"0-0": Place("w", 1)}})
    after = Assignment(2, {"a": {"0-0": Place("x", 2), "0-1": Place("z", 1)}})
    assert before.ids_lost_to(after) == {"x", "w", "x@large", "w@large"}
    assert before.ids_lost_to(before) == set()


def test_a_damaged_assignment_is_told(blobs: BlobStore) -> None:
    blobs.put_if_absent("assignments/000000000001", b"{")
    with pytest.raises(CheckpointError) as raised:
        Assignments(blobs).newest()
    assert raised.value.condition == "CHECKPOINT_CORRUPT"
