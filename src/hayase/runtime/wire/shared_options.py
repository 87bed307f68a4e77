"""The options of a shared runtime: what its planner and its slots know of the run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hayase.core.decoding import decode_json
from hayase.runtime.wire.endpoints import RunEndpoints


class SharedOptions(msgspec.Struct, frozen=True):
    """What the processes of a shared runtime know from their options.

    Attributes:
        folder: of the run.
        slots: how many there are.
        job_s: how long a Spark job goes on; 0: for one round.
        sockets_dir, log_address, host, bind: see RunEndpoints.
        log_level: the least level that is sent to the driver.
        runtime_id: the `application.id` of the runtime.
        checkpoint, fsync: the runtime's checkpoint.
        patience_ms: how long stores and brokers that are away are waited for.
        slot_memory_max_bytes: what a slot's process may hold; 0: its share of the machine's memory.
    """

    folder: str
    slots: int
    job_s: float
    sockets_dir: str
    log_address: str
    host: str
    bind: str
    log_level: str
    runtime_id: str
    checkpoint: str
    fsync: bool
    patience_ms: int
    slot_memory_max_bytes: int = 0

    def endpoints(self) -> RunEndpoints:
        """Addresses of the run."""
        return RunEndpoints(self.folder, self.sockets_dir, self.log_address, self.host, self.bind)


SHARED = "shared"
"""The option of the source that holds them."""


def shared_options(options: Mapping[str, str]) -> SharedOptions | None:
    """Those of a shared runtime; `None` if the options are an application's of its own."""
    given = options.get(SHARED)
    return None if given is None else decode_json(given, as_type=SharedOptions)
