"""Followers of an application that runs on Spark: they answer while it runs, and workers begin from them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import timedelta

from tests.spark.place import Place, until
from tests.spark.topologies import both_ways

from hayase import Follower

READER = """
import json, sys
from datetime import timedelta
from tests.spark.topologies import both_ways
from hayase import Follower
with Follower(both_ways(), json.loads(sys.argv[1]), name="copy") as follower:
    seen, last = [], int(sys.argv[2])
    print("ready", flush=True)
    while not seen or seen[-1][1] < last:
        try:
            with follower.pin("users", "items") as pinned:
                users, items = pinned.store("users").all(), pinned.store("items").all()
                found = [pinned.epoch, sum(row.value["n"] for row in users), sum(row.value["n"] for row in items)]
        except Exception as error:
            if getattr(error, "condition", "") not in ("NO_STATE", "STATE_NOT_THERE", "EPOCHS_DIFFER", "FOREIGN_STATE"):
                raise
            follower.wait_for(1 << 40, timedelta(milliseconds=50))
            continue
        if not seen or found != seen[-1]:
            seen.append(found)
        follower.wait_for(found[0] + 1, timedelta(milliseconds=200))
print(json.dumps(seen))
"""


def rows(first: int, last: int) -> list[tuple[str, dict[str, object], int]]:
    return [(f"u{i % 7}", {"item": f"i{i % 5}", "amount": i}, i) for i in range(first, last)]


def test_a_follower_in_another_process_answers_while_the_job_runs_always_at_one_epoch(place: Place) -> None:
    place.topic("orders", 3)
    given = json.dumps(place.settings())
    reader = subprocess.Popen([sys.executable, "-c", READER, given, "600"], stdout=subprocess.PIPE, text=True)
    try:
        assert reader.stdout is not None and reader.stdout.readline() == "ready\n"
        with place.app(both_ways(), max_records_per_epoch=20) as app:
            app.start()
            for number in range(6):
                place.put("orders", rows(number * 100, number * 100 + 100))
                until(lambda wanted=number * 100 + 100: app.progress().consumed == wanted, app, seconds=200)  # type: ignore[misc]
            told, _ = reader.communicate(timeout=200)
    finally:
        reader.kill()
    seen = json.loads(told)
    assert len(seen) > 3
    assert all(users == items for _, users, items in seen)
    assert seen == sorted(seen)
    assert seen[-1][1] == 600


def test_standbys_run_beside_the_application_and_lost_state_begins_from_them(place: Place) -> None:
    place.topic("orders", 3)
    settings = {"num_standby_replicas": 1}
    standby = Follower(both_ways(), place.settings(), name="standby-0")
    with place.app(both_ways(), **settings) as app:
        app.start()
        for first in (0, 50):
            place.put("orders", rows(first, first + 50))
            until(lambda wanted=first + 50: app.progress().consumed == wanted, app, seconds=200)  # type: ignore[misc]
        assert standby.wait_for(app.progress().last_epoch, timedelta(seconds=200))
        assert standby.status().running
    assert not standby.status().running
    home = place.folder / "state" / place.application_id
    shutil.rmtree(home / "state")
    # Without the first deltas nothing could be rebuilt from the changelog: it must be the copy.
    for bundle in (home / "checkpoint" / "changelog").iterdir():
        min(bundle.iterdir()).unlink()
    place.put("orders", rows(100, 150))
    again = place.run(both_ways(), **settings)
    with again.pin("users", "items") as pinned:
        for name in ("users", "items"):
            assert sum(row.value["n"] for row in pinned.store(name).all()) == 150
