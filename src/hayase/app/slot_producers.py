"""Bundles that slots of a shared runtime have published, and that an application publishes by itself again."""

from __future__ import annotations

from hayase.core.config import StreamsConfig
from hayase.log.config import log_config
from hayase.storage.blobs import BlobStore
from hayase.storage.open import open_blobs


def give_bundles_back(config: StreamsConfig) -> None:
    """Have an application's bundles published under transactional ids of their own, with its lease held.

    Does nothing where they are, and where the log is embedded, which has no such ids.

    Raises:
        HayaseError: see `hayase.log.kafka.slot_ids.SlotIds.give_back`.
    """
    log = log_config(config)
    if log.kind != "kafka" or not config.exactly_once:
        return
    from hayase.log.kafka.slot_ids import SlotIds
    from hayase.runtime.epochs.slot_places import give_back

    def opened(location: str) -> BlobStore:
        return open_blobs(location, fsync=config.checkpoint_fsync)

    ids = SlotIds(log)
    try:
        owner = ids.owner(config.application_id)
        if owner is not None:
            give_back(ids, config.application_id, owner, opened)
    finally:
        ids.close()
