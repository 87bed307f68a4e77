"""Tables of tables: regrouped, joined, suppressed, over several partitions."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.spark.place import Place, store_rows

from hayase import (
    BufferConfig,
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    Suppressed,
    Topology,
    avg,
    count,
)

pytestmark = pytest.mark.timeout(600)

TEXT, LONG, JSON = Serdes.string(), Serdes.long(), Serdes.json()
WRITTEN = Produced.with_(TEXT, JSON)


def staff() -> Topology:
    """People with a team and an age, teams with a city, offices of people; in the stores what is asked of them."""
    builder = StreamsBuilder()
    people = builder.table("people", Consumed.with_(TEXT, JSON), Materialized.as_("people"))
    teams = builder.table("teams", Consumed.with_(TEXT, JSON))
    offices = builder.table("offices", Consumed.with_(TEXT, JSON))
    people.group_by("team", Grouped.with_(TEXT, JSON)).agg(Materialized.as_("sizes"), n=count(), age=avg("age"))
    placed = people.left_join(teams, lambda row: row["team"], lambda row, team: {**row, "city": team and team["city"]})
    placed.to_stream().to("placed", WRITTEN)
    per_city = placed.group_by(lambda _, row: (row["city"], 1), Grouped.with_(TEXT, LONG, "by-city"))
    per_city.count(Materialized.as_("cities"))
    people.outer_join(offices, lambda person, office: [person and person["age"], office], Materialized.as_("places"))
    slow = people.suppress(Suppressed.until_time_limit(timedelta(milliseconds=100), BufferConfig.unbounded()))
    slow.to_stream().to("slow", WRITTEN)
    return builder.build()


def test_tables_of_tables_hold_what_their_inputs_say_when_they_have_settled(place: Place) -> None:
    for topic, partitions in {"people": 2, "offices": 2, "teams": 3, "placed": 1, "slow": 1}.items():
        place.topic(topic, partitions)
    place.put("people", [(f"p{i}", {"team": f"t{i % 5}", "age": i}, i) for i in range(40)])
    place.put("teams", [(f"t{i}", {"city": f"c{i % 2}"}, i) for i in range(4)])
    place.put("offices", [(f"p{i}", i, i) for i in range(38, 42)])
    app = place.run(staff())
    assert store_rows(app, "cities") == {"c0": 16, "c1": 16}
    assert place.rows("slow") == []
    place.put("teams", [("t4", {"city": "c1"}, 200), ("t0", {"city": "c1"}, 201)])
    place.put("people", [("p0", {"team": "t1", "age": 100}, 202), ("p1", None, 203)])
    app = place.run(staff())
    assert store_rows(app, "cities") == {"c0": 8, "c1": 31}
    sizes = store_rows(app, "sizes")
    assert {team: row["n"] for team, row in sizes.items()} == {"t0": 7, "t1": 8, "t2": 8, "t3": 8, "t4": 8}
    assert sizes["t1"]["age"] == (sum(range(6, 40, 5)) + 100) / 8
    placed = place.last("placed")
    assert placed["p0"] == {"team": "t1", "age": 100, "city": "c1"}
    assert placed["p1"] is None
    assert {row["city"] for row in placed.values() if row is not None} == {"c0", "c1"}
    places = store_rows(app, "places")
    assert [places[key] for key in ("p0", "p39", "p40")] == [[100, None], [39, 39], [None, 40]]
    assert "p1" not in places
    slow = place.rows("slow")
    assert len(slow) == len({row.key for row in slow}) > 1
    assert place.last("slow")["p0"] == {"team": "t1", "age": 100}
