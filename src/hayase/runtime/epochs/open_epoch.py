"""Whether an epoch that an earlier run left open may be finished by the program of this one."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from hayase.core.decoding import decode_json
from hayase.core.errors import CheckpointError
from hayase.log.protocol import Log
from hayase.runtime.epochs.record_retention import superseded
from hayase.state.changelog.changelog import Changelog
from hayase.storage.blobs import BlobStore
from hayase.storage.checksum import with_checksum, without_checksum
from hayase.task.epoch_record import EPOCH_DIGITS, EpochRecord, record_corrupt
from hayase.task.plan import Plan
from hayase.topology.topology import Topology

AMENDMENTS_FOLDER = "amendments/"
_AMENDMENT = re.compile(rf"{AMENDMENTS_FOLDER}([0-9]{{{EPOCH_DIGITS},}})-[0-9]{{6,}}")
"""Blobs of other names are not Hayase's: file managers and tools for backups leave files in a folder."""
_JOURNALLED = ""
"""In place of a definition: the sub-topology is journalled, or sends nothing, by now."""


def check_program(
    record: EpochRecord, plan: Plan, topology: Topology, blobs: BlobStore, log: Log, application_id: str
) -> None:
    """Check that what sub-topologies without a journal send in an open epoch is what was already processed of it.

    A sub-topology without a journal sends its rows again in every attempt. If its expressions have changed while the
    epoch was open, tasks that have completed it have processed other rows than the others. So the epoch is finished
    with the new definition only if no task downstream has completed it, and that definition is published before any
    begins.

    Raises:
        CheckpointError: `OPEN_EPOCH_OF_ANOTHER_PROGRAM`.
    """
    if record.program is UNSET or not record.program.unjournalled:
        return
    began = _amended(blobs, record.epoch) or dict(record.program.unjournalled)
    now = {
        subtopology: plan.subtopologies[subtopology].definition if subtopology in plan.subtopologies else _JOURNALLED
        for subtopology in began
    }
    changed = sorted(subtopology for subtopology in began if began[subtopology] != now[subtopology])
    if not changed:
        return
    through = bundle_through(record, _downstream(topology, changed), plan, blobs, log, application_id)
    if through:
        nodes = ", ".join(
            name
            for subtopology in changed
            if subtopology in plan.subtopologies
            for name in plan.subtopologies[subtopology].nodes
        )
        raise CheckpointError(
            "OPEN_EPOCH_OF_ANOTHER_PROGRAM",
            f"epoch {record.epoch} was begun with other expressions, or other sources, in sub-topology "
            f"{', '.join(changed)} ({nodes}), and {through} has processed what they sent. Start the program with the "
            "old ones once more to finish the epoch, then this one; or start over with `hayase app reset`",
            epoch=record.epoch,
        )
    _amend(blobs, record.epoch, now)


def forget_amendments(blobs: BlobStore, done: int) -> None:
    """Delete what was published for epochs that are done."""
    for name in blobs.list(AMENDMENTS_FOLDER):
        amendment = _AMENDMENT.fullmatch(name)
        if amendment is not None and int(amendment[1]) <= done:
            blobs.delete(name)


def _amended(blobs: BlobStore, epoch: int) -> dict[str, str] | None:
    names = _names(blobs, epoch)
    data = blobs.get(names[-1]) if names else None
    if data is None:
        return None
    body = without_checksum(data)
    if body is None:
        raise record_corrupt(f"{names[-1]}, which goes with it, has a wrong checksum", epoch)
    return decode_json(body, as_type=dict[str, str])


def _amend(blobs: BlobStore, epoch: int, definitions: Mapping[str, str]) -> None:
    number = len(_names(blobs, epoch))
    name = f"{AMENDMENTS_FOLDER}{epoch:0{EPOCH_DIGITS}d}-{number:06d}"
    if not blobs.put_if_absent(name, with_checksum(msgspec.json.encode(definitions))):
        raise superseded(f"epoch {epoch} was begun again by another run")


def _names(blobs: BlobStore, epoch: int) -> list[str]:
    matches = (_AMENDMENT.fullmatch(name) for name in blobs.list(AMENDMENTS_FOLDER))
    return [match[0] for match in matches if match is not None and int(match[1]) == epoch]


def _downstream(topology: Topology, subtopologies: list[str]) -> set[str]:
    """The sub-topologies that rows of those reach by repartition topics, directly or not."""
    readers = {
        topic: str(sub.id)
        for sub in topology.subtopologies
        for source in sub.sources
        for topic in source.topics
        if topic in topology.repartitions
    }
    fed = {
        str(sub.id): {readers[sink.topic] for sink in sub.sinks if sink.topic is not None and sink.topic in readers}
        for sub in topology.subtopologies
    }
    downstream: set[str] = set()
    waiting = list(subtopologies)
    while waiting:
        new = fed.get(waiting.pop(), set()) - downstream
        downstream |= new
        waiting.extend(new)
    return downstream


def bundle_through(
    record: EpochRecord, subtopologies: set[str], plan: Plan, blobs: BlobStore, log: Log, application_id: str
) -> str | None:
    """A bundle of those sub-topologies that has completed the epoch; `None` if none has."""
    bundles = [bundle.id for bundle in plan.bundles if bundle.subtopology in subtopologies]
    for bundle in bundles:
        if Changelog(blobs, bundle).get(record.epoch, journal=False) is not None:
            return f"bundle {bundle}"
    for bundle, marker in log.markers(application_id).items():
        if bundle in bundles and marker.checkpoint_id == record.checkpoint_id and marker.epoch >= record.epoch:
            return f"bundle {bundle}"
    return None
