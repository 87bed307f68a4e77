"""Scripts as programs, before anything of them runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hayase.app.sql_program import SqlProgram
from hayase.app.sql_settings import registry_of
from hayase.core.config import StreamsConfig
from hayase.serde.registry import RegistrySchema
from hayase.sql.errors import StatementError
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry

SOURCE = "CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='AVRO', PARTITIONS=1);"


@contextmanager
def program(folder: Path, script: str) -> Iterator[SqlProgram]:
    settings = {
        "application.id": "script",
        "log.dir": str(folder / "log"),
        "state.dir": str(folder / "state"),
        "checkpoint.dir": str(folder / "checkpoint"),
    }
    with SqlProgram(script, settings) as made:
        yield made


def test_a_script_with_an_error_registers_no_schema_which_its_corrected_form_could_not_follow(tmp_path: Path) -> None:
    wrong = "CREATE STREAM r AS SELECT k, v AS x FROM s; CREATE STREAM t AS SELECT nothing FROM r;"
    with pytest.raises(StatementError, match="NOTHING"), program(tmp_path, SOURCE + wrong):
        pass
    assert EmbeddedSchemaRegistry.in_folder(tmp_path / "log" / "schemas").subjects() == []
    with program(tmp_path, SOURCE + "CREATE STREAM r AS SELECT k, CAST(v AS STRING) AS x FROM s;") as corrected:
        assert set(corrected.queries) == {"CSAS_R"}


def test_a_statement_sees_the_schema_that_one_before_it_makes(tmp_path: Path) -> None:
    script = SOURCE + (
        "CREATE STREAM r WITH (KAFKA_TOPIC='made') AS SELECT k, v + 1 AS x FROM s;"
        "CREATE STREAM again (k STRING KEY) WITH (KAFKA_TOPIC='made', VALUE_FORMAT='AVRO');"
    )
    with program(tmp_path, script) as made:
        source = made.engine.catalog.find("AGAIN")
        assert source is not None
        assert [column.name for column in source.value] == ["X"]


def test_beside_kafka_schemas_are_where_other_machines_and_later_ones_find_them(tmp_path: Path) -> None:
    given = {
        "application.id": "script",
        "bootstrap.servers": "kafka:9092",
        "checkpoint.dir": str(tmp_path / "shared"),
    }
    first, second = (
        registry_of(None, StreamsConfig({**given, "state.dir": str(tmp_path / machine)})) for machine in ("one", "two")
    )
    assert [first.register("s", RegistrySchema('"int"')), first.register("s", RegistrySchema('"long"'))] == [1, 2]
    assert second.register("t", RegistrySchema('"long"')) == 2


def test_schemas_that_an_earlier_release_left_beside_the_states_stay_there(tmp_path: Path) -> None:
    EmbeddedSchemaRegistry.in_folder(tmp_path / "state" / "schemas").register("s", RegistrySchema('"int"'))
    config = StreamsConfig(
        {
            "application.id": "script",
            "bootstrap.servers": "kafka:9092",
            "checkpoint.dir": str(tmp_path / "shared"),
            "state.dir": str(tmp_path / "state"),
        }
    )
    assert registry_of(None, config).subjects() == ["s"]
