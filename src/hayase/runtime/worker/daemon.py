"""Spark's Python daemon with our libraries imported before it forks workers, so that a worker starts in milliseconds.

It only imports: nothing may be opened and no thread started before the fork. First it forks the source of spare
processes (`spare_source`). Spark's daemon ends when the JVM is gone, but has no way to end a worker that hangs; so
workers are killed with it. `gc.freeze` keeps what was imported out of the collections that Spark asks for after every
task.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from types import ModuleType
from typing import Any

from hayase.runtime.worker.parent_death import end_with_forker

_COLLECTIONS = (50_000, 20, 100)
"""Thresholds of the garbage collector in workers, instead of 700, 10 and 10. An epoch makes millions of objects that
live to its end and no cycles: with Python's own thresholds a twentieth of the CPU time of records with headers goes to
looking at them again and again."""
PRELOADED = (
    "confluent_kafka",
    "lmdb",
    "msgspec",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "pyarrow.json",
    "pyspark.worker",
    "hayase.runtime.worker.span_client",
    "hayase.runtime.worker.spare_process",
    "hayase.log.embedded.log",
    "hayase.log.kafka.log",
)


def end_quietly_with_the_jvm(daemon: ModuleType) -> None:
    """Have workers that find their connection closed end without a trace.

    The JVM has ended, or stopped what they worked for.
    """
    worker = daemon.worker

    def quiet(*arguments: object) -> int:
        try:
            return int(worker(*arguments))
        except (BrokenPipeError, ConnectionResetError):
            return 1

    def said(*texts: object, **options: Any) -> None:
        if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
            print(*texts, **options)  # noqa: T201 - PySpark's own words

    vars(daemon).update(worker=quiet, print=said)


if __name__ == "__main__":
    for module in PRELOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTIONS)
    end_with_forker()

    from pyspark import daemon

    from hayase.runtime.worker import spare_process
    from hayase.runtime.worker.jvm_gateway import UMASK_VARIABLE
    from hayase.runtime.worker.spare_source import start_source

    if UMASK_VARIABLE in os.environ:  # files of the user's functions are as if the program had made them
        os.umask(int(os.environ[UMASK_VARIABLE], 8))
    start_source(spare_process.run_spare)
    end_quietly_with_the_jvm(daemon)
    daemon.manager()
