"""What is captured is, key by key and in order, what triggers wrote down, however often capture and server crash."""

from __future__ import annotations

import random
import threading
import time

import pytest
from tests.postgres.audited_tables import Writer, check, make_tables
from tests.postgres.capture import Capture

from hayase.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres


def capture_under_load(
    server: PostgresServer, database: str, seed: int, seconds: float, server_kills: int, crashes_min: int
) -> Capture:
    """A capture that crashes again and again for so many seconds, and until it has crashed so often."""
    chance = random.Random(seed)
    make_tables(server, database)
    stop = threading.Event()
    writers = [Writer(server, database, seed * 10 + number, stop) for number in range(3)]
    for writer in writers:
        writer.start()
    capture = Capture(
        server, database, serialized=seed % 2 == 0, incremental_snapshot_chunk_size="7", max_batch_size="20",
        table_include_list="public[.](numbers|texts|pairs|days)", status_update_interval_ms="200",
    )  # fmt: skip
    kills = sorted(chance.uniform(0.5, seconds) for _ in range(server_kills))
    begin = time.monotonic()
    while (elapsed := time.monotonic() - begin) < seconds or kills or capture.crashes < crashes_min:
        if kills and elapsed > kills[0]:
            kills.pop(0)
            server.kill()
            server.start()
        capture.step(crash=chance.choice(("before", "after", *[""] * 12)))
    stop.set()
    for writer in writers:
        writer.join()
    with server.connect(database) as connection:
        ((end,),) = connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchall()
    deadline = time.monotonic() + 60
    while capture.offsets.get((("server", "shop"),), {}).get("lsn_commit", 0) < end:
        assert time.monotonic() < deadline, "capture does not arrive"
        capture.step()
        with server.connect(database) as connection:  # so that the position moves on
            connection.execute("SELECT pg_log_standby_snapshot()")
    capture.crash()
    assert sum(writer.transactions for writer in writers) > 30
    return capture


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_and_nothing_comes_twice_when_capture_and_server_crash(
    postgres_server: PostgresServer, database: str, seed: int
) -> None:
    capture = capture_under_load(postgres_server, database, seed, seconds=6.0, server_kills=1, crashes_min=6)
    assert check(postgres_server, database, capture.records) > 200


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [3, 4, 5, 6])
def test_nothing_is_lost_and_nothing_comes_twice_in_many_crashes(
    postgres_server: PostgresServer, database: str, seed: int
) -> None:
    capture = capture_under_load(postgres_server, database, seed, seconds=45.0, server_kills=6, crashes_min=40)
    assert check(postgres_server, database, capture.records) > 1000
