"""Places of a shared runtime's bundles: the planner gives each bundle the transactional id of its slot."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from hayase.log.assignments import Assignment, Assignments, Place, large_id
from hayase.log.kafka.slot_ids import Owner, SlotIds, owner_in, slot_id
from hayase.log.protocol import LogConfig, Marker
from hayase.runtime.wire.app_spec import AppSpec
from hayase.storage.blobs import BlobStore

_LOG = logging.getLogger("hayase.runtime")


@dataclass(frozen=True, slots=True)
class PlacedTopology:
    """A topology whose bundles are published by slots.

    Attributes:
        checkpoint_id: of the topology.
        slots: bundle → its slot.
        positions: bundle → its place in the plan (see `EpochWriter.publish_epoch`).
        log: where they are published.
        own: slots whose bundles of this topology have an id to themselves.
    """

    checkpoint_id: str
    slots: Mapping[str, int]
    positions: Mapping[str, int]
    log: LogConfig
    own: frozenset[int] = frozenset()

    @classmethod
    def of(cls, app: AppSpec) -> PlacedTopology:
        """A topology with the bundles and slots that its program gives it."""
        positions = {bundle.id: position for position, bundle in enumerate(app.plan.bundles)}
        known = {bundle: app.plan_positions.get(bundle, position) for bundle, position in positions.items()}
        return cls(app.checkpoint_id, app.slot_of_bundles(), known, app.log)


class SlotPlaces:
    """The assignments of a runtime, as one run of its planner changes them.

    Args:
        owner: the runtime.
        blobs: its checkpoint.
        ids: of the log.
        slots: how many there are.
        open_blobs: opens the checkpoint of another runtime.
    """

    def __init__(
        self, owner: Owner, blobs: BlobStore, ids: SlotIds, slots: int, open_blobs: Callable[[str], BlobStore]
    ) -> None:
        self._owner = owner
        self._assignments = Assignments(blobs)
        self._ids = ids
        ids_of_slots = [slot_id(owner.runtime, slot) for slot in range(slots)]
        self._slot_ids = [*ids_of_slots, *map(large_id, ids_of_slots)]
        self._open_blobs = open_blobs
        self._made: Assignment | None = None

    def place(self, topologies: Mapping[str, PlacedTopology], started: Collection[str]) -> None:
        """Give bundles their places; steps that name them may be handed out when it returns.

        Args:
            topologies: by application id; bundles of others lose theirs.
            started: those of them that begin now; strays of their earlier runs must give up.

        Raises:
            HayaseError: see `SlotIds.assign`, `take_over` and `give_back`; calling again is safe.
        """
        first = self._made is None
        renewed = set(topologies) if first else set(started)
        wanted = {
            application_id: {
                bundle: slot_id(self._owner.runtime, slot, application_id if slot in topology.own else "")
                for bundle, slot in topology.slots.items()
            }
            for application_id, topology in topologies.items()
        }
        # A checkpoint that was restored from a copy may not know all ids that are in use: the run's are taken first.
        made = self._ids.assign(self._assignments, wanted, renewed=renewed, ids=self._slot_ids if first else ())
        returned = self._ids.given_back_before(self._assignments, made)
        due = {each: topologies[each] for each in sorted((renewed | returned) & topologies.keys())}
        known = self._ids.own_markers({each: topology.positions for each, topology in due.items()})
        for application_id, topology in due.items():
            self._take_over(application_id, topology, known[application_id], always=application_id in returned)
        self._ids.settle(self._assignments, made)
        self._made = made
        _LOG.debug("assignment %d of bundles to slots, for %d topologies", made.number, len(wanted))

    def of(self, application_id: str) -> dict[str, Place]:
        """The places of a topology's bundles."""
        return dict(self._made.places.get(application_id, {})) if self._made is not None else {}

    def close(self) -> None:
        """Let go of connections."""
        self._ids.close()

    def _take_over(
        self, application_id: str, topology: PlacedTopology, known: Mapping[str, Marker], *, always: bool
    ) -> None:
        owner = owner_in(known)
        if owner is not None and owner.runtime != self._owner.runtime:
            give_back(self._ids, application_id, owner, self._open_blobs)
            always = True
        self._ids.take_over(
            application_id, topology.checkpoint_id, topology.positions, self._owner, known, always=always
        )


def give_back(ids: SlotIds, application_id: str, owner: Owner, open_blobs: Callable[[str], BlobStore]) -> None:
    """Have an application's bundles published under ids of their own, not by the slots of a runtime any more.

    The caller holds the application's lease.

    Raises:
        HayaseError: see `SlotIds.give_back`.
    """
    ids.give_back(application_id, Assignments(open_blobs(owner.checkpoint)), owner)
