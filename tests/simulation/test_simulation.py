"""Random schedules: whatever happens, each record comes out once, in order, and state is what came out."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from confluent_kafka.admin import AdminClient
from tests.simulation.chaos import run_seed
from tests.simulation.kafka_broker import Broker
from tests.simulation.kafka_clients import Clients
from tests.simulation.scheduler import Sim

from hayase.core.steps import STEPS
from hayase.log.kafka import clients as kafka_clients
from hayase.log.kafka.clients import open_admin
from hayase.log.protocol import LogConfig

_ALWAYS, _OFTEN, _ALL, _TOGETHER = 5, 50, 1000, 10


def _seeds() -> list[object]:
    """A handful at every run, fifty in `make test`, a thousand in `make test-slow`."""
    found: list[object] = [pytest.param([seed], id=str(seed)) for seed in range(_ALWAYS)]
    found += [pytest.param([seed], id=str(seed), marks=pytest.mark.long) for seed in range(_ALWAYS, _OFTEN)]
    for first in range(_OFTEN, _ALL, _TOGETHER):
        seeds = list(range(first, first + _TOGETHER))
        found.append(pytest.param(seeds, id=f"{first}-{seeds[-1]}", marks=pytest.mark.slow))
    return found


@pytest.mark.long
@pytest.mark.parametrize("seeds", _seeds())
def test_whatever_happens_each_record_comes_out_once_and_in_order(seeds: list[int]) -> None:
    for seed in seeds:
        outcome = run_seed(seed, keep_trace=False)
        assert not outcome.problem, (
            f"{outcome.description}\n{outcome.problem}\nSee what happened: python -m tests.simulation {seed}"
        )


@pytest.mark.long
def test_a_simulation_leaves_no_step_and_no_request_behind_in_its_process() -> None:
    run_seed(57, keep_trace=False)
    assert (STEPS.asking, STEPS.step) == (False, None)


@pytest.mark.long
def test_a_seed_gives_the_same_schedule_in_every_process() -> None:
    digests = set()
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "tests.simulation", "7"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        digests.add(done.stdout.splitlines()[-1])
    run_seed(3, keep_trace=False)
    digests.add(run_seed(7, keep_trace=False).digest)
    assert len(digests) == 1


def test_a_client_that_the_model_does_not_replace_fails_the_test_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients(Broker(Sim(0)))
    with clients.in_place():
        open_admin(LogConfig("kafka", "localhost:1"))
        monkeypatch.setattr(kafka_clients, "AdminClient", AdminClient)  # as if it had another name now
        with pytest.raises(AssertionError, match="is a real client"):
            open_admin(LogConfig("kafka", "localhost:1"))
