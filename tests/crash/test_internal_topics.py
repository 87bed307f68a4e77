"""Records of an internal topic arrive once, although completed ones are deleted while the application is killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from tests.crash import input as given
from tests.crash.checks import Undisturbed, by_key, expect_exactly_once
from tests.crash.conftest import MakeScene
from tests.crash.scene import Failpoint, Scene

from hayase.core.records import TopicPartition

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
Tell = Callable[[Scene, object], None]


def events_by_key() -> Counter[str]:
    return Counter(record.key for record in given.records() if record.topic == "events")


def expect_each_event_once(scene: Scene) -> None:
    """The counts behind the internal topic went up by one, to the number of events."""
    counts = {key: [n for n, _ in values] for key, values in by_key(scene.output("passed")).items()}
    assert counts == {key: list(range(1, n + 1)) for key, n in events_by_key().items()}
    assert {key: value for key, (value, _) in scene.store("passed").items()} == events_by_key()


def expect_purged(scene: Scene) -> None:
    """Of the internal topic not everything is there any more."""
    topic = f"{scene.name}-passed-repartition"
    starts = scene.log.start_offsets([TopicPartition(topic, partition) for partition in range(given.PARTITIONS)])
    assert sum(starts.values()) > 0


@pytest.mark.slow
def test_an_application_killed_around_a_purge_loses_nothing_and_repeats_nothing(
    log_kind: str, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    scene = make_scene(log_kind, 61, **{"repartition.purge.interval.ms": 0})
    scene.through = True
    scene.load()
    for kill in (
        Failpoint("before_purge", "kill_app", 3),
        Failpoint("after_purge", "kill_app", 6),
        Failpoint("after_purge", "kill_worker", 9),
    ):
        if kill.action == "kill_app":
            scene.run_until_killed(kill)
        else:
            scene.run([kill])
        tell(scene, kill)
    expect_each_event_once(scene)
    expect_purged(scene)
    expect_exactly_once(scene, undisturbed)
