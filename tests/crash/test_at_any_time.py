"""Kills that know nothing of steps, while input comes in; and at-least-once, for contrast."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from tests.crash import input as given
from tests.crash.checks import Sequences, Undisturbed, by_key, expect_event_ids, expect_exactly_once
from tests.crash.conftest import MakeScene
from tests.crash.scene import EPOCHS_MIN, Failpoint, Scene, Started, kill, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
Tell = Callable[[Scene, object], None]
CHUNK = 50


def feed(scene: Scene, part: Sequence[given.Input]) -> None:
    """Write input bit by bit, as producers do."""
    for start in range(0, len(part), CHUNK):
        scene.load(part[start : start + CHUNK])
        time.sleep(scene.random.uniform(0.1, 0.4))


def running(scene: Scene) -> Started:
    """A continuous run that has finished an epoch."""
    before = scene.done_epochs()
    started = scene.start(bounded=False)
    wait_for(
        lambda: scene.done_epochs() > before or started.process.poll() is not None, 200, "the first epoch of a start"
    )
    assert started.process.poll() is None, started.said()
    return started


def expect_end(scene: Scene, started: Started) -> None:
    """Tell the run that the input is complete, and wait for its end."""
    scene.stop_file.touch()
    assert started.wait() == 0, started.said()


@pytest.mark.parametrize("seed", [41])
def test_workers_killed_at_any_time_while_input_comes_in_leave_no_trace(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    """With caches on: of each key's updates some are left out, never the last."""
    scene = make_scene("embedded", seed, **{"statestore.cache.max.bytes": 10_000_000})
    everything = given.records()
    parts = [everything[: 2 * CHUNK], *(everything[start : start + 250] for start in range(2 * CHUNK, 1_300, 250))]
    scene.load(parts[0])
    started = running(scene)
    for part in parts[1:]:
        feed(scene, part)
        chosen = scene.random.choice(started.workers())
        kill([chosen])
        tell(scene, f"worker after {scene.done_epochs()} epochs")
    expect_end(scene, started)
    expect_exactly_once_with_caches(scene, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [42, 43])
def test_applications_killed_at_any_time_while_input_comes_in_leave_no_trace(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    scene = make_scene("embedded", seed)
    everything = given.records()
    for start in range(0, 900, 300):
        scene.load(everything[start : start + CHUNK])
        started = running(scene)
        feed(scene, everything[start + CHUNK : start + 300])
        time.sleep(scene.random.uniform(0.0, 1.0))
        tell(scene, f"application after {scene.done_epochs()} epochs")
        kill(scene.random.sample(members := started.members(), len(members)))
        assert started.wait(20) != 0
    scene.load(everything[900:])
    expect_end(scene, running(scene))
    expect_exactly_once(scene, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [51])
def test_at_least_once_loses_nothing_and_may_repeat_an_epoch_of_a_bundle(
    seed: int, make_scene: MakeScene, tell: Tell, undisturbed: Undisturbed
) -> None:
    scene = make_scene("embedded", seed, **{"processing.guarantee": "at_least_once"})
    scene.load()
    chosen = random.Random(seed).sample(range(1, EPOCHS_MIN), 3)
    kills = [Failpoint("after_publish", "kill_worker", epoch, "0-0") for epoch in chosen[:2]]
    kills.append(Failpoint("before_publish", "kill_worker", chosen[2], "1-1"))
    scene.run(kills)
    for point in kills:
        tell(scene, f"{point} (at least once)")
    outputs = {topic: by_key(scene.output(topic)) for topic in (*undisturbed.outputs, "noisy")}
    once = {topic: without_repeats(found) for topic, found in outputs.items()}
    assert {topic: once[topic] for topic in undisturbed.outputs} == undisturbed.outputs
    expect_event_ids(once["noisy"])
    assert sum(map(len, outputs["noisy"].values())) > sum(map(len, once["noisy"].values())), "nothing was repeated"
    assert {name: scene.store(name) for name in undisturbed.stores} == undisturbed.stores


def without_repeats(found: Sequences) -> Sequences:
    """Every record of a key once, in the order of its first occurrence."""
    return {key: list({repr(entry): entry for entry in values}.values()) for key, values in found.items()}


def expect_exactly_once_with_caches(scene: Scene, undisturbed: Undisturbed) -> None:
    """As `expect_exactly_once`, but tables leave updates out."""
    noisy = by_key(scene.output("noisy"))
    expect_event_ids(noisy)
    assert by_key(scene.output("enriched")) == undisturbed.outputs["enriched"]
    for name in ("totals", "regions"):
        expect_ascending_part(by_key(scene.output(name)), undisturbed.outputs[name])
        assert scene.store(name) == undisturbed.stores[name], name
    sums: Sequences = {}
    for key, values in noisy.items():
        total: dict[str, Any] = {"n": 0, "sum": 0}
        for value, time_ms in values:
            total = {"n": total["n"] + 1, "sum": total["sum"] + value["nonce"], "tag": value["tag"]}
            sums.setdefault(key, []).append((total, time_ms))
    expect_ascending_part(by_key(scene.output("noise")), sums)
    assert scene.store("noise") == {key: values[-1] for key, values in sums.items()}
    groups = scene.store("groups")
    nonces = [value["nonce"] for values in noisy.values() for value, _ in values]
    assert {key: (value["n"], value["sum"]) for key, (value, _) in groups.items()} == {
        group: (len(mine), sum(mine))
        for group in {f"g{nonce % 5}" for nonce in nonces}
        if (mine := [nonce for nonce in nonces if f"g{nonce % 5}" == group])
    }
    assert {key: values[-1] for key, values in by_key(scene.output("groups")).items()} == groups


def expect_ascending_part(found: Sequences, complete: Sequences) -> None:
    """Of each key some of the updates, each at most once, in order, and the last."""
    assert found.keys() == complete.keys()
    for key, values in found.items():
        positions = [complete[key].index(value) for value in values]
        assert all(one < other for one, other in pairwise(positions)), key
        assert positions[-1] == len(complete[key]) - 1, key
