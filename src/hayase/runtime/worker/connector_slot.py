"""A Spark task that is a slot of connectors: it works as long as the worker at the other end of its connection."""

from __future__ import annotations

import time
from collections.abc import Iterator

from hayase.connect.slots.slot import run_slot
from hayase.runtime.wire.log_relay import log_to_driver
from hayase.runtime.wire.span_protocol import connect

_AGAIN_S = 0.5


def run_connector_slot(address: str, log_address: str, log_level: str, slots: Iterator[int]) -> Iterator[int]:
    """Run the slots of a Spark task, of which there is one.

    Args:
        address: where the worker listens.
        log_address: where logs are sent; empty: nowhere.
        log_level: the least level of what is sent.
        slots: numbers.

    Yields:
        Nothing: the task ends with the worker.
    """
    log_to_driver(log_address, log_level, {}, ())
    for slot in slots:
        try:
            connection = connect(address)
        except (FileNotFoundError, ConnectionRefusedError):  # the worker has ended
            break
        except OSError:  # it cannot be reached from here: Spark tries again
            time.sleep(_AGAIN_S)
            raise
        run_slot(connection, slot)
    yield from ()
