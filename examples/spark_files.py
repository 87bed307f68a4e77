"""Page views from JSON files, counted per page, into Parquet files: a Spark DataFrame at either end.

`python examples/spark_files.py FOLDER` reads FOLDER/views/*.json (lines such as {"page": "/", "user": "ada"}), what is
new of them since the last time, and writes FOLDER/counts/n=0, n=1, …
"""

import sys
from pathlib import Path

import polars as pl

from hayase import Consumed, Materialized, Serdes, StreamsApp, StreamsBuilder, Topology, count


def build(folder: Path) -> Topology:
    def views(spark):  # any streaming frame; its columns are key and value
        rows = spark.readStream.schema("page string, user string").json(str(folder / "views"))
        return rows.selectExpr("page AS key", "struct(user) AS value")

    def write(frame, number):  # comes again with the same rows after a crash, so it replaces what is there
        frame.select("key", "value.*").write.mode("overwrite").parquet(str(folder / f"counts/n={number}"))

    builder = StreamsBuilder()
    text, view = Serdes.string(), Serdes.json(schema={"user": pl.String})
    pages = builder.from_spark("views", views, Consumed.with_(text, view))
    pages.group_by_key().agg(Materialized.as_("pages"), views=count()).to_stream().to_spark("counts", write)
    return builder.build()


def main(folder: Path) -> None:
    settings = {"application.id": "pages", "log.dir": folder / "log", "state.dir": folder / "state"}
    with StreamsApp(build(folder), settings) as app:
        app.run_to_end()
        for row in app.store("pages").all():
            print(row.key, row.value["views"])


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
