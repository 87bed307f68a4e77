"""Foreign-key joins on Spark: rows of both tables change while the application runs, and while it does not."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from tests.spark.place import Place, store_rows

from hayase import Consumed, Materialized, Serdes, StreamsBuilder, Topology

pytestmark = pytest.mark.timeout(600)

TEXT, JSON = Serdes.string(), Serdes.json()
KEYS = "abcdefgh"
Rows = dict[str, dict[str, Any] | None]


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def anywhere(request: pytest.FixtureRequest) -> Any:
    """A place on either log."""
    return request.getfixturevalue("place" if request.param == "embedded" else "kafka_place")


def joins(place: Place) -> Topology:
    """People joined with their teams, and with the people who lead them."""
    builder = StreamsBuilder()
    read = Consumed.with_(TEXT, JSON)
    people, teams = (builder.table(place.prefix + name, read) for name in ("people", "teams"))
    kept = {name: Materialized.as_(name).with_value_serde(JSON) for name in ("by-team", "by-leader")}
    people.join(teams, lambda row: row["of"], lambda row, team: [row["n"], team["n"]], None, kept["by-team"])
    people.join(people, lambda row: row["of"], lambda row, other: [row["n"], other["n"]], None, kept["by-leader"])
    return builder.build()


def change(rnd: random.Random, rows: Rows, number: int) -> tuple[str, dict[str, Any] | None, int]:
    """A row that comes, changes, or goes; a third of the rows name nobody."""
    key = rnd.choice(KEYS)
    rows[key] = None if rnd.random() < 0.3 else {"of": rnd.choice([*KEYS[:4], None, "nobody"]), "n": number}
    return key, rows[key], number


def expected(left: Rows, right: Rows) -> dict[str, list[int]]:
    """The inner join of the rows."""
    pairs = ((key, row, right.get(row["of"])) for key, row in left.items() if row is not None)
    return {key: [row["n"], other["n"]] for key, row, other in pairs if other is not None}


def test_results_follow_changes_of_both_tables_over_epochs_and_runs(anywhere: Place) -> None:
    for topic in ("people", "teams"):
        anywhere.topic(topic, 2)
    rnd = random.Random(7)
    people: Rows = {}
    teams: Rows = {}
    for run in range(2):
        app = anywhere.app(joins(anywhere), commit_interval_ms=20)
        app.start()
        for number in range(run * 1000, run * 1000 + 200):
            anywhere.put("people", [change(rnd, people, number) for _ in range(rnd.randrange(4))])
            anywhere.put("teams", [change(rnd, teams, number) for _ in range(rnd.randrange(3))])
            time.sleep(rnd.random() / 50)
        app.close()

    app = anywhere.run(joins(anywhere))

    assert store_rows(app, "by-team") == expected(people, teams)
    assert store_rows(app, "by-leader") == expected(people, people)
