"""The schemas of stores, kept in the checkpoint.

A program that cannot read them is refused when it starts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import msgspec

from hayase.core.decoding import decode_json
from hayase.core.errors import CheckpointError
from hayase.serde.evolution import AGGREGATE, Description, described, shown, unreadable
from hayase.storage.blobs import BlobStore
from hayase.storage.numbered_names import numbers_of
from hayase.topology.topology import Topology

_FOLDER = "schemas/"
_DIGITS = 6
_REWRITTEN = "rewritten"
"""Beside the sides of a store: its values were rewritten then, so what was before does not count."""
_EMPTIED = "emptied"
"""The same of a store that began empty then: of neither side what was before counts."""

Schemas = dict[str, dict[str, Description]]
"""Store → `key` and `value`, as far as they can be described."""


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """Keys or values of a store that this program cannot read.

    Attributes:
        store: its name.
        side: `key` or `value`.
        old: how they were written last: a serde that reads that reads all of them.
        shown_old: what cannot be read, in few words.
        shown_new: what the program has.
        reason: why it cannot be read.
    """

    store: str
    side: str
    old: Description
    shown_old: str
    shown_new: str
    reason: str


def check_store_schemas(blobs: BlobStore, topology: Topology, new_stores: Collection[str] = ()) -> None:
    """Check that this program reads what earlier ones may have left in its stores, and keep what it writes itself.

    A value may be as old as the checkpoint, so each schema ever used counts, until a migration has rewritten the store.
    New fields with defaults, fields that are gone and integers that become fractions can be read on. Serdes whose
    schema is not known here, or comes with each value (a registry's), are not compared; nor are stores without
    changelog, which a new program may lose.

    Args:
        blobs: the checkpoint.
        topology: of the program.
        new_stores: begin empty, whatever stores of their names held before.

    Raises:
        CheckpointError: `STORE_SCHEMA_CHANGED`, with the store, both schemas and what to do.
    """
    change = next((change for change in _changes(blobs, topology) if change.store not in new_stores), None)
    if change is not None:
        raise _changed(change)
    now = _schemas_of(topology)
    known = {store for schemas in _earlier(blobs) for store in schemas}
    for store in known.intersection(new_stores, now):
        now[store] = {**now[store], _EMPTIED: {}}
    if now not in _earlier(blobs):
        blobs.put_if_absent(_next_name(blobs), json.dumps(now).encode())


def schema_changes(blobs: BlobStore, topology: Topology) -> list[SchemaChange]:
    """What this program cannot read of what earlier ones may have left in its stores; each side of a store once."""
    changes: dict[tuple[str, str], SchemaChange] = {}
    for change in _changes(blobs, topology):
        changes.setdefault((change.store, change.side), change)
    return list(changes.values())


def check_readable(blobs: BlobStore, topology: Topology, store: str) -> None:
    """Check that this program can read what is in one store.

    Raises:
        CheckpointError: `STORE_SCHEMA_CHANGED`.
    """
    change = next((change for change in _changes(blobs, topology) if change.store == store), None)
    if change is not None:
        raise _changed(change)


def next_schemas(blobs: BlobStore, topology: Topology, stores: Collection[str]) -> tuple[str, str]:
    """Name and content of the blob that says that the values of those stores are as this program writes them."""
    now = _schemas_of(topology)
    return _next_name(blobs), json.dumps({store: {**now[store], _REWRITTEN: {}} for store in sorted(stores)})


def _changes(blobs: BlobStore, topology: Topology) -> Iterator[SchemaChange]:
    earlier = _earlier(blobs)
    for store, sides in _schemas_of(topology).items():
        known = [before[store] for before in earlier if store in before]
        emptied = max((at for at, each in enumerate(known) if _EMPTIED in each), default=0)
        rewritten = max((at for at, each in enumerate(known) if _REWRITTEN in each), default=0)
        for side, first in (("key", emptied), ("value", max(emptied, rewritten))):
            counts = [each[side] for each in known[first:] if side in each]
            for old in counts:
                reason = unreadable(old, sides[side], key=side == "key") if side in sides else None
                if reason is not None:
                    yield SchemaChange(store, side, counts[-1], shown(old), shown(sides[side]), reason)


def _earlier(blobs: BlobStore) -> list[Schemas]:
    return [_decoded(name, data) for name in _names(blobs) if (data := blobs.get(name)) is not None]


def _decoded(name: str, data: bytes) -> Schemas:
    try:
        return decode_json(data, as_type=Schemas)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CheckpointError(
            "STORE_SCHEMAS_CORRUPT",
            f"{name} in the checkpoint, which says how earlier programs wrote the stores, is damaged ({len(data)} "
            f"bytes: {error}). Restore the checkpoint from a copy, or start over with `hayase app reset`",
        ) from error


def _next_name(blobs: BlobStore) -> str:
    last = max(numbers_of(blobs.list(_FOLDER), _FOLDER, _DIGITS), default=-1)
    return _name(last + 1)


def _names(blobs: BlobStore) -> list[str]:
    return [_name(number) for number in sorted(numbers_of(blobs.list(_FOLDER), _FOLDER, _DIGITS))]


def _name(number: int) -> str:
    return f"{_FOLDER}{number:0{_DIGITS}d}"


def _changed(change: SchemaChange) -> CheckpointError:
    keep = "Give new fields a default and keep the types of old ones"
    if change.old["serde"] == AGGREGATE:
        keep = (
            "Keep the fields of the aggregate, their functions and their order, or aggregate again in a store of "
            "another name"
        )
    rewrite = "; or rewrite them with `hayase state migrate`" if change.side == "value" else ""
    return CheckpointError(
        "STORE_SCHEMA_CHANGED",
        f"the {change.side}s of store {change.store!r} in the checkpoint cannot be read by this program: "
        f"{change.reason}. They are {change.shown_old}; the program has {change.shown_new}. {keep}{rewrite}; start "
        "the old program; or start over with `hayase app reset`, or with another application.id beside it",
        store=change.store,
    )


def _schemas_of(topology: Topology) -> Schemas:
    schemas: Schemas = {}
    for name, spec in topology.stores.items():
        sides = {"key": described(spec.key_serde), "value": described(spec.value_serde)}
        known = {side: description for side, description in sides.items() if description is not None}
        if spec.logging and known:
            schemas[name] = known
    read_again: Schemas = json.loads(json.dumps(schemas))
    return read_again
