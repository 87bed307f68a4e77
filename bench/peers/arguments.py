"""The command line of each of them; imports nothing but the standard library."""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
from collections.abc import Callable

WORKERS = 2
LARGE_AMOUNT = 5_000
LINE = ("order_id", "user", "product", "amount")


def parse() -> argparse.Namespace:
    """The options that all take."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--application", required=True, choices=("filter", "count_by_key"))
    for name in ("bootstrap", "input", "output", "application-id", "state-dir"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--guarantee", required=True, choices=("at_least_once",))
    parser.add_argument("--jars", help="folder with the jars of Spark's Kafka connector")
    return parser.parse_args()


def run_workers(work: Callable[[argparse.Namespace, int], None]) -> None:
    """Run a process for each core until SIGTERM: frameworks that use one core are run so."""
    given = parse()
    processes = [multiprocessing.Process(target=work, args=(given, number)) for number in range(WORKERS)]
    for process in processes:
        process.start()

    def stop(*_: object) -> None:
        for process in processes:
            process.terminate()

    signal.signal(signal.SIGTERM, stop)
    for process in processes:
        process.join()
    sys.exit(max(abs(process.exitcode or 0) for process in processes))
