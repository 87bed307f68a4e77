"""A worker that a crash test kills: lines of a file into a topic, and from there into an SQLite database.

Its tasks run in threads, or with a second argument in so many slots of Spark, which has the settings of the third.
"""

from __future__ import annotations

import json
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

from hayase.connect.worker import ConnectWorker
from hayase.log.protocol import LogConfig
from hayase.runtime.driver.connector_job import ConnectorJob


def main(folder: Path, slots: int, spark: dict[str, str]) -> None:
    """Run until killed."""
    props = {"group.id": "w", "listeners": "http://127.0.0.1:0", "value.converter": "StringConverter"}
    source = {"connector.class": "FileStreamSource", "topic": "lines", "exactly.once.support": "required"}
    sink = {"connector.class": "SqliteSink", "topics": "lines", "auto.create": "true"}
    hoist = {"transforms": "hoist", "transforms.hoist.type": "HoistField$Value", "transforms.hoist.field": "line"}
    with ExitStack() as stack:
        host = None
        if slots:
            job = ConnectorJob("crash-test", folder / "spark", spark, slots, log_level="WARNING")
            stack.callback(job.close)
            job.start()
            host = job.pool
        worker = stack.enter_context(ConnectWorker(LogConfig("embedded", str(folder / "log")), props, host=host))
        worker.herder.put_config("source", {**source, "file": str(folder / "lines.txt"), "batch.size": "7"})
        worker.herder.put_config("sink", {**sink, **hoist, "connection.path": str(folder / "lines.db")})
        print("running", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
