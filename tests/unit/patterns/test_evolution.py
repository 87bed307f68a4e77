"""Recorded events read by later programs: upcasters, renamed types, unknown types, and events that do not fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.unit.patterns.shop import Expired, Order, Paid, Placed, order_aggregate

from hayase import TopologyError
from hayase.core.errors import ProcessingError
from hayase.core.records import SourceRecord
from hayase.patterns import AggregateState, Decider, EventSourced, Rejected, UnknownEvent
from hayase.patterns.recorded_events import event_headers, folded, read_event


def recorded(event_type: str, value: bytes, version: int = 1, data_version: int = 1) -> SourceRecord:
    headers = event_headers("17", version, event_type, data_version, 0, (("ce_source", b"/order"),))
    return SourceRecord("order-events", 0, 40 + version, 0, b"17", value, headers)


@dataclass(frozen=True)
class Sold:
    """What `Placed` is called since, with a currency since version 2 and in cents since version 3."""

    item: str
    cents: int
    currency: str


def decide(command: Sold, state: int) -> list[Sold] | Rejected:
    return [command]


def evolve(state: int, event: Sold) -> int:
    return state + event.cents


UPCASTERS: dict[tuple[str, int], Any] = {
    ("Sold", 1): lambda fields: {**fields, "currency": "EUR"},
    ("Sold", 2): lambda fields: {"item": fields["item"], "cents": fields["euros"] * 100, "currency": "EUR"},
}


def test_upcasters_take_an_event_from_version_to_version() -> None:
    order = EventSourced("order", Decider(0, decide, evolve), upcasters=UPCASTERS)
    assert order.data_versions == {"Sold": 3}
    old = read_event(order, recorded("Sold", b'{"item":"book","euros":2}'))
    assert old.event == Sold("book", 200, "EUR") and old.type == "Sold"
    new = read_event(order, recorded("Sold", b'{"item":"book","cents":5,"currency":"USD"}', data_version=3))
    assert new.event == Sold("book", 5, "USD")


def test_an_event_under_a_former_name_is_the_type_that_it_is_now() -> None:
    order = order_aggregate(renamed={"Ordered": Placed}, upcasters={("Ordered", 1): lambda old: {"item": old["what"]}})
    assert read_event(order, recorded("Ordered", b'{"what":"book"}')).event == Placed("book")
    assert read_event(order, recorded("Placed", b'{"item":"book"}')).event == Placed("book")


@pytest.mark.parametrize("upcasters", [{("Nothing", 1): dict}, {("Placed", 2): dict}])
def test_an_upcaster_that_never_applies_is_refused(upcasters: dict[tuple[str, int], Any]) -> None:
    with pytest.raises(TopologyError) as error:
        order_aggregate(upcasters=upcasters)
    assert error.value.condition == "INVALID_UPCASTER"


def test_an_event_of_an_unknown_type_stops_a_replay_and_is_named_unless_such_events_are_skipped() -> None:
    order = order_aggregate()
    events = [
        read_event(order, recorded("Placed", b'{"item":"book"}')),
        read_event(order, recorded("Wrapped", b"{}", 2)),
    ]
    assert events[1].event == UnknownEvent("Wrapped", b"{}")
    with pytest.raises(ProcessingError) as error:
        folded(order, "17", events)
    assert error.value.condition == "UNKNOWN_EVENT_TYPE"
    assert error.value.context["offset"] == 42 and error.value.context["aggregate"] == "order 17"
    skipping = order_aggregate(unknown_events="skip")
    assert folded(skipping, "17", events) == AggregateState("17", 2, Order("book"))


def test_an_event_that_evolve_cannot_take_stops_a_replay_and_is_named() -> None:
    order = order_aggregate()
    with pytest.raises(ProcessingError) as error:
        folded(order, "17", [read_event(order, recorded("Expired", b"{}"))])
    assert error.value.condition == "EVENT_NOT_EVOLVED" and error.value.context["offset"] == 41


def test_an_event_whose_fields_do_not_fit_is_named() -> None:
    with pytest.raises(ProcessingError) as error:
        read_event(order_aggregate(), recorded("Placed", b'{"item":7}'))
    assert error.value.condition == "EVENT_UNREADABLE" and error.value.context["offset"] == 41


def test_versions_that_are_missing_or_there_twice_stop_a_replay() -> None:
    order = order_aggregate()
    for versions in ([2], [1, 1], [1, 3]):
        events = [read_event(order, recorded("Placed", b'{"item":"book"}', version)) for version in versions]
        with pytest.raises(ProcessingError) as error:
            folded(order, "17", events)
        assert error.value.condition == "EVENTS_NOT_CONSECUTIVE"


def test_a_change_of_evolve_has_another_digest() -> None:
    def other(order: Order | None, event: Placed | Paid | Expired) -> Order | None:
        return None

    first, second = order_aggregate(), order_aggregate()
    assert first.evolve_digest() == second.evolve_digest()
    changed = EventSourced("order", Decider(None, first.decider.decide, other))
    assert changed.evolve_digest() != first.evolve_digest()
