"""Kafka clients of a process that forks."""

import gc
import os
import signal
from collections.abc import Callable

import pytest

from hayase.log.kafka.clients import open_admin, open_consumer, open_producer
from hayase.log.protocol import LogConfig

_NOWHERE = LogConfig(kind="kafka", location="127.0.0.1:1")


def _status_of_child(action: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        try:
            # Its threads get the stacks of those that are gone: joining one of them waits forever, or ends the process.
            _own = [open_admin(_NOWHERE) for _ in range(3)]
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


@pytest.mark.long
@pytest.mark.parametrize("opened", [open_admin, open_consumer, open_producer])
def test_a_child_does_not_free_a_client_that_its_parent_left_to_the_collector(
    opened: Callable[[LogConfig], object],
) -> None:
    gc.disable()
    try:
        cycle = [opened(_NOWHERE)]
        cycle.append(cycle)
        del cycle
        assert _status_of_child(gc.collect) == 0
    finally:
        gc.enable()
    gc.collect()


def test_a_child_does_not_free_a_client_that_it_lets_go_of() -> None:
    held = [open_producer(_NOWHERE)]
    assert _status_of_child(held.clear) == 0
