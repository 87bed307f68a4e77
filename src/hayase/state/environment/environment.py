"""The LMDB environment of a bundle's state, and what it says about itself."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

import lmdb
import msgspec

from hayase.core.errors import StateError
from hayase.core.private_files import write_file
from hayase.state.environment import layout
from hayase.state.environment.base import BaseStore, MemoryBase
from hayase.storage.lmdb_env import ends_early, open_environment

DAMAGED_FILE = "DAMAGED"
"""Beside an environment: a process found it damaged; it is rebuilt before it is used again."""
DAMAGE = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.PanicError, lmdb.InvalidError, lmdb.CursorFullError)
"""What LMDB raises about pages that cannot be right."""
FORMAT = 1
NOTHING_APPLIED = -1
DATA_FILE = "data.mdb"
_NO_ENVIRONMENT = (lmdb.InvalidError, lmdb.CorruptedError, lmdb.VersionMismatchError)


class StatePosition(NamedTuple):
    """How far a state is: the last epoch applied and the digest of its delta; `(-1, "")` before the first."""

    epoch: int
    digest: str


START = StatePosition(NOTHING_APPLIED, "")


class Meta(msgspec.Struct, frozen=True, array_like=True):
    """What the environment says about itself.

    Attributes:
        format: of the layout; another one is rebuilt, not read.
        application_id: whose state.
        checkpoint_id: of which checkpoint.
        bundle: which bundle's.
        epoch: the last applied, -1 before the first.
        digest: of that epoch's delta.
        next_number: what the next new store is given.
        delta_bytes: sizes of all deltas since the first, added up; compared with a snapshot's it says how many since.
        deltas: their number; environments of before 23 Nov 2026 count from then on.
    """

    format: int
    application_id: str
    checkpoint_id: str
    bundle: str
    epoch: int = NOTHING_APPLIED
    digest: str = ""
    next_number: int = layout.FIRST_NUMBER
    delta_bytes: int = 0
    deltas: int = 0


_decode_meta = msgspec.msgpack.Decoder(Meta).decode


def open_state_environment(path: Path) -> lmdb.Environment:
    """The environment of a bundle's state. Commits are not synced: what is durable are the deltas."""
    return open_environment(path, max_dbs=0, sync=False)


def damaged(folder: Path, why: object) -> StateError:
    """`STATE_DAMAGED`; leaves a mark beside the environment, so that it is rebuilt before it is used again."""
    with contextlib.suppress(OSError):
        write_file(folder / DAMAGED_FILE, b"")
    return StateError(
        "STATE_DAMAGED",
        f"{folder / 'data.mdb'} is damaged: {why}. Nothing of it is used: the application deletes it and rebuilds the "
        "state from the checkpoint with the bundle's next epoch. Look after the disk.",
        folder=str(folder),
    )


def read_meta(txn: layout.Txn) -> Meta | None:
    """What the environment says about itself; `None` if it is empty or says nothing that can be understood."""
    data = txn.get(layout.POSITION_KEY)
    if data is None:
        return None
    try:
        return _decode_meta(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def position_in(txn: layout.Txn) -> StatePosition | None:
    """How far the environment says that it is; `None` if it says nothing."""
    meta = read_meta(txn)
    return StatePosition(meta.epoch, meta.digest) if meta is not None else None


def base_in(txn: layout.Txn, task: str, store: str) -> BaseStore:
    """A store as the transaction sees it."""
    entry = txn.get(layout.registry_key(task, store))
    if entry is None:
        return MemoryBase()
    return layout.LmdbBase(txn, *layout.unpack_registry_entry(entry))


def is_cut_off(path: Path) -> bool:
    """Whether the file of an environment ends before its last page, or is none: reading it could kill the process.

    Looks only at the first two pages and the length; other damage is not found.
    """
    file = path / DATA_FILE
    if not file.exists():
        return False
    try:
        env = open_state_environment(path)
    except StateError as error:
        if isinstance(error.__cause__, _NO_ENVIRONMENT):
            return True
        raise
    return ends_early(env)
