"""Where a replay ends: with a time, or with an epoch of the application."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, StateError
from hayase.core.records import TopicPartition
from hayase.query.access import StoreAccess
from hayase.query.checkpoint import Checkpoint, open_checkpoint


@dataclass(frozen=True, slots=True)
class ReplayEnd:
    """How far the partitions of a log are replayed.

    Attributes:
        time_ms: the last time; `None`: to the end.
        offsets: partition → its end, whatever the times of its records are.
    """

    time_ms: int | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


def replay_end(
    config: StreamsConfig, recorded: Iterable[str], *, until_ms: int | None, until_epoch: int | None
) -> ReplayEnd:
    """The end that a time or an epoch means; neither: the end of the log.

    Of the topics in `recorded` an epoch has the events that bear its wall clock or an earlier one, for it has recorded
    them; of others that it read, what it and the epochs before it have read.

    Args:
        config: settings of the application, whose checkpoint has the epochs.
        recorded: topics of events that the application itself records.
        until_ms: the last time.
        until_epoch: the last epoch.

    Raises:
        ConfigError: `INVALID_AS_OF`: both are given, or the epoch is not complete.
        StateError: `NO_STATE`; `EPOCH_FORGOTTEN`; `EPOCHS_NOT_APART`: the next epoch has the same time.
    """
    if until_epoch is None:
        return ReplayEnd(until_ms)
    if until_ms is not None:
        raise ConfigError("INVALID_AS_OF", "give a time or an epoch, not both of them")
    checkpoint = open_checkpoint(config)
    StoreAccess.epoch_of(checkpoint, until_epoch, None)
    record = checkpoint.epochs.positions(until_epoch)
    if record is None:
        raise _forgotten(checkpoint, until_epoch)
    following = checkpoint.epochs.record(until_epoch + 1)
    if following is not None and following.wall_clock_ms == record.wall_clock_ms:
        raise StateError(
            "EPOCHS_NOT_APART",
            f"epochs {until_epoch} and {until_epoch + 1} have the same time, {record.wall_clock_ms}, so their events "
            f"cannot be distinguished; give epoch {until_epoch + 1}, or {until_epoch - 1}",
        )
    own = {*recorded}
    offsets = {
        TopicPartition(topic, number): end
        for topic, ranges in record.ranges.items()
        if topic not in own
        for number, (_, end) in ranges.items()
    }
    return ReplayEnd(record.wall_clock_ms, offsets)


def _forgotten(checkpoint: Checkpoint, epoch: int) -> StateError:
    oldest = min(checkpoint.epochs.recorded(), default=None)
    kept = "none is kept" if oldest is None else f"the oldest that is kept is epoch {oldest}"
    return StateError(
        "EPOCH_FORGOTTEN",
        f"the record of epoch {epoch} is gone, so it is not known what the epoch has read: {kept}. Give that, or a "
        "time; state.history.retention.ms says how long older epochs are kept",
    )
