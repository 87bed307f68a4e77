"""What the log remembers of an application is compared with its checkpoint."""

from __future__ import annotations

import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase.core.errors import CheckpointError, LogError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Marker, OutputBatch, is_published
from hayase.runtime.epochs.log_ownership import OWNER, Claim, check_ownership, forget_claims
from hayase.runtime.epochs.log_ownership import claim as claim_log
from hayase.runtime.epochs.record_retention import Floor
from hayase.state.changelog.changelog import Changelog
from hayase.state.delta.delta import Delta
from hayase.state.delta.journal import Journal

BUNDLES = {"0-0", "0-1"}


def check(scene: Scene, checkpoint_id: str = "L", *, exactly_once: bool = True) -> Claim:
    return check_ownership(
        scene.blobs, scene.log, "app", checkpoint_id, BUNDLES, writing=BUNDLES, exactly_once=exactly_once
    )


def claim(scene: Scene, checkpoint_id: str = "L", term: int = 1, since: int = -1) -> None:
    claim_log(scene.log, scene.blobs, "app", checkpoint_id, term, Claim(since))


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
    assert check(scene) == Claim(2)
    claim(scene, since=2)
    assert check(scene) == Claim(2)


def test_outputs_of_later_epochs_are_refused_with_the_ways_out(scene: Scene) -> None:
    mark(scene, "0-1", 7, "d")
    run_epochs(scene, 3)
    claim(scene)
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
    claim(scene)
    check(scene, "L")
    assert "id L" in refused(scene, "APPLICATION_ID_IN_USE", "M")


def test_markers_that_a_removed_checkpoint_left_in_an_earlier_version_are_no_obstacle(scene: Scene) -> None:
    mark(scene, "0-1", 50, "d", checkpoint_id="gone")
    write(scene, "0-0", 2, run_epochs(scene, 3))
    check(scene)


def test_the_claim_is_no_bundle_and_goes_with_the_markers(scene: Scene) -> None:
    claim(scene)
    assert scene.log.markers("app") == {OWNER: Marker("L", 1, "")}
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


def with_outputs(scene: Scene, bundle: str, epoch: int, digest: str) -> Delta:
    journal = Journal([OutputBatch("out", [b"k"], [b"v"], [0])], [])
    return Changelog(scene.blobs, bundle).publish(Delta("app", "L", bundle, epoch, digest, -1, "", journal=journal))


def test_a_log_that_does_not_know_of_a_run_that_claimed_it_is_refused(scene: Scene) -> None:
    run_epochs(scene, 2)
    claim(scene, term=1)
    claim(scene, term=2)
    mark(scene, OWNER, 3, "")  # a later run that died before it noted its claim is no obstacle
    check(scene)
    scene.log.delete_markers("app")
    mark(scene, OWNER, 1, "")
    assert "run 2 of the application" in refused(scene, "LOG_OLDER_THAN_CHECKPOINT")
    forget_claims(scene.blobs)
    check(scene)


def test_a_log_without_outputs_of_an_epoch_that_is_done_is_refused(scene: Scene) -> None:
    digest = run_epochs(scene, 3)
    claim(scene)
    with_outputs(scene, "0-1", 0, scene.planner().record(0).digest)
    with_outputs(scene, "0-1", 1, digest)
    assert "bundle 0-1 has written outputs of epoch 1" in refused(scene, "LOG_OLDER_THAN_CHECKPOINT")
    mark(scene, "0-1", 0, scene.planner().record(0).digest)
    assert "those of epoch 0" in refused(scene, "LOG_OLDER_THAN_CHECKPOINT")
    mark(scene, "0-1", 1, scene.planner().record(1).digest)
    check(scene)


def test_outputs_of_before_the_claim_or_of_an_epoch_that_is_open_need_not_be_there(scene: Scene) -> None:
    digest = run_epochs(scene, 3)
    with_outputs(scene, "0-1", 1, digest)
    claim(scene, since=2)
    planner = scene.planner()
    scene.put(99)
    epoch = planner.next_epoch(2)
    with_outputs(scene, "0-0", epoch, planner.record(epoch).digest)
    check(scene)


def test_markers_behind_an_open_transaction_are_waited_for(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    run_epochs(scene, 1)
    claim(scene, term=2)
    everything = scene.log.markers

    def markers(application_id: str, *, wait: bool = True) -> dict[str, Marker]:
        return everything(application_id) if wait else {}

    monkeypatch.setattr(type(scene.log), "markers", lambda _, app, **given: markers(app, **given))
    check(scene)
