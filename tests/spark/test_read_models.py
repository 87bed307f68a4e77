"""Read models in PostgreSQL beside an application on Spark, filled by processes that are killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.spark.place import Place
from tests.unit.patterns import read_model_program
from tests.unit.patterns.shop import Pay
from tests.unit.patterns.shop import Place as PlaceOrder

from hayase.core.config import StreamsConfig
from hayase.patterns import PatternsApp, PostgresTable, ReadModel
from hayase.patterns.read_models.runner import ReadModelRunner
from hayase.patterns.read_models.verification import verify
from hayase.testing.postgres_server import PASSWORD, USER, PostgresServer

pytestmark = pytest.mark.postgres
START = timedelta(minutes=3)
"""Until the first reply: Spark starts first."""


@pytest.fixture
def url() -> Iterator[str]:
    with PostgresServer() as server:
        yield f"postgresql://{USER}:{PASSWORD}@{server.host}:{server.port}/postgres"


def killed_while_it_fills(place: Place, url: str, seconds: float) -> None:
    program = f"{read_model_program.__file__}:topology"
    where = ["-c", f"application.id={place.application_id}", "-c", f"log.dir={place.config.location}"]
    hayase = "from hayase.cli.main import main; main()"
    paths = [os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[2])]
    process = subprocess.Popen(
        [sys.executable, "-c", hayase, "read-models", "run", program, *where, "-c", "checkpoint.fsync=false"],
        env={**os.environ, "READ_MODEL_TARGET": url, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()  # it has begun
        time.sleep(seconds)
        assert process.poll() is None, process.stdout.read()
    finally:
        process.kill()
        process.wait()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_a_read_model_is_a_fold_of_the_events_after_kills_and_shows_ones_own_writes(
    place: Place, url: str, kills: int
) -> None:
    chosen = random.Random(kills)
    target = PostgresTable(read_model_program.OrderRow, "order_id", url)
    model = ReadModel("orders", read_model_program.order, read_model_program.project, target)
    settings = place.settings()
    with PatternsApp(read_model_program.topology, settings, partitions=2, read_models=[model]) as app:
        app.start()
        with app.commands(read_model_program.order) as commands:
            commands.send("1", PlaceOrder("book"), timeout=START)
            for number in range(kills):
                keys = [str(chosen.randint(1, 40)) for _ in range(60)]
                commands.send_many([(key, PlaceOrder(f"{number}")) for key in keys[:30]])
                for key in keys[30:]:
                    commands.send_nowait(key, Pay(chosen.choice([1, 2, 13, 100])))
                killed_while_it_fills(place, url, chosen.random())
            # The later one goes on: the runner of the application was superseded by the first of those processes.
            runner = app.read_models["orders"] = ReadModelRunner(model, app.config)
            runner.start()
            for key in ("1", "2", "3"):
                commands.send(key, PlaceOrder("late"))
                reply = commands.send(key, Pay(7))
                assert reply.position is not None
                model.wait_for(reply.position, timedelta(seconds=30))
                with target.session() as session:
                    rows = session.execute(f"SELECT cents FROM {model.name} WHERE order_id = ?", (key,))
                assert rows == [(4,)]
    result = verify(model, StreamsConfig(settings))
    assert result.different == 0
    assert result.rows > 3
