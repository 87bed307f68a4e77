"""An application between a streaming Spark DataFrame and a Spark writer, to be killed.

`python -m tests.crash.spark_app_under_test SPEC.json` runs it.

The frame adds a random tag to each row, so a micro-batch that is run again has other rows: what comes out betrays a row
that was written twice, and the writer's folders must agree with the topic.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
from tests.crash.app_under_test import Spec, main

from hayase import Consumed, Produced, Serdes, StreamsBuilder, Topology

TEXT = Serdes.string()
EVENT = Serdes.json(schema={"id": pl.Int64, "tag": pl.String})


def input_folder(settings: dict[str, Any]) -> Path:
    """Where the JSON lines are."""
    return Path(settings["state.dir"]).parent / "rows"


def output_folder(settings: dict[str, Any]) -> Path:
    """Where the numbered folders of Parquet files are."""
    return Path(settings["state.dir"]).parent / "archive"


def build(spec: Spec) -> Topology:
    """A file a micro-batch, and a few records a number."""
    rows, archive = str(input_folder(spec.settings)), output_folder(spec.settings)

    def frame(spark: Any) -> Any:
        files = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).json(rows)
        return files.selectExpr("cast(id % 7 AS string) AS key", "struct(id, uuid() AS tag) AS value")

    def write(batch: Any, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(archive / f"n={number}"))

    builder = StreamsBuilder()
    events = builder.from_spark("events", frame, Consumed.with_(TEXT, EVENT), partitions=2)
    events.to(f"{spec.prefix}noisy", Produced.with_(TEXT, EVENT))
    events.to_spark("archive", write, interval=timedelta(0), max_records=15)
    return builder.build()


if __name__ == "__main__":
    main(build)
