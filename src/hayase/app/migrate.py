"""Rewriting what stores hold, so that a program with other values can go on with them (`hayase state migrate`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hayase.app.migration import Commit, clear_migration, commit_migration, finish_migration, stage_delta
from hayase.app.plan_switch import check_plan
from hayase.app.store_schemas import SchemaChange, next_schemas, schema_changes
from hayase.compiler.options import configured
from hayase.core.config import StreamsConfig
from hayase.core.errors import CheckpointError, ConfigError, HayaseError, StateError
from hayase.core.time import Clock, SystemClock
from hayase.kernel.aggregate.built_in_serde import AggregateSerde
from hayase.query.checkpoint import Checkpoint, folder_of_store, open_checkpoint, subtopology_of_store
from hayase.query.local_folders import history_folder, state_folders
from hayase.runtime.driver.lease import lease_for
from hayase.serde.evolution import AGGREGATE, decoder
from hayase.serde.json_serde import JsonSerde
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.history import open_past_states
from hayase.state.delta.delta import Delta, Piece, encode_piece
from hayase.state.environment.bundle import BundleState
from hayase.state.environment.epoch import EpochState
from hayase.state.environment.spill import EpochSpace
from hayase.state.stores.spec import StoreSpec
from hayase.state.stores.stored_values import StoredValue, stored_value
from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs
from hayase.task.epoch_record import EpochRecord, record_name
from hayase.topology.earlier import store_in
from hayase.topology.topology import Topology

NewValue = Callable[[Any], object]
"""Converts a stored value to one of the program's type. It gets JSON as dict, list, text or number, and the value of
Kafka's plain serdes; where the new type is JSON, it may return a dict or list. `None` deletes."""

FAILURES_SHOWN = 10
_PLAIN_JSON = JsonSerde()
_SPILL_EVERY = 10_000
_PIECE_BYTES = 8 << 20


class Failure(NamedTuple):
    """A value that could not be rewritten: its key, as far as that can be read, and why."""

    key: object
    reason: str


@dataclass(slots=True)
class StoreMigration:
    """The changes of one store by a migration.

    Attributes:
        store: its name.
        values: how many there are.
        changed: how many of them are written again.
        deleted: how many are deleted.
        failed: how many could not be rewritten.
        failures: the first of these.
    """

    store: str
    values: int = 0
    changed: int = 0
    deleted: int = 0
    failed: int = 0
    failures: list[Failure] = field(default_factory=list)

    def fail(self, key: object, reason: str) -> None:
        """Take note of a failure."""
        self.failed += 1
        if len(self.failures) < FAILURES_SHOWN:
            self.failures.append(Failure(key, reason))


@dataclass(frozen=True, slots=True)
class Migration:
    """The result of a migration, or of its dry run.

    Attributes:
        stores: that changed, by name; none if there is nothing to do.
        epoch: the epoch that it is; `None`: nothing was written.
        finished: an earlier migration had been interrupted after its commit, and was finished first.
    """

    stores: tuple[StoreMigration, ...]
    epoch: int | None
    finished: bool = False

    @property
    def failed(self) -> int:
        """How many values could not be rewritten; if any, nothing was written."""
        return sum(store.failed for store in self.stores)


def migrate_stores(
    topology: Topology,
    config: StreamsConfig,
    functions: Mapping[str, NewValue],
    *,
    dry_run: bool = False,
    clock: Clock | None = None,
) -> Migration:
    """Rewrite the values of the stores that the program could not read (`STORE_SCHEMA_CHANGED`).

    Every value of such a store goes through its function, those of windows, sessions and versions one by one, in no
    order that can be relied on. The result is one more epoch, which reads nothing and sends nothing: restore, followers
    and states as of a later epoch have it, those as of an earlier one are as they were. All stores are rewritten or
    none, also if this is interrupted: before its commit nothing has happened, after it the next start, or the next
    migration, does the rest.

    Not rewritten: stores whose serdes do not say how they write (see `check_store_schemas`), and values that wait
    inside other stores, in what `suppress` and joins hold back. Stores without changelog begin empty.

    Args:
        topology: the new program's.
        config: its settings.
        functions: by store; each store that changed needs one.
        dry_run: write nothing, only call the functions and count. The application may run then.
        clock: for tests.

    Raises:
        LeaseHeldError: the application is running.
        StateError: `NO_STATE`: it never started. Also those of restoring a state.
        CheckpointError: `EPOCH_OPEN`: it was stopped in the middle of an epoch; `PLAN_CHANGED`: the topology is not
            that of the checkpoint; `STORE_KEYS_CHANGED`: keys cannot be rewritten.
        ConfigError: `NO_MIGRATION_FUNCTION`: a store that changed has none; `STORE_NOT_CHANGED`: one that did not has
            one.
    """
    checkpoint = open_checkpoint(config)
    topology = checkpoint.names(configured(topology, config))
    functions = {store_in(topology, store): function for store, function in functions.items()}
    if dry_run:
        return _Migrating(topology, config, checkpoint, checkpoint.blobs, functions, clock).run(write=False)
    blobs = open_blobs(config.checkpoint_dir, fsync=config.checkpoint_fsync)
    with lease_for(blobs, config.application_id):
        finished = finish_migration(blobs)
        clear_migration(blobs)
        migrating = _Migrating(topology, config, checkpoint, blobs, functions, clock).run(write=True)
    return Migration(migrating.stores, migrating.epoch, finished)


class _Migrating:
    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        checkpoint: Checkpoint,
        blobs: BlobStore,
        functions: Mapping[str, NewValue],
        clock: Clock | None,
    ) -> None:
        self._topology = topology
        self._config = config
        self._checkpoint = checkpoint
        self._blobs = blobs
        self._functions = functions
        self._clock = clock or SystemClock()
        self._found: dict[str, StoreMigration] = {}

    def run(self, *, write: bool) -> Migration:
        changes = self._changes()
        if not changes:
            return Migration((), None)
        check_plan(self._blobs, self._topology, self._config)
        record = self._next_record(write=write)
        self._found = {store: StoreMigration(store) for store in sorted(changes)}
        stores = tuple(self._found.values())
        schemas = next_schemas(self._blobs, self._topology, set(changes))
        if record is None:  # no epoch is complete, so there is no value
            if write:
                self._blobs.put_if_absent(schemas[0], schemas[1].encode())
            return Migration(stores, None)
        bundles = []
        for delta in self._deltas(changes, record, write=write):
            stage_delta(self._blobs, delta)
            bundles.append(delta.bundle)
        if not write:
            return Migration(stores, None)
        if any(store.failed for store in stores):
            self._discard(record.epoch)
            return Migration(stores, None)
        commit_migration(self._blobs, Commit(record, bundles, schemas))
        self._catch_up(changes, record.epoch)
        return Migration(stores, record.epoch)

    def _discard(self, epoch: int) -> None:
        clear_migration(self._blobs)
        for bundle in self._checkpoint.subtopologies:
            Changelog(self._blobs, bundle).delete_parts_of(epoch)

    def _changes(self) -> dict[str, SchemaChange]:
        all_changes = schema_changes(self._blobs, self._topology)
        changes = {change.store: change for change in all_changes}
        for change in all_changes:
            if change.side == "key":
                raise CheckpointError(
                    "STORE_KEYS_CHANGED",
                    f"the keys of store {change.store!r} were {change.shown_old}, the program has {change.shown_new}: "
                    f"{change.reason}. Only values can be rewritten, for it is the key that says which task has a "
                    "row. Keep the type of the keys, or start over with `hayase app reset`",
                    store=change.store,
                )
        without = sorted(changes.keys() - self._functions.keys())
        if without:
            raise ConfigError(
                "NO_MIGRATION_FUNCTION",
                f"values of {', '.join(map(repr, without))} cannot be read by this program and no function says what "
                "becomes of them; give one for each: --with STORE=FILE:FUNCTION",
            )
        needless = sorted(self._functions.keys() - changes.keys())
        if needless and changes:
            raise ConfigError(
                "STORE_NOT_CHANGED",
                f"this program reads what {', '.join(map(repr, needless))} holds, so nothing is to be rewritten "
                f"there; leave its function out. Stores that changed: {sorted(changes)}",
            )
        return changes

    def _next_record(self, *, write: bool) -> EpochRecord | None:
        """The record of the epoch that the migration is: behind the last one, and reading nothing.

        `None` if there is no last one.
        """
        epochs = self._checkpoint.epochs
        last = epochs.last_done()
        if write and self._blobs.exists(record_name(last + 1)):
            raise CheckpointError(
                "EPOCH_OPEN",
                f"epoch {last + 1} was begun and is not through: the application was killed, or runs. Start the "
                "program that wrote these stores once more, stop it (Ctrl-C, or close()), then migrate",
                epoch=last + 1,
            )
        before, positions = epochs.record(last), epochs.positions(last)
        if before is None or positions is None:
            return None
        ranges = {
            topic: {partition: (end, end) for partition, (_, end) in partitions.items()}
            for topic, partitions in positions.ranges.items()
        }
        now_ms = max(before.wall_clock_ms, self._clock.now_ms())
        return EpochRecord(
            last + 1, before.checkpoint_id, before.plan, now_ms, ranges, before.topic_ids, before.digest,
            numbered=before.numbered,
        )  # fmt: skip

    def _deltas(self, changes: Mapping[str, SchemaChange], record: EpochRecord, *, write: bool) -> Iterator[Delta]:
        """A delta for each bundle that has one in every epoch, with what is rewritten in it."""
        checkpoint, last = self._checkpoint, record.epoch - 1
        subtopologies = {store: subtopology_of_store(self._topology, store) for store in changes}
        past = open_past_states(history_folder(self._config), last)
        try:
            for bundle, subtopology in checkpoint.subtopologies.items():
                mine = {store: changes[store] for store, its in subtopologies.items() if its == subtopology}
                if not (mine or write):
                    continue
                changelog = Changelog(self._blobs, bundle)
                if not changelog.has_state():  # it sends functions of its input alone, so it publishes nothing
                    continue
                past.build(
                    self._blobs,
                    [bundle],
                    application_id=checkpoint.application_id,
                    checkpoint_id=checkpoint.checkpoint_id,
                )
                yield from self._delta_of(past.folder / bundle, bundle, mine, record, changelog, write=write)
        finally:
            past.close()

    def _delta_of(
        self,
        folder: Path,
        bundle: str,
        changes: Mapping[str, SchemaChange],
        record: EpochRecord,
        changelog: Changelog,
        *,
        write: bool,
    ) -> Iterator[Delta]:
        application_id, checkpoint_id = self._checkpoint.application_id, self._checkpoint.checkpoint_id
        with ExitStack() as stack:
            state = BundleState(folder, application_id=application_id, checkpoint_id=checkpoint_id, bundle=bundle)
            stack.callback(state.close, clean=False)
            spill = state_folders(self._config).spill(bundle)
            space = stack.enter_context(EpochSpace(spill, self._config.epoch_memory_max_bytes))
            epoch = stack.enter_context(state.begin())
            for task in self._checkpoint.tasks[bundle]:
                for name, change in changes.items():
                    self._rewrite(epoch, task, self._topology.stores[name], change, space, write=write)
            delta = Delta(application_id, checkpoint_id, bundle, record.epoch, record.digest, epoch.epoch, epoch.digest)
            if write and not any(store.failed for store in self._found.values()):
                self._fill(delta, epoch, changelog)
                yield delta

    def _rewrite(
        self, epoch: EpochState, task: str, spec: StoreSpec, change: SchemaChange, space: EpochSpace, *, write: bool
    ) -> None:
        aggregated = change.old["serde"] == AGGREGATE
        read = AggregateSerde.of(change.old) if aggregated else decoder(change.old)
        store, migrated = epoch.task(task).store(spec.name), self._found[spec.name]
        for key, data in store.range():
            stored = stored_value(spec, key, data)
            if stored is None:
                continue
            migrated.values += 1
            try:
                new = _rewritten(spec, read.from_bytes(stored.value), self._functions[spec.name])
            except Exception as error:  # the user's function may raise anything, and so may what it is given
                migrated.fail(_shown_key(spec, stored), _reason(error))
                continue
            if new == stored.value:
                continue
            migrated.changed += new is not None
            migrated.deleted += new is None
            if write:
                store.put(key, None if new is None else stored.before + new)
                if (migrated.changed + migrated.deleted) % _SPILL_EVERY == 0:
                    epoch.spill(space.maps, space.share)

    @staticmethod
    def _fill(delta: Delta, epoch: EpochState, changelog: Changelog) -> None:
        """What was rewritten; if it is much, in parts of its own, which is not read before the delta is there."""
        if not epoch.spilled:
            delta.changes = epoch.changes()
            return
        for number, changes in enumerate(epoch.pieces(_PIECE_BYTES)):
            piece = Piece("changes", encode_piece(changes))
            delta.parts.append(changelog.publish_part(delta.epoch, number, piece))

    def _catch_up(self, changes: Mapping[str, SchemaChange], epoch: int) -> None:
        """Bring states on this machine to the epoch, so that queries before the next start see the new values."""
        for store in changes:
            for bundle in self._checkpoint.bundles_of(subtopology_of_store(self._topology, store)):
                path = folder_of_store(self._topology, self._config, store, bundle)
                if not (path / "data.mdb").exists():
                    continue
                ids = {
                    "application_id": self._checkpoint.application_id,
                    "checkpoint_id": self._checkpoint.checkpoint_id,
                }
                state = BundleState(path, bundle=bundle, spill=state_folders(self._config).spill(bundle), **ids)
                try:
                    with suppress(StateError):  # the migration is done; the next start tries again, and says why
                        Changelog(self._blobs, bundle).catch_up(state, epoch)
                finally:
                    state.close()


def _rewritten(spec: StoreSpec, old: object, function: NewValue) -> bytes | None:
    new = function(old)
    if new is None:
        if spec.versioned:
            raise StateError("VERSION_NOT_DELETABLE", "a version cannot be deleted; give a value for it")
        return None
    serde = spec.value_serde
    if isinstance(serde, JsonSerde) and isinstance(new, dict | list):
        new = serde.from_bytes(_PLAIN_JSON.to_bytes(new))
    data = serde.to_bytes(new)
    serde.from_bytes(data)  # what can be written can perhaps not be read
    return data


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, HayaseError) else f"{type(error).__name__}: {error}"


def _shown_key(spec: StoreSpec, stored: StoredValue) -> object:
    try:
        return spec.key_serde.from_bytes(stored.key)
    except HayaseError:
        return stored.key
