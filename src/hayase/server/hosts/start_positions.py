"""Where a query begins, kept as of the statement that makes it."""

from __future__ import annotations

from hayase.app.checkpoint import stored_plan
from hayase.app.topics import resets_of
from hayase.compiler.build import source_topics
from hayase.core.config import StreamsConfig
from hayase.log.protocol import Log
from hayase.runtime.epochs.start_offsets import record_positions
from hayase.storage.open import open_blobs
from hayase.topology.topology import Topology


def keep_start(topology: Topology, config: StreamsConfig, log: Log, now_ms: int) -> None:
    """Keep the offsets at which a topology begins, in its checkpoint, unless it has begun or they are kept already.

    A query that begins at the ends of its topics then has all that is written after its statement, however long Spark
    takes until the query runs.

    Raises:
        HayaseError: the log or the checkpoint cannot be reached.
    """
    blobs = open_blobs(config.checkpoint_dir, fsync=config.checkpoint_fsync)
    if stored_plan(blobs) is not None:
        return
    topics = [topic for topic in source_topics(topology) if topic not in topology.internal_topics]
    record_positions(blobs, log, log.describe(topics).values(), resets_of(topology, config.auto_offset_reset), now_ms)
