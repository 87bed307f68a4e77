"""States are compared with a fold of events also when a subject is erased."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pytest
from tests.unit.patterns.local_orders import LocalOrders
from tests.unit.patterns.shop import topology_of

from hayase.patterns import Decider, EventSourced, PatternsApp, Personal, SubjectKeys
from hayase.patterns.verification import Verification, verify

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Note:
    text: Annotated[str | None, Personal()]


@dataclass(frozen=True)
class Noted:
    text: Annotated[str | None, Personal()]


@dataclass(frozen=True)
class Notes:
    count: int = 0
    texts: Annotated[list[str | None], Personal(erased=[])] = field(default_factory=list)


def decide(command: Note, notes: Notes) -> list[Noted]:
    return [Noted(command.text)]


def evolve(notes: Notes, event: Noted) -> Notes:
    return Notes(notes.count + 1, [*notes.texts, event.text])


def evolve_otherwise(notes: Notes, event: Noted) -> Notes:
    return Notes(notes.count + 2, [*notes.texts, event.text])


def test_erased_fields_of_states_that_are_folded_from_erased_events_are_no_differences(tmp_path: Path) -> None:
    keys = SubjectKeys("notes-keys")
    notes = EventSourced("notes", Decider(Notes(), decide, evolve), keys=keys)
    topology = topology_of(notes)
    local = LocalOrders(tmp_path, topology=topology, topics=notes.topics, events="notes-events")
    app = PatternsApp(topology, local.settings)
    with app.commands(notes) as commands:
        for key in ("ada", "bob"):
            commands.send_nowait(key, Note(f"of {key}"))
        local.epoch()
        app.erase("ada")
        commands.send_nowait("ada", Note("later"))
        local.epoch()
        local.epoch()

    def verified(fold: EventSourced[Note, Noted, Notes]) -> Verification:
        return verify(fold, PatternsApp(topology_of(fold), local.settings))

    states = app.events(notes)
    assert states.state("ada").state == Notes(2, ["later"])  # a fold has [None, "later"]
    assert verified(notes).differences == []
    changed = EventSourced("notes", Decider(Notes(), decide, evolve_otherwise), keys=keys)
    assert {each.aggregate_id for each in verified(changed).differences} == {"ada", "bob"}
    local.app.close()
