"""How Spark is started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyspark


def _where_pyspark_is(batches: Any) -> Iterator[pa.RecordBatch]:
    list(batches)
    import pyspark

    yield pa.record_batch({"file": [pyspark.__file__]})


def test_python_workers_import_the_installed_pyspark_not_a_zip_that_is_compiled_each_time(spark: None) -> None:
    from pyspark.sql import SparkSession

    frame = SparkSession.active().range(1, numPartitions=1).mapInArrow(_where_pyspark_is, "file string")
    assert [row.file for row in frame.collect()] == [pyspark.__file__]
