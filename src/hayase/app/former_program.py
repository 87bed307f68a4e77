"""The program that ran before, where something is left to it before another one goes on."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator

from hayase.app.plan_switch import FittedPlan, open_epoch
from hayase.app.unread_records import unread
from hayase.log.protocol import Log
from hayase.runtime.wire.app_spec import AppSpec, programs
from hayase.storage.blobs import BlobStore
from hayase.task.epoch_record import EpochRecord, Epochs


def program_of_open_epoch(blobs: BlobStore, fitted: FittedPlan) -> AppSpec | None:
    """The program that began an open epoch, which it is to finish before another plan is in use.

    `None` if no epoch is open, the plan is the same or cannot go on with the state anyway, or that program cannot be
    loaded any more.
    """
    if fitted.difference is None or fitted.difference.refused:
        return None
    record = open_epoch(blobs)
    program = next(_programs_of(blobs, record), None) if record is not None else None
    if program is None or record is None:
        return None
    return dataclasses.replace(program, finishes=record.epoch, drains=frozenset())


def draining_program(blobs: BlobStore, log: Log, topics: Collection[str]) -> AppSpec | None:
    """The program that ran last, which is to empty internal topics before another one goes on.

    It reads nothing else, and finishes an open epoch first. Which one it is does not matter where a start has been
    killed between publishing its program and deleting the one before: both can read what is in the topics, since no
    epoch of the later one has begun.

    Args:
        blobs: the checkpoint.
        log: the log.
        topics: whose records the next program would lose or misread.

    Returns:
        `None` if nothing is unread in them, or that program cannot be loaded any more.
    """
    if not topics:
        return None
    epochs = Epochs(blobs)
    last = max(epochs.recorded(), default=-1)
    record = epochs.positions(last)
    if record is None:
        return None
    is_open = last > epochs.last_done()
    for program in _programs_of(blobs, record):
        drains = frozenset(topics) & program.plan.internal.keys()
        counts = {topic: program.plan.internal[topic] for topic in drains}
        if any(unread(log, record, topic, count, is_open=is_open) != 0 for topic, count in counts.items()):
            return dataclasses.replace(program, finishes=last if is_open else None, drains=drains)
    return None


def _programs_of(blobs: BlobStore, record: EpochRecord) -> Iterator[AppSpec]:
    """The programs that are there still, and whose plan an epoch has."""
    begun = record.checkpoint_id, record.plan_number, record.plan
    return (each for each in programs(blobs) if (each.checkpoint_id, each.plan_number, each.plan.digest) == begun)
