"""Spark's Python daemon with our libraries imported before it forks workers, so that a worker starts in milliseconds.

It only imports: nothing may be opened and no thread started before the fork. `gc.freeze` keeps what was imported out of
the collections that Spark asks for after every task.
"""

from __future__ import annotations

import gc
import importlib

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
    from pyspark.daemon import manager

    manager()
