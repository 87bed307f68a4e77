"""What values of stores look like, kept in the checkpoint: a program that can not read them is refused when it starts."""

from __future__ import annotations

import json
from typing import Any

from hayase.core.errors import CheckpointError
from hayase.serde.evolution import Description, described, shown, unreadable
from hayase.storage.blobs import BlobStore
from hayase.topology.topology import Topology

_FOLDER = "schemas/"

Schemas = dict[str, dict[str, Description]]
"""Store → `key` and `value`, as far as they can be described."""


def check_store_schemas(blobs: BlobStore, topology: Topology) -> None:
    """Check that this program reads what earlier ones may have left in its stores, and keep what it writes itself.

    A value may be as old as the checkpoint, so each schema ever used counts. New fields with defaults, fields that are gone and
    integers that become fractions can be read on. Serdes whose schema is not known here, or comes with each value (a
    registry's), are not compared; nor are stores without changelog, which a new program may lose.

    Raises:
        CheckpointError: `STORE_SCHEMA_CHANGED`, with the store, both schemas and what to do.
    """
    now = _schemas_of(topology)
    names = sorted(blobs.list(_FOLDER))
    earlier: list[Schemas] = [json.loads(data) for name in names if (data := blobs.get(name)) is not None]
    for before in earlier:
        for store, sides in now.items():
            for side, new in sides.items():
                old = before.get(store, {}).get(side)
                reason = None if old is None else unreadable(old, new)
                if old is not None and reason is not None:
                    raise _changed(store, side, old, new, reason)
    if now not in earlier:
        last = int(names[-1].removeprefix(_FOLDER)) if names else -1
        blobs.put_if_absent(f"{_FOLDER}{last + 1:06}", json.dumps(now).encode())


def _changed(store: str, side: str, old: Description, new: Description, reason: str) -> CheckpointError:
    return CheckpointError(
        "STORE_SCHEMA_CHANGED",
        f"the {side}s of store {store!r} in the checkpoint can not be read by this program: {reason}. They are "
        f"{shown(old)}; the program has {shown(new)}. Give new fields a default and keep the types of old ones; start the old "
        "program; or start over with `hayase app reset`, or with another application.id beside it",
        store=store,
    )


def _schemas_of(topology: Topology) -> Schemas:
    found: Schemas = {}
    for name, spec in topology.stores.items():
        sides: dict[str, Any] = {"key": described(spec.key_serde), "value": described(spec.value_serde)}
        known = {side: description for side, description in sides.items() if description is not None}
        if spec.logging and known:
            found[name] = known
    return json.loads(json.dumps(found))  # type: ignore[no-any-return] # as it will be read again
