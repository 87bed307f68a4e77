"""Results of rounds: what the slots of a Spark job have done, as blobs of the runtime's checkpoint.

A round needs no connection between tasks and planner: requests come with the job, results go through the store that
both have.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from hayase.core.decoding import decode_msgpack
from hayase.runtime.wire.slot_messages import TopologyResult
from hayase.storage.blobs import BlobStore
from hayase.storage.checksum import with_checksum, without_checksum

_LOG = logging.getLogger("hayase.runtime")

ROUNDS_FOLDER = "rounds/"
"""Of the runtime's checkpoint. What is in it is of the present planner's rounds; the next planner removes it."""


class RoundResults:
    """The results of one planner's rounds.

    Args:
        blobs: the runtime's checkpoint; need not be durable, since an epoch without results is run again.
        run: tells this planner's rounds from those of others.
    """

    def __init__(self, blobs: BlobStore, run: str) -> None:
        self._blobs = blobs
        self._folder = f"{ROUNDS_FOLDER}{run}"

    def publish(self, job: int, slot: int, results: Sequence[TopologyResult]) -> None:
        """Slot: all that it has done."""
        self._blobs.put_if_absent(self._name(job, slot), with_checksum(msgspec.msgpack.encode(results)))

    def take(self, job: int, slot: int) -> list[TopologyResult]:
        """Planner: the results of a slot, which are removed; none if its task has died, or if they are damaged."""
        name = self._name(job, slot)
        data = self._blobs.get(name)
        if data is None:
            return []
        self._blobs.delete(name)
        body = without_checksum(data)
        if body is None:
            _LOG.warning("%s, results of a round, is damaged: what the slot has done is done again", name)
            return []
        return decode_msgpack(body, as_type=list[TopologyResult])

    def _name(self, job: int, slot: int) -> str:
        return f"{self._folder}/{job}-{slot}"
