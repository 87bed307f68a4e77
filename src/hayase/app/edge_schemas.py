"""The schemas of records between sub-topologies, kept in the checkpoint.

A program that cannot read what an earlier one left on the way is refused when it starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import msgspec

from hayase.app.unread_records import check_read
from hayase.core.decoding import decode_json
from hayase.core.errors import CheckpointError
from hayase.log.protocol import Log
from hayase.runtime.epochs.open_epoch import bundle_through
from hayase.serde.evolution import Description, described, shown, unreadable
from hayase.serde.protocol import Serde, inner_serdes
from hayase.storage.blobs import BlobStore
from hayase.storage.numbered_names import numbers_of
from hayase.task.compiled_subtopology import CompiledSubtopology
from hayase.task.epoch_record import EpochRecord, Epochs
from hayase.task.plan import Plan
from hayase.topology.nodes import SourceNode
from hayase.topology.topology import Topology

_FOLDER = "edges/"
_DIGITS = 6

EdgeSchemas = dict[str, dict[str, list[Description | None]]]
"""Repartition or internal topic → `key` and `value`: the serdes they consist of, as far as these have descriptions."""


def check_edge_schemas(
    blobs: BlobStore,
    log: Log,
    topology: Topology,
    plan: Plan,
    compiled: Mapping[str, CompiledSubtopology],
    application_id: str,
) -> None:
    """Check that this program reads what is in flight between sub-topologies, and record how it writes that itself.

    On the way is what was sent in an epoch that is open, and what is unread in internal topics. Where nothing is,
    serdes may change.

    Raises:
        CheckpointError: `OPEN_EPOCH_OF_ANOTHER_PROGRAM`, `UNREAD_INTERNAL_RECORDS`.
    """
    now, numbers = _schemas_of(topology, compiled), sorted(numbers_of(blobs.list(_FOLDER), _FOLDER, _DIGITS))
    before = _decoded(blobs, numbers[-1]) if numbers else None
    if before == now:
        return
    if before is not None:
        epochs = Epochs(blobs)
        last, done = max(epochs.recorded(), default=-1), epochs.last_done()
        record = epochs.positions(last)
        for topic, reason in _changes(before, now):
            if record is not None:
                _check_open(record, topic, reason, topology, plan, blobs, log, application_id, is_open=last > done)
                _check_unread(record, topic, reason, topology, plan, log, is_open=last > done)
    blobs.put_if_absent(_name(numbers[-1] + 1 if numbers else 0), json.dumps(now).encode())


def unreadable_topics(
    blobs: BlobStore, topology: Topology, compiled: Mapping[str, CompiledSubtopology]
) -> frozenset[str]:
    """Internal topics in which this program could not read what the one before has written."""
    if not topology.internal_topics:
        return frozenset()
    numbers = numbers_of(blobs.list(_FOLDER), _FOLDER, _DIGITS)
    before = _decoded(blobs, max(numbers)) if numbers else {}
    changed = {topic for topic, _ in _changes(before, _schemas_of(topology, compiled))}
    return frozenset(changed & set(topology.internal_topics))


def _check_open(
    record: EpochRecord,
    topic: str,
    reason: str,
    topology: Topology,
    plan: Plan,
    blobs: BlobStore,
    log: Log,
    application_id: str,
    *,
    is_open: bool,
) -> None:
    senders = {str(sub.id) for sub in topology.subtopologies if any(sink.topic == topic for sink in sub.sinks)}
    through = bundle_through(record, senders, plan, blobs, log, application_id) if is_open else None
    if through is not None:
        raise CheckpointError(
            "OPEN_EPOCH_OF_ANOTHER_PROGRAM",
            f"epoch {record.epoch} is open, and {through} has sent its part of it to topic {topic!r}, which this "
            f"program cannot read: {reason}. Start the program with the old serdes once more to finish the epoch, then "
            f"this one; or start over with `hayase app reset {application_id}`",
            epoch=record.epoch,
            topic=topic,
        )


def _check_unread(
    record: EpochRecord, topic: str, reason: str, topology: Topology, plan: Plan, log: Log, *, is_open: bool
) -> None:
    if topic in topology.internal_topics:
        count = plan.internal.get(topic, 0)
        check_read(log, record, topic, count, f"this one cannot read them: {reason}", is_open=is_open)


def _changes(before: EdgeSchemas, now: EdgeSchemas) -> Iterator[tuple[str, str]]:
    """Topics whose records this program cannot read, and why."""
    for topic, sides in now.items():
        for side, new in sides.items():
            old = before.get(topic, {}).get(side, [])
            if len(old) != len(new):  # made of other parts, by another release: unknown
                continue
            for was, to_be in zip(old, new, strict=True):
                reason = unreadable(was, to_be, key=side == "key") if was is not None and to_be is not None else None
                if was is not None and to_be is not None and reason is not None:
                    yield topic, f"of its {side}s, {reason} ({shown(was)}, now {shown(to_be)})"


def _schemas_of(topology: Topology, compiled: Mapping[str, CompiledSubtopology]) -> EdgeSchemas:
    inside = {
        node.name: topic
        for node in topology.nodes
        if isinstance(node, SourceNode)
        for topic in node.topics
        if topic in topology.internal_topics or topic in topology.repartitions
    }
    schemas = {
        inside[source.name]: {
            "key": list(_parts(source.key_serde)),
            "value": list(_parts(source.value_serde)),
        }
        for subtopology in compiled.values()
        for source in subtopology.sources
        if source.name in inside
    }
    read_again: EdgeSchemas = json.loads(json.dumps(schemas))
    return read_again


def _parts(serde: Serde) -> Iterator[Description | None]:
    """A serde, or those that it is made of."""
    inner = inner_serdes(serde)
    if not inner:
        yield described(serde)
    for part in inner:
        yield from _parts(part)


def _decoded(blobs: BlobStore, number: int) -> EdgeSchemas:
    name = _name(number)
    data = blobs.get(name) or b""
    try:
        return decode_json(data, as_type=EdgeSchemas)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CheckpointError(
            "EDGE_SCHEMAS_CORRUPT",
            f"{name} in the checkpoint, which says how earlier programs wrote what travels between sub-topologies, is "
            f"damaged ({len(data)} bytes: {error}). Restore the checkpoint from a copy, or start over with "
            "`hayase app reset`",
        ) from error


def _name(number: int) -> str:
    return f"{_FOLDER}{number:0{_DIGITS}d}"
