"""What a start of a topology on a checkpoint would do: `hayase describe --against`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from hayase.app.checkpoint import StoredPlan, stored_plan
from hayase.app.former_program import program_of_open_epoch
from hayase.app.plan_switch import (
    FittedPlan,
    bundles_of_all,
    fit_plan,
    known_topics,
    open_epoch,
    store_lines,
    topics_of,
)
from hayase.app.store_schemas import schema_changes
from hayase.cli.described_topics import DescribedTopics
from hayase.cli.options import log_of
from hayase.compiler.build import source_topics
from hayase.compiler.options import compile_options
from hayase.compiler.plan_comparison import PlanDifference
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, HayaseError, StateError
from hayase.log.embedded.store import FILES
from hayase.runtime.epochs.redo import part_in
from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs
from hayase.task.epoch_record import EpochRecord, Epochs
from hayase.topology.topology import Topology


def described_against(
    topology: Topology, config: StreamsConfig, checkpoint: str, there: DescribedTopics
) -> tuple[list[str], bool]:
    """What a start on a checkpoint would do, line by line, and whether it would be refused. Nothing is changed.

    Args:
        topology: with the serdes of the settings.
        config: of the application.
        checkpoint: its folder or URL.
        there: what is known of the topology's topics.

    Raises:
        ConfigError: `APPLICATION_ID_DIFFERS`: the checkpoint is that of another `application.id`.
        StateError: `NO_STATE`: no application ever started on it.
        ConfigError, StorageError, CheckpointError: the checkpoint cannot be read.
    """
    blobs = open_blobs(checkpoint, fsync=False)
    stored = stored_plan(blobs)
    if stored is None:
        raise StateError("NO_STATE", f"no application ever started on {checkpoint}; give its checkpoint.dir")
    done = Epochs(blobs).last_done()
    topology = stored.names(topology)
    _check_id(stored, topology, config.application_id, checkpoint)
    lines = [f"Against {checkpoint} (plan {stored.number}, {done + 1} epochs done):"]
    if there.unfit:
        return [*lines, "  REFUSED: the partitions of topics do not fit, see above"], True
    topics, guessed = _partitions(stored, topology, config)
    fitted = fit_plan(stored, topology, topics, compile_options(config), threads=1)
    if guessed:
        lines.append(f"  taken to have one partition, as the log was not asked: {', '.join(guessed)}")
    changed, refused = _plan_lines(stored, fitted, done)
    lines += changed
    begun = open_epoch(blobs)
    if not refused and begun is not None and fitted.difference is not None:
        who, refused = _of_open_epoch(blobs, stored, fitted, begun)
        lines.append(f"  epoch {begun.epoch} is open: {who}")
    new_stores = fitted.difference.new_stores if fitted.difference is not None else ()
    others = [f"  REFUSED: topic {topic} does not exist: hayase topics create {topic}" for topic in there.missing]
    others += _schema_lines(blobs, fitted.topology, new_stores)
    return [*lines, *others], refused or bool(others)


def _check_id(stored: StoredPlan, topology: Topology, application_id: str, checkpoint: str) -> None:
    """Names of internal topics begin with the `application.id`: with another one, all of them would be others."""
    if not stored.internal_topics or any(t.startswith(f"{application_id}-") for t in stored.internal_topics):
        return
    endings = [topic.removeprefix(application_id) for topic in topology.internal_topics]
    ids = {old.removesuffix(end) for old in stored.internal_topics for end in endings if old.endswith(end)}
    give = f"-c application.id={ids.pop()}" if len(ids) == 1 else "-c application.id=<its own>"
    raise ConfigError(
        "APPLICATION_ID_DIFFERS",
        f"{checkpoint} is not the checkpoint of application.id {application_id!r}: its internal topics are "
        f"{', '.join(stored.internal_topics)}. Give {give}",
    )


def _of_open_epoch(blobs: BlobStore, stored: StoredPlan, fitted: FittedPlan, begun: EpochRecord) -> tuple[str, bool]:
    """The program that finishes an epoch of another topology, and whether a start of this one is refused for it."""
    part = part_in(blobs, None, begun, bundles_of_all(stored, fitted))
    if program_of_open_epoch(blobs, fitted) is not None:
        fails = "this one does it again" if part is None else f"its function is to be corrected first, as {part}"
        return f"the old topology finishes it first; if it fails, {fails}", False
    if part is None:
        return "its program is gone, so this one does it again, unless outputs of it are in the log", False
    return f"REFUSED: {part}, and its program is gone: start the old topology to finish it", True


def _partitions(stored: StoredPlan, topology: Topology, config: StreamsConfig) -> tuple[Mapping[str, int], list[str]]:
    """Partition counts of the source topics, and those that are not known."""
    new = [t for t in source_topics(topology) if t not in topics_of(stored) and t not in topology.internal_topics]
    if not new or (config.embedded and not any((config.log_dir / name).exists() for name in FILES)):
        return known_topics(stored, topology), new
    try:
        with log_of(config) as log:
            infos = log.describe(new)
            return known_topics(stored, topology, log), [topic for topic in new if topic not in infos]
    except HayaseError:
        return known_topics(stored, topology), new


def _plan_lines(stored: StoredPlan, fitted: FittedPlan, done: int) -> tuple[list[str], bool]:
    difference = fitted.difference
    if stored.document is None:
        if fitted.plan.to_json() == stored.plain_text:
            return ["  the topology has not changed"], False
        return ["  REFUSED: the topology is another one; to be compared, the old one must start once more"], True
    if difference is None:
        return ["  the topology has not changed"], False
    if difference.refused:
        return [*(f"  REFUSED: {why}" for why in difference.refused), *_names(difference), *_changes(difference)], True
    return [
        f"  changes in place, with plan {fitted.document.number} from epoch {done + 1} on:",
        *_changes(difference),
        *(f"  {line}" for line in store_lines(difference)),
        *(f"  internal topic {topic} is emptied by the old topology first" for topic in difference.renewed_internal),
    ], False


def _names(difference: PlanDifference) -> list[str]:
    return [f"  give the name {name} (all of them at once)" for name in difference.names]


def _changes(difference: PlanDifference) -> list[str]:
    return [f"  {change}" for change in difference.changes]


def _schema_lines(blobs: BlobStore, topology: Topology, new_stores: Collection[str]) -> Iterator[str]:
    for change in [each for each in schema_changes(blobs, topology) if each.store not in new_stores]:
        how = "`hayase state migrate` rewrites them" if change.side == "value" else "they cannot be rewritten"
        yield (
            f"  REFUSED: {change.side}s of store {change.store} are {change.shown_old}, the program has "
            f"{change.shown_new}: {change.reason}; {how}"
        )
