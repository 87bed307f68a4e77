"""Spark's Python daemon with our libraries imported before it forks workers, so that a worker starts in milliseconds.

It only imports: nothing may be opened and no thread started before the fork. Spark's daemon ends when the JVM is gone, but has
no way to end a worker that hangs; so workers are killed with it. `gc.freeze` keeps what was imported out of
the collections that Spark asks for after every task.
"""

from __future__ import annotations

import gc
import importlib
import os

from hayase.runtime.orphans import end_with_forker

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
    "hayase.runtime.spans.seat",
    "hayase.log.embedded.log",
    "hayase.log.kafka.log",
)

if __name__ == "__main__":
    for module in PRELOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    end_with_forker()

    from hayase.runtime.gateway import UMASK_VARIABLE

    if UMASK_VARIABLE in os.environ:  # files of the user's functions are as if the program had made them
        os.umask(int(os.environ[UMASK_VARIABLE], 8))
    from pyspark.daemon import manager

    manager()
