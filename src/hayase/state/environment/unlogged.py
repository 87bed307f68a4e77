"""The stores of a bundle that have no changelog: beside its state, and thrown away when they do not fit it.

What they hold is in no delta, so an epoch that another attempt committed cannot be made good in them. An environment of
theirs therefore says, as the state does, after which epoch it is, and by which delta. Where it says the same as the
state it is right, and used; else its stores begin empty, as those of a Kafka Streams task that lost them.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from hayase.core.errors import StateError
from hayase.state.delta.changes import StoreKey
from hayase.state.delta.delta import Delta
from hayase.state.delta.delta_merge import Step
from hayase.state.environment import layout
from hayase.state.environment.base import BaseStore
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.environment import START, StatePosition, base_in, open_state_environment, position_in
from hayase.state.environment.epoch import EpochState
from hayase.state.environment.folders import StateFolders
from hayase.state.stores.spec import StoreSpec
from hayase.storage.lmdb_env import read_transaction

_LOG = logging.getLogger("hayase.state")

_TRIES = 25
_AHEAD_WAIT_S = 0.02
"""An attempt writes these stores before the state.

One that finds them ahead waits for that, up to half a second in all.
"""
_PIECE_BYTES = 8 << 20


def unlogged_folders(folders: StateFolders, bundle: str, stores: Sequence[StoreSpec]) -> dict[Path, frozenset[str]]:
    """Where those of a sub-topology's stores that have no changelog are, for one of its bundles: names by folder."""
    stores_of_folder: dict[Path, frozenset[str]] = {}
    for in_memory in (False, True):
        names = frozenset(spec.name for spec in stores if not spec.logging and spec.in_memory == in_memory)
        if names:
            stores_of_folder[folders.unlogged(bundle, in_memory=in_memory)] = names
    return stores_of_folder


def delete_unlogged(folders: StateFolders, bundle: str, used: Collection[Path]) -> None:
    """Delete a bundle's folders of stores without changelog that none of its stores is in any more."""
    for in_memory in (False, True):
        folder = folders.unlogged(bundle, in_memory=in_memory)
        if folder not in used:
            shutil.rmtree(folder, ignore_errors=True)


class UnloggedStores:
    """The stores without changelog of one bundle, in one environment or two (disk, memory).

    Other processes may have them too.

    Args:
        state: the bundle's state.
        folders: names of stores by folder.

    Raises:
        StateError: as `BundleState`.
    """

    def __init__(self, state: BundleState, folders: Mapping[Path, frozenset[str]]) -> None:
        self._state = state
        self._names = frozenset().union(*folders.values())
        self._parts = [
            (
                BundleState(
                    path, application_id=state.application_id, checkpoint_id=state.checkpoint_id, bundle=state.bundle
                ),
                names,
            )
            for path, names in folders.items()
        ]

    def begin(self) -> EpochState:
        """Begin an epoch over the bundle's state and these stores, as `BundleState.begin`.

        Raises:
            StateError: `STATE_MOVED`: another attempt has applied a later epoch meanwhile.
        """
        with ExitStack() as stack:
            logged = stack.enter_context(self._state.begin())
            position = StatePosition(logged.epoch, logged.digest)
            txns: dict[str, layout.Txn] = {}
            for part, names in self._parts:
                txns |= dict.fromkeys(names, stack.enter_context(self._at(part, names, position)))

            def base_of(key: StoreKey) -> BaseStore:
                txn = txns.get(key[1])
                return logged.base_of(key) if txn is None else base_in(txn, *key)

            def left_over(key: StoreKey) -> bool:
                return logged.base_of(key).count() > 0

            return EpochState(*position, base_of, stack.pop_all().close, self._names, left_over)

    def apply(self, epoch: EpochState, delta: Delta) -> None:
        """Write what an epoch changed in these stores, after its delta is published and before it is applied.

        Nothing is written where another attempt has made the stores begin empty.

        Raises:
            StateError: `DISK_FULL`.
        """
        start, end = (delta.prev_epoch, delta.prev_digest), (delta.epoch, delta.digest)
        for part, names in self._parts:
            pieces = partial(epoch.unlogged_pieces, names, _PIECE_BYTES)
            step = Step(delta.checkpoint_id, delta.bundle, start, end, 0, 0, pieces)
            try:
                part.apply_step(step)
            except StateError as error:
                if error.condition != "DELTA_DOES_NOT_FIT":
                    raise

    def entries(self) -> dict[StoreKey, int]:
        """How many entries each store has, by task and name."""
        return {key: count for part, _ in self._parts for key, count in part.entries().items()}

    def delete(self, stores: Collection[str]) -> None:
        """Delete what removed stores without changelog have left here; no delta tells of them."""
        if stores:
            for part, _ in self._parts:
                part.delete_stores(stores)

    @property
    def states(self) -> list[BundleState]:
        """The environments that they are in."""
        return [part for part, _ in self._parts]

    def close(self) -> None:
        """Let go of them."""
        for part, _ in self._parts:
            part.close()

    @contextmanager
    def _at(self, part: BundleState, names: frozenset[str], position: StatePosition) -> Iterator[layout.Txn]:
        """A transaction in which the part is at the position: as it is if it fits, else emptied."""
        if part.damaged:
            part.discard()
        for attempt in range(_TRIES):
            with read_transaction(open_state_environment(part.path)) as txn:
                seen = position_in(txn)
                if seen == position:
                    yield txn
                    return
            if self._state.position() != position:
                break
            if seen is not None and seen.epoch > position.epoch and attempt < _TRIES - 2:
                time.sleep(_AHEAD_WAIT_S)
                continue
            if part.restart(seen, position) and seen not in (None, START):
                _LOG.warning(
                    "stores without changelog begin empty: %s of bundle %s are as of epoch %s, its state is at epoch "
                    "%s",
                    ", ".join(sorted(names)),
                    part.bundle,
                    seen.epoch if seen else None,
                    position.epoch,
                )
        raise StateError(
            "STATE_MOVED",
            f"the stores without changelog of bundle {part.bundle} were moved by another attempt that is at work; "
            "this attempt gives up, the next one goes on",
            bundle=part.bundle,
        )
