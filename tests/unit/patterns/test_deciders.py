"""Deciders, and the types that are read from their functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pydantic
import pytest
from tests.unit.patterns.shop import DECIDER, Expire, Expired, Order, Paid, Pay, Place, Placed, evolve, order_aggregate

from hayase import TopologyError
from hayase.core.errors import SerializationError
from hayase.patterns import Decider, DeciderTestCase, EventSourced
from hayase.patterns.type_names import TypeNames


def test_a_decider_is_tested_as_a_sentence() -> None:
    DeciderTestCase(DECIDER).given(Placed("book")).when(Pay(5)).then(Paid(2), Paid(3)).then_state(Order("book", 5))
    DeciderTestCase(DECIDER).given(Placed("book")).when(Place("pen")).then_rejected("it is there with book")
    DeciderTestCase(DECIDER).when(Expire()).then()


def test_a_test_case_fails_where_the_decision_is_another_one() -> None:
    with pytest.raises(AssertionError, match="it was rejected"):
        DeciderTestCase(DECIDER).when(Pay(5)).then(Paid(5))
    with pytest.raises(AssertionError, match="expected a rejection"):
        DeciderTestCase(DECIDER).when(Place("book")).then_rejected()
    with pytest.raises(AssertionError, match="it decided"):
        DeciderTestCase(DECIDER).when(Place("book")).then(Placed("pen"))
    with pytest.raises(AssertionError, match="the state is"):
        DeciderTestCase(DECIDER).when(Place("book")).then_state(Order("pen"))


def test_a_test_case_names_values_that_are_no_commands_or_events_of_the_decider() -> None:
    case: Any = DeciderTestCase(DECIDER)
    commands, events = "its commands are Place, Pay, Expire", "its events are Placed, Paid, Expired"
    with pytest.raises(TypeError, match=f"given got 'book', which is of the type str and no event of .*; {events}"):
        case.given(Placed("book"), "book")
    with pytest.raises(TypeError, match=r"when got Placed\(item='book'\), which is of the type Placed and no command"):
        case.when(Placed("book"))
    with pytest.raises(TypeError, match=commands):
        case.when("Place")
    with pytest.raises(TypeError, match=r"then got Place\(item='book'\), which is of the type Place and no event"):
        DeciderTestCase[Any, Any, Any](DECIDER).when(Place("book")).then(Place("book"))
    foreign: Any = dataclass(type("Placed", (), {"__annotations__": {"item": str}, "__module__": "other"}))
    with pytest.raises(TypeError, match=r"of the type other\.Placed and no event .*shop\.Placed"):
        DeciderTestCase[Any, Any, Any](DECIDER).given(foreign("book"))


def test_a_test_case_names_what_decide_gives_beside_its_events() -> None:
    broken: Any = Decider[Any, Any, Any](None, lambda command, order: [Place("book")], evolve)
    with pytest.raises(TypeError, match=r"decide gave Place\(item='book'\), which is of the type Place and no event"):
        DeciderTestCase(broken).when(Place("book"))


def test_a_test_case_takes_all_where_types_are_not_annotated_unless_it_is_given_them() -> None:
    counting: Any = Decider[Any, Any, Any](0, lambda command, state: [command], lambda state, event: state + event)
    DeciderTestCase(counting).given(1).when(2).then(2).then_state(3)
    with pytest.raises(TypeError, match=r"when got '2', .* no command .*; its commands are int"):
        DeciderTestCase(counting, commands=[int]).when("2")


def test_types_are_read_from_the_annotations_of_the_functions() -> None:
    order = order_aggregate()
    assert list(order.command_types.types) == ["Place", "Pay", "Expire"]
    assert list(order.event_types.types) == ["Placed", "Paid", "Expired"]
    assert order.initial_state() is None


def test_functions_without_annotations_need_the_types() -> None:
    decider: Decider[Any, Any, Any] = Decider(0, lambda command, state: [], lambda state, event: state)
    with pytest.raises(TopologyError) as error:
        EventSourced("order", decider)
    assert error.value.condition == "INVALID_TYPES" and "commands=[" in error.value.message
    made = EventSourced("order", decider, commands=[Place], events=[Placed], states=[int])
    assert made.initial_state() == 0


def test_dataclasses_structs_and_models_are_read_as_they_were_written() -> None:
    class Model(pydantic.BaseModel):
        cents: int

    types = TypeNames("event", [Placed, Paid, Model], {})
    for value in (Placed("book"), Paid(4), Model(cents=5)):
        name = types.name_of(value)
        assert types.decode(name, types.encode(name, value)) == value


def test_an_initial_state_that_can_be_changed_is_not_shared() -> None:
    def decide(command: Place, items: list[str]) -> list[Placed]:
        return [Placed(command.item)]

    def evolve(items: list[str], event: Placed) -> list[str]:
        items.append(event.item)
        return items

    basket = EventSourced("basket", Decider([], decide, evolve))
    basket.evolved(basket.initial_state(), Placed("book"))
    assert basket.initial_state() == []


@pytest.mark.parametrize("hints", [[int], [Place, type("Place", (Order,), {})], ["Place"]])
def test_what_cannot_be_told_apart_by_its_name_or_has_no_fields_is_refused(hints: list[Any]) -> None:
    with pytest.raises(TopologyError) as error:
        TypeNames("event", hints, {})
    assert error.value.condition == "INVALID_TYPES"


def test_a_value_of_another_type_is_refused_with_the_types_that_there_are() -> None:
    with pytest.raises(SerializationError, match="Place, Pay, Expire"):
        order_aggregate().command("1", Placed("book"))  # type: ignore[arg-type] # it is what is tested


def test_a_reaction_that_takes_another_event_than_that_which_it_is_for_is_refused() -> None:
    order = order_aggregate()

    def other(event: Paid, own: Any) -> None: ...

    def either(event: Paid | Placed, own: Any) -> None: ...

    def base(event: object, own: Any) -> None: ...

    def anything(event: Any, own: Any) -> None: ...

    with pytest.raises(TopologyError, match=r"INVALID_REACTION.*'.*other' to Placed takes Paid"):
        order.on(Placed)(other)
    for function in (either, base, anything, lambda event, own: None):
        order.on(Placed)(function)
    assert len(order.reactions) == 4


def test_a_reaction_to_an_event_of_others_is_refused() -> None:
    with pytest.raises(TopologyError) as error:
        order_aggregate().on(Place)  # type: ignore[arg-type] # it is what is tested
    assert error.value.condition == "INVALID_REACTION"


def test_a_former_event_is_not_one() -> None:
    assert "Expired" in order_aggregate().event_types
    assert "Gone" in order_aggregate(renamed={"Gone": Expired}).event_types
    with pytest.raises(TopologyError):
        order_aggregate(renamed={"Gone": Order})
