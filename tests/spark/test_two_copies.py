"""On Spark, a shared runtime and an application of the same id exclude each other, in both orders."""

from __future__ import annotations

import pytest
from tests.spark.place import Place, error_of, until
from tests.spark.test_shared_runtime import running, runtime_of, topics, wait
from tests.spark.topologies import amounts, expected, totals

from hayase import State


def exclude_each_other(place: Place) -> None:
    topics(place, "in", "out")
    topology = totals(f"{place.prefix}in", f"{place.prefix}out")
    with running(place, totals=topology) as runtime:
        place.put("in", amounts(0, 10))
        wait(lambda: place.last("out") == expected(10), runtime)
        for start in (
            runtime_of(place).start,
            place.app(topology).start,
            place.app(topology, application_id=f"{place.application_id}-totals").start,
        ):
            assert error_of(start).condition == "LEASE_HELD"
        place.put("in", amounts(10, 20))
        wait(lambda: place.last("out") == expected(20), runtime)
        assert runtime.topology("totals").errors == []
    with place.app(topology, application_id=f"{place.application_id}-totals") as app:
        app.start()
        place.put("in", amounts(20, 30))
        until(lambda: place.last("out") == expected(30), app)
        with runtime_of(place) as again:
            again.start()
            assert again.topology("totals").state is State.ERROR
            assert error_of(lambda: again.restart("totals")).condition == "LEASE_HELD"
            assert app.close()
            again.restart("totals")
            place.put("in", amounts(30, 40))
            wait(lambda: place.last("out") == expected(40), again)


def test_a_runtime_and_an_application_of_the_same_id_exclude_each_other(place: Place) -> None:
    exclude_each_other(place)


@pytest.mark.kafka
@pytest.mark.slow
def test_a_runtime_and_an_application_of_the_same_id_exclude_each_other_on_kafka(kafka_place: Place) -> None:
    exclude_each_other(kafka_place)
