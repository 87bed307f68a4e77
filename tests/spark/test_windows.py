"""Windows of all kinds and a cogroup on Spark come to what they come to in the test driver."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.spark.place import Place, Row
from tests.spark.topologies import activity

from hayase import Serdes
from hayase.core.records import Window
from hayase.testing import TopologyTestDriver

TOPICS = ("sessions", "near", "minutes", "both", "late")


def given() -> list[tuple[str, str, int, int]]:
    """Topic, key, value, time; in order of time except for a few."""
    rng = random.Random(3)
    rows = [(rng.choice(["clicks", "clicks", "buys"]), rng.choice("abc"), 1, 4_000 * at) for at in range(60)]
    late = [("clicks", "a", 1, 60_000 * at) for at in range(3)]
    return [*rows[:40], late[0], *rows[40:], *late[1:], ("clicks", "b", 1, 900_000)]


def of_keys(rows: list[Row]) -> dict[str | None, list[tuple[Any, int]]]:
    found: dict[str | None, list[tuple[Any, int]]] = {}
    for row in rows:
        found.setdefault(row.key, []).append((row.value, row.timestamp_ms))
    return found


def test_every_key_gets_the_results_of_the_test_driver_in_their_order(place: Place) -> None:
    for topic in ("clicks", "buys", *TOPICS):
        place.topic(topic, 1)
    # one record after the other, as the driver takes them: of several topics an epoch merges what it reads by time
    rows = sorted(given(), key=lambda row: row[0])
    for topic, key, value, time_ms in rows:
        place.put(topic, [(key, value, time_ms)])
    off = {"statestore.cache.max.bytes": 0}
    app = place.run(activity(), statestore_cache_max_bytes=0)
    with TopologyTestDriver(activity(), off) as driver:
        text, number = Serdes.string(), Serdes.json()
        sources = {name: driver.create_input_topic(name, text, number) for name in ("clicks", "buys")}
        for topic, key, value, time_ms in sorted(rows, key=lambda row: row[0] == "buys"):
            sources[topic].pipe_input(key, value, time_ms)
        for topic in ("sessions", "near", "minutes", "late"):
            queue = driver.output_queue(topic)
            rows_of_driver = [
                Row(
                    None if raw.key is None else raw.key.decode(),
                    None if raw.value is None else json.loads(raw.value),
                    raw.timestamp_ms,
                )
                for raw in queue
            ]
            assert rows_of_driver, topic
            assert of_keys(place.rows(topic)) == of_keys(rows_of_driver), topic
        both = {key: found.value for key, found in driver.store("both").all()}
        assert {row.key: row.value for row in app.store("both").all()} == both
    session = app.store("sessions")
    (found,) = session.fetch("b", 900_000)
    assert (found.key.window, found.value) == (Window(900_000, 900_000), 1)
    assert session.fetch_session("b", 900_000, 900_000).value == 1
    assert list(session.find_sessions("b", 0, 1)) == []
    assert app.progress().late > 0
