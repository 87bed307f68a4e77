"""How far the erasure of a subject's personal data is, and what still holds some of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hayase.log.protocol import Log

BACKUPS = "backups of the log that were made before the erasure: keys, and what they encrypted"


@dataclass(frozen=True, slots=True)
class ErasureStatus:
    """How far the erasure of a subject is.

    Attributes:
        subject: whose data.
        erased_ms: when its keys were deleted; `None`: they were not.
        keys_left: records of deleted keys that the topic still holds, until it is compacted, as `partition@offset`.
        tiers: topics with records in tiered storage, and what these are.
        backups: copies that are made outside of the log, which cannot be looked into.
    """

    subject: str
    erased_ms: int | None
    keys_left: tuple[str, ...]
    tiers: tuple[str, ...]
    backups: tuple[str, ...] = (BACKUPS,)

    @property
    def done(self) -> bool:
        """Whether the keys are deleted, and the topic of keys and the checkpoints have none of them."""
        return self.erased_ms is not None and not self.keys_left


def tiers_of(log: Log, topics: Iterable[str], what: str) -> tuple[str, ...]:
    """Those of the topics that have a tier, each with what is in it.

    Args:
        log: of the topics.
        topics: names; those that are not there are left out.
        what: the records are.
    """
    found = []
    for topic in log.describe(list(topics)):
        settings = log.topic_config(topic)
        if settings.get("remote.storage.enable") == "true":
            where = settings.get("remote.storage.url", "")
            found.append(f"{topic}{f' in {where}' if where else ''}: {what}")
    return tuple(found)
