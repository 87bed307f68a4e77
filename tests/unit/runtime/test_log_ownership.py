"""What the log remembers of an application is compared with its checkpoint."""

from __future__ import annotations

import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase.core.errors import CheckpointError, LogError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Marker, is_published
from hayase.runtime.epochs.log_ownership import OWNER, check_ownership, claim
from hayase.runtime.epochs.record_retention import Floor
from hayase.state.changelog.changelog import Changelog
from hayase.state.delta.delta import Delta

BUNDLES = {"0-0", "0-1"}


def check(scene: Scene, checkpoint_id: str = "L", *, exactly_once: bool = True) -> bool:
    return check_ownership(scene.blobs, scene.log, "app", checkpoint_id, BUNDLES, exactly_once=exactly_once)


def refused(scene: Scene, condition: str, checkpoint_id: str = "L", *, exactly_once: bool = True) -> str:
    with pytest.raises(CheckpointError) as caught:
        check(scene, checkpoint_id, exactly_once=exactly_once)
    assert caught.value.condition == condition
    assert "hayase app reset" in caught.value.message
    return caught.value.message


def run_epochs(scene: Scene, count: int) -> str:
    """Epochs of the checkpoint; the digest of the last record."""
    planner = scene.planner()
    for after in range(-1, count - 1):
        scene.put(after + 10)
        planner.next_epoch(after)
    planner.next_epoch(count - 1)
    return planner.record(count - 1).digest


def mark(scene: Scene, bundle: str, epoch: int, digest: str, checkpoint_id: str = "L") -> None:
    writer = scene.log.writer()
    writer.publish_epoch("app", bundle, Marker(checkpoint_id, epoch, digest), [])
    writer.close()


def write(scene: Scene, bundle: str, epoch: int, digest: str) -> None:
    """What a bundle does: first its delta, then its outputs with the marker."""
    Changelog(scene.blobs, bundle).publish(Delta("app", "L", bundle, epoch, digest, -1, ""))
    mark(scene, bundle, epoch, digest)


def test_outputs_whose_delta_the_checkpoint_does_not_have_are_refused(scene: Scene) -> None:
    digest = run_epochs(scene, 3)
    write(scene, "0-0", 2, digest)
    Changelog(scene.blobs, "0-0").delete(2)
    assert "does not have its delta" in refused(scene, "CHECKPOINT_OLDER_THAN_LOG")


def test_a_checkpoint_that_fits_its_markers_is_fine(scene: Scene) -> None:
    write(scene, "0-0", 2, run_epochs(scene, 3))
    assert check(scene) is False
    claim(scene.log, "app", "L")
    assert check(scene) is True


def test_outputs_of_later_epochs_are_refused_with_the_ways_out(scene: Scene) -> None:
    mark(scene, "0-1", 7, "d")
    run_epochs(scene, 3)
    claim(scene.log, "app", "L")
    message = refused(scene, "CHECKPOINT_OLDER_THAN_LOG")
    assert "epoch 7" in message
    assert "--markers-only" in message


def test_outputs_of_another_epoch_with_the_same_number_are_refused(scene: Scene) -> None:
    run_epochs(scene, 3)
    mark(scene, "0-0", 2, "another")
    refused(scene, "CHECKPOINT_OLDER_THAN_LOG")


def test_numbers_of_others_than_bundles_are_not_compared_with_epochs(scene: Scene) -> None:
    run_epochs(scene, 1)
    mark(scene, "spark-in", 99, "batch")
    check(scene)


def test_a_first_start_under_an_id_that_the_log_knows_is_refused(scene: Scene) -> None:
    mark(scene, "0-0", 5, "d", checkpoint_id="M")
    refused(scene, "APPLICATION_ID_IN_USE")
    scene.log.delete_markers("app")
    check(scene)


def test_a_first_start_beside_committed_offsets_of_a_group_of_that_name_is_refused(scene: Scene) -> None:
    scene.log.commit_group_offsets("app", {TopicPartition("in", 0): 1})
    refused(scene, "APPLICATION_ID_IN_USE")
    refused(scene, "APPLICATION_ID_IN_USE", exactly_once=False)
    run_epochs(scene, 1)
    check(scene)


def test_a_second_copy_with_another_checkpoint_is_refused_even_where_nothing_was_written_yet(scene: Scene) -> None:
    claim(scene.log, "app", "L")
    assert check(scene, "L") is True
    assert "id L" in refused(scene, "APPLICATION_ID_IN_USE", "M")


def test_markers_that_a_removed_checkpoint_left_in_an_earlier_version_are_no_obstacle(scene: Scene) -> None:
    mark(scene, "0-1", 50, "d", checkpoint_id="gone")
    write(scene, "0-0", 2, run_epochs(scene, 3))
    check(scene)


def test_the_claim_is_no_bundle_and_goes_with_the_markers(scene: Scene) -> None:
    claim(scene.log, "app", "L")
    assert scene.log.markers("app") == {OWNER: Marker("L", 0, "")}
    scene.log.delete_markers("app")
    assert scene.log.markers("app") == {}


def test_a_marker_below_the_floor_says_nothing_about_the_checkpoint(scene: Scene) -> None:
    run_epochs(scene, 2)
    mark(scene, "0-0", 0, "of a record that was forgotten")
    refused(scene, "CHECKPOINT_OLDER_THAN_LOG")
    Floor(scene.blobs, "L").raise_to(0)
    check(scene)


def test_what_is_later_in_the_log_is_not_taken_for_what_is_written() -> None:
    with pytest.raises(LogError, match="another attempt has overtaken") as caught:
        is_published(Marker("L", 50, "x"), Marker("L", 11, "y"))
    assert caught.value.condition == "STATE_MOVED"
    assert not is_published(Marker("M", 50, "x"), Marker("L", 11, "y"))
