"""Connectors of a program on Spark: a file in, a table out, each record once over several runs."""

import sqlite3

import polars as pl
import pytest

from hayase import Consumed, Grouped, Produced, Serdes, StreamsApp, StreamsBuilder
from hayase.core.errors import TopologyError

pytestmark = pytest.mark.spark

TOTAL = Serdes.json(schema={"word": pl.String, "count": pl.Int64})


def counted_words(folder):
    builder = StreamsBuilder()
    source = {"connector.class": "FileStreamSource", "file": str(folder / "words.txt")}
    words = builder.from_connector("words", source, Consumed.with_(Serdes.bytes(), Serdes.string()))
    counts = words.group_by(lambda key, word: word, Grouped.with_(Serdes.string(), Serdes.string())).count()
    rows = counts.to_stream().map_values(lambda word, count: {"word": word, "count": count})
    table = {"connector.class": "SqliteSink", "connection.path": str(folder / "words.db"), "auto.create": True}
    table |= {"insert.mode": "upsert", "primary.key.mode": "record_value", "primary.key.fields": "word"}
    rows.to_connector("counts", table, Produced.with_(Serdes.string(), TOTAL))
    return builder.build()


def settings(folder):
    return {"application.id": "words", "log.dir": str(folder / "log"), "state.dir": str(folder / "state")}


def counts_in_the_table(folder):
    with sqlite3.connect(folder / "words.db") as database:
        return dict(database.execute("SELECT word, count FROM counts"))


def test_a_file_is_counted_into_a_table_to_its_end_and_the_next_run_goes_on(tmp_path):
    (tmp_path / "words.txt").write_text("a\nb\na\n")
    StreamsApp(counted_words(tmp_path), settings(tmp_path)).run_to_end()
    assert counts_in_the_table(tmp_path) == {"a": 2, "b": 1}
    with (tmp_path / "words.txt").open("a") as file:
        file.write("b\nc\n")
    StreamsApp(counted_words(tmp_path), settings(tmp_path)).run_to_end()
    assert counts_in_the_table(tmp_path) == {"a": 2, "b": 2, "c": 1}


def test_a_wrong_connector_is_refused_before_spark_starts(tmp_path):
    builder = StreamsBuilder()
    builder.from_connector("words", {"connector.class": "NoSuchSource"}).foreach(print)
    app = StreamsApp(builder.build(), settings(tmp_path))
    with pytest.raises(TopologyError, match="NoSuchSource") as raised:
        app.run_to_end()
    assert raised.value.condition == "INVALID_CONNECTOR"
    assert not (tmp_path / "state").exists()
