"""Assignments: which transactional id may publish a bundle of a shared runtime.

Numbered blobs in the runtime's checkpoint, created once; the highest number counts. The protocol, and why it publishes
nothing twice, is in `docs/decisions/20261125-slot-producers.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import CheckpointError, LeaseHeldError
from hayase.storage.blobs import BlobStore
from hayase.storage.numbered_names import numbers_of

ASSIGNMENTS_FOLDER = "assignments/"
LARGE_EPOCH_RECORDS = 2_000
"""An epoch that has a delta with so many outputs is published under the second id of its place."""
_DIGITS = 12


class Place(msgspec.Struct, frozen=True):
    """Where a bundle is published: a transactional id, and the number of the assignment that gave it that one."""

    id: str
    since: int

    @property
    def ids(self) -> tuple[str, str]:
        """All ids under which a bundle may be published here."""
        return self.id, large_id(self.id)

    def id_for(self, records: int) -> str:
        """The id for an epoch whose delta has so many outputs; all attempts publish those, so they have one id."""
        return large_id(self.id) if records >= LARGE_EPOCH_RECORDS else self.id


def large_id(id_: str) -> str:
    """The second id of a place, for large epochs; no application has such a name."""
    return f"{id_}@large"


Places = Mapping[str, Mapping[str, Place]]
"""By application id and bundle."""


class Assignment(msgspec.Struct, frozen=True):
    """A numbered assignment.

    Attributes:
        places: of all bundles that slots of the runtime may publish.
        given_back: applications whose bundles are published under ids of their own again.
    """

    number: int
    places: dict[str, dict[str, Place]]
    given_back: list[str] = []

    def place(self, application_id: str, bundle: str) -> Place | None:
        """Where a bundle is published; `None`: nowhere."""
        return self.places.get(application_id, {}).get(bundle)

    def ids_lost_to(self, later: Assignment) -> set[str]:
        """The ids under which this one has a bundle that has another place, or none, in a later one."""
        return {
            id_
            for application_id, bundles in self.places.items()
            for bundle, place in bundles.items()
            if later.place(application_id, bundle) != place
            for id_ in place.ids
        }


class Assignments:
    """The assignments of a runtime.

    Args:
        blobs: the runtime's checkpoint.
    """

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def newest(self) -> Assignment:
        """The one that counts; number 0, without places, before the first.

        Raises:
            CheckpointError: `CHECKPOINT_CORRUPT`.
        """
        while True:
            number = max(self._numbers(), default=0)
            if number == 0:
                return Assignment(0, {})
            found = self._get(number)
            if found is not None:  # else it was deleted since, so there is a later one
                return found

    def create(self, assignment: Assignment) -> None:
        """Publish one.

        Raises:
            LeaseHeldError: `LEASE_LOST`: another run has published that number, or a later one.
        """
        published = self._blobs.put_if_absent(_name(assignment.number), msgspec.json.encode(assignment))
        # A run that slept before it published may find that others have published, and deleted, since.
        if not published or max(self._numbers(), default=0) > assignment.number:
            raise LeaseHeldError(
                "LEASE_LOST",
                f"another run has published assignment {assignment.number} of bundles to producers, or a later one: "
                "another copy of the runtime took over. Nothing was written twice; this one goes on with the newest "
                "one when it is started again",
            )

    def earlier(self, number: int) -> list[Assignment]:
        """Those below a number that are there still."""
        found = (self._get(each) for each in self._numbers() if each < number)
        return [each for each in found if each is not None]

    def forget(self, assignments: Iterable[Assignment]) -> None:
        """Delete some, once no process can write by them any longer."""
        for each in assignments:
            self._blobs.delete(_name(each.number))

    def _numbers(self) -> list[int]:
        return numbers_of(self._blobs.list(ASSIGNMENTS_FOLDER), ASSIGNMENTS_FOLDER, _DIGITS)

    def _get(self, number: int) -> Assignment | None:
        data = self._blobs.get(_name(number))
        if data is None:
            return None
        try:
            return decode_json(data, as_type=Assignment)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CheckpointError(
                "CHECKPOINT_CORRUPT",
                f"{_name(number)} in the runtime's checkpoint is damaged ({len(data)} bytes: {error}). Restore the "
                "checkpoint from a copy",
            ) from error


def _name(number: int) -> str:
    return f"{ASSIGNMENTS_FOLDER}{number:0{_DIGITS}d}"
