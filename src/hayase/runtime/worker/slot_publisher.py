"""Publisher of a slot: what several topologies have ready is written together, or one by one where that fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from hayase.log.assignments import Place
from hayase.task.publication import Publication

if TYPE_CHECKING:
    from hayase.log.kafka.slot_writer import SlotStep

_LOG = logging.getLogger("hayase.runtime")

Step = TypeVar("Step")


def publish_together(
    groups: Sequence[Sequence[Step]],
    write: Callable[[Sequence[Step]], list[bool]],
    write_alone: Callable[[int], list[bool]],
) -> list[list[bool] | Exception]:
    """Write the steps of several topologies in one transaction.

    If that fails, each topology is written alone: the one that is to blame fails, the others do not. What has become of
    the transaction they find out by themselves.

    Args:
        groups: the steps of each topology.
        write: writes steps; whether each was written now.
        write_alone: writes the steps of one group, by its number.

    Returns:
        For each group what `write` gave for its steps, or the error.
    """
    if len(groups) > 1:
        try:
            written = iter(write([step for group in groups for step in group]))
            return [[next(written) for _ in group] for group in groups]
        except Exception as error:  # of any of them, also where outputs are read from disk
            _LOG.info("outputs of %d topologies are written one by one: %s", len(groups), error)
    outcomes: list[list[bool] | Exception] = []
    for number in range(len(groups)):
        try:
            outcomes.append(write_alone(number))
        except Exception as error:  # of this topology alone
            outcomes.append(error)
    return outcomes


def slot_step(publication: Publication, places: Mapping[str, Place]) -> SlotStep:
    """What the slot's producer is to write."""
    from hayase.log.kafka.slot_writer import SlotStep

    place = places[publication.bundle]
    return SlotStep(
        publication.application_id, publication.bundle, place, publication.plan_position, publication.marker,
        publication.batches, publication.is_closed,
    )  # fmt: skip
