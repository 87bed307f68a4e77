"""`hayase sql test`: tests written in SQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from hayase.cli.main import run_cli

STREAMS = """
CREATE STREAM parcels (id INT KEY, grams INT) WITH (kafka_topic='parcels', value_format='JSON');
CREATE STREAM heavy AS SELECT id, grams / 1000 AS kilos FROM parcels WHERE grams >= 20000;
"""


class Folder:
    """A folder of `.sql` files, and what the command prints about them."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    def run(self, *arguments: str, code: int) -> str:
        self._capsys.readouterr()
        found = run_cli(["sql", "test", *(arguments or (str(self.folder),))])
        out, err = self._capsys.readouterr()
        assert found == code, (found, out, err)
        return out + err


@pytest.fixture
def tests(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path, capsys)


def test_a_file_without_directives_is_one_test(tests: Folder) -> None:
    tests.write(
        "deep/heavy.sql",
        f"{STREAMS} INSERT INTO parcels (rowtime, id, grams) VALUES (7, 1, 21000); INSERT INTO parcels VALUES (2, 5);"
        "INSERT INTO parcels VALUES (3, 30000); ASSERT VALUES heavy (rowtime, id, kilos) VALUES (7, 1, 21);"
        "ASSERT VALUES heavy (id) VALUES (3);",
    )
    out = tests.run(code=0)
    assert "heavy.sql: heavy\n" in out
    assert out.endswith("1 passed, 0 failed\n")


def test_the_tests_of_a_file_begin_with_nothing(tests: Folder) -> None:
    tests.write(
        "two.sql",
        f"--@test: first\n{STREAMS}\n--@test: second\n{STREAMS} INSERT INTO parcels VALUES (1, 20000);"
        "ASSERT VALUES heavy (id, kilos) VALUES (1, 20);\nASSERT STREAM heavy (id INT KEY, kilos INT) "
        "WITH (kafka_topic='HEAVY', value_format='JSON');",
    )
    assert tests.run(code=0).endswith("2 passed, 0 failed\n")


def test_a_record_that_is_another_one_fails(tests: Folder) -> None:
    file = tests.write(
        "t.sql",
        f"-- comment\n--@test: kilos\n{STREAMS} INSERT INTO parcels VALUES (1, 20000);"
        "ASSERT VALUES heavy (id, kilos) VALUES (1, 21);",
    )
    out = tests.run(code=1)
    assert f"FAILED  {file}:6: kilos" in out
    assert "Expected record does not match actual. Expected: {'ID': 1, 'KILOS': 21}" in out
    assert out.endswith("0 passed, 1 failed\n")


def test_a_failure_names_the_line_of_the_statement_that_ended_the_test(tests: Folder) -> None:
    file = tests.write(
        "t.sql",
        f"--@test: passes\n{STREAMS}--@test: second assert\n{STREAMS}INSERT INTO parcels VALUES (1, 20000);\n"
        "ASSERT VALUES heavy (id) VALUES (1);\n\nASSERT VALUES heavy (id)\n  VALUES (2);\n--@test: syntax\n"
        f"{STREAMS}SELECT\n  FROM heavy;\n--@test: script\n{STREAMS}\nRUN SCRIPT 'other.sql';\n",
    )
    tests.write("other.sql", "\n" * 50 + "CREATE STREAM;")
    out = tests.run(str(file), code=1)
    assert f"FAILED  {file}:12: second assert" in out
    assert f"FAILED  {file}:19: syntax" in out
    assert "line 19:3: Syntax Error" in out
    assert f"FAILED  {file}:25: script" in out
    assert f"script {tests.folder / 'other.sql'}, line 51, column 14" in out


def test_a_record_that_is_not_there_fails(tests: Folder) -> None:
    tests.write("t.sql", f"{STREAMS} ASSERT VALUES heavy (id) VALUES (1);")
    assert "Expected another record" in tests.run(code=1)


def test_a_table_shows_deletes(tests: Folder) -> None:
    tests.write(
        "t.sql",
        "CREATE TABLE t (id INT PRIMARY KEY, n INT) WITH (kafka_topic='t', value_format='JSON');"
        "CREATE TABLE positive AS SELECT * FROM t WHERE n > 0;"
        "INSERT INTO t VALUES (1, 1); INSERT INTO t VALUES (1, -1);"
        "ASSERT VALUES positive (id, n) VALUES (1, 1); ASSERT NULL VALUES positive (id) KEY (1);",
    )
    tests.run(code=0)


@pytest.mark.parametrize(
    "before",
    [
        "CREATE STREAM s (k INT KEY) WITH (kafka_topic='s', value_format='JSON');\n",
        "--@expected.error: KsqlException\n",
        "/* a comment */ `\n",
    ],
)
def test_what_stands_before_the_first_test_is_refused(tests: Folder, before: str) -> None:
    file = tests.write("t.sql", f"-- parcels\n\n/* of\n all */ {before}--@test: one\n{STREAMS}")
    out = tests.run(code=1)
    assert f"{file}, line 4: this stands before the first --@test, at line 5" in out


def test_a_directive_in_a_text_or_a_comment_is_none(tests: Folder) -> None:
    tests.write(
        "t.sql",
        "/*\n--@test: no\n*/\n--@test: one\nCREATE STREAM s (k INT KEY, t STRING) WITH (kafka_topic='s', "
        "value_format='JSON');\nINSERT INTO s VALUES (1, '\n--@test: two\n');\n"
        "ASSERT VALUES s (t) VALUES ('\n--@test: two\n');\n  --@test: indented\n--@expected.message: nope\n"
        "CREATE STREAM x AS SELECT * FROM nope;",
    )
    out = tests.run(code=0)
    assert "t.sql: one\n" in out
    assert "t.sql: indented\n" in out
    assert out.endswith("2 passed, 0 failed\n")


@pytest.mark.parametrize(
    ("directives", "problem"),
    [
        ("--@expected.eror: KsqlException", "--@expected.eror: KsqlException is no directive"),
        ("--@ expected", "--@ expected is no directive"),
        ("--@: x", "--@: x is no directive"),
        ("-- @expected.error: KsqlException", "-- @expected.error: KsqlException is no directive; there are --@test"),
        ("--@expected-error: KsqlException", "--@expected-error: KsqlException is no directive"),
        ("--@expected.message:", "--@expected.message says nothing"),
        ("--@expected.error: KsqlExcepton", "did you mean KsqlException?"),
        ("--@expected.error: com.example.StatmentError", "did you mean StatementError?"),
        ("--@expected.error:", "nothing is no class of errors"),
        ("--@expected.message: a\n--@expected.message: b", "line 3: the test has --@expected.message before"),
    ],
)
def test_a_directive_that_says_nothing_is_refused(tests: Folder, directives: str, problem: str) -> None:
    tests.write("t.sql", f"--@test: one\n{directives}\nCREATE STREAM b AS SELECT * FROM a;")
    assert problem in tests.run(code=1).replace("\n", " ")


def test_an_error_of_hayase_is_expected_by_its_own_class(tests: Folder) -> None:
    statement = "CREATE STREAM b AS SELECT * FROM a;\n"
    tests.write(
        "t.sql",
        f"--@test: same\n--@expected.error: StatementError\n{statement}"
        f"--@test: root\n--@expected.error: HayaseError\n{statement}"
        f"--@test: other\n--@expected.error: hayase.core.errors.LeaseHeldError\n{statement}",
    )
    out = tests.run(code=1)
    assert "t.sql: same\n" in out
    assert "t.sql: root\n" in out
    assert "expected LeaseHeldError" in out


def test_an_expected_error_has_a_class_and_a_message(tests: Folder) -> None:
    tests.write(
        "t.sql",
        "--@test: right\n--@expected.error: io.confluent.ksql.util.KsqlException\n--@expected.message: does not exist\n"
        "CREATE STREAM b AS SELECT * FROM a;\n"
        "--@test: other message\n--@expected.message: something else\nCREATE STREAM b AS SELECT * FROM a;\n"
        "--@test: other class\n--@expected.error: ParseFailedException\nCREATE STREAM b AS SELECT * FROM a;\n"
        f"--@test: none\n--@expected.error: KsqlException\n{STREAMS}\n",
    )
    out = tests.run(code=1)
    assert "t.sql: right\n" in out
    assert "expected: something else" in out
    assert "expected ParseFailedException" in out
    assert "no error; expected KsqlException" in out
    assert out.endswith("1 passed, 3 failed\n")


def test_a_script_runs_another_one_beside_it(tests: Folder) -> None:
    tests.write("parts/streams.sql", STREAMS)
    file = tests.write(
        "t.sql",
        "RUN SCRIPT 'parts/streams.sql'; INSERT INTO parcels VALUES (1, 20000); ASSERT VALUES heavy (id) VALUES (1);",
    )
    tests.run(str(file), code=0)
    tests.write("t.sql", "RUN SCRIPT 't.sql';")
    assert "scripts run each other" in tests.run(str(file), code=1)


def test_a_query_that_is_replaced_keeps_its_state(tests: Folder) -> None:
    tests.write(
        "t.sql",
        f"{STREAMS} CREATE TABLE counts AS SELECT id, COUNT(*) AS n FROM parcels WHERE grams > 0 GROUP BY id;"
        "INSERT INTO parcels VALUES (1, 1);"
        "CREATE OR REPLACE TABLE counts AS SELECT id, COUNT(*) AS n FROM parcels WHERE grams > 1 GROUP BY id;"
        "INSERT INTO parcels VALUES (1, 1); INSERT INTO parcels VALUES (1, 2);"
        "ASSERT VALUES counts (id, n) VALUES (1, 1); ASSERT VALUES counts (id, n) VALUES (1, 2);",
    )
    tests.run(code=0)


def test_a_filter_selects_by_name(tests: Folder) -> None:
    tests.write("t.sql", f"--@test: One\n{STREAMS}--@test: Two\nnonsense;")
    assert tests.run(str(tests.folder), "--filter", "one", code=0).endswith("1 passed, 0 failed\n")
    assert "no test has 'three' in its name" in tests.run(str(tests.folder), "--filter", "three", code=1)


def test_mistakes_in_files_are_named(tests: Folder) -> None:
    assert "there is no .sql file in it" in tests.run(code=1)
    tests.write("t.sql", "SELECT 1;\n--@expected.result: 3\n")
    assert "t.sql, line 2: --@expected.result: 3 is no directive" in tests.run(code=1)
    tests.write("t.sql", "CREATE STREAM s (a INT b) WITH (x=1);")
    assert "line 1:24: Syntax Error" in tests.run(code=1)


def test_topics_and_schemas_are_asserted(tests: Folder) -> None:
    tests.write(
        "t.sql",
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', value_format='AVRO', partitions=3);"
        "ASSERT TOPIC `s` WITH (partitions=3); ASSERT NOT EXISTS TOPIC other;"
        "ASSERT SCHEMA SUBJECT 's-value'; ASSERT NOT EXISTS SCHEMA SUBJECT 'other';",
    )
    tests.run(code=0)


def test_a_value_that_a_column_cannot_have_is_an_error(tests: Folder) -> None:
    tests.write("t.sql", f"{STREAMS} INSERT INTO parcels VALUES (1, 20000); ASSERT VALUES heavy (kilos) VALUES ('x');")
    assert "'x' has no value of type INTEGER" in tests.run(code=1)


def test_variables_are_defined_in_scripts(tests: Folder) -> None:
    tests.write("t.sql", f"{STREAMS} DEFINE n = '20000'; INSERT INTO parcels VALUES (1, ${{n}}); UNDEFINE n;")
    tests.run(code=0)


def test_the_window_of_a_table_is_asserted(tests: Folder) -> None:
    declared = "ASSERT TABLE n WITH (kafka_topic='N', value_format='JSON', window_type='TUMBLING', window_size='{}');"
    tests.write(
        "t.sql",
        f"{STREAMS} CREATE TABLE n AS SELECT id, COUNT(*) AS c FROM parcels WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id;"
        f"{declared.format('1 HOUR')} {declared.format('2 HOURS')}",
    )
    assert "Expected window size does not match actual for source N" in tests.run(code=1)


JSON_INPUTS = """{"inputs": [
    {"topic": "parcels", "key": 1, "value": {"grams": 500}, "timestamp": 100},
    {"topic": "parcels", "key": 2, "value": {"GRAMS": "21000"}, "timestamp": 200}
]}"""
JSON_OUTPUTS = '{"outputs": [{"topic": "HEAVY", "key": 2, "value": {"KILOS": %s}, "timestamp": 200}]}'


def test_files_of_ksql_test_runner_are_run(tests: Folder) -> None:
    files = [tests.write("s.sql", STREAMS), tests.write("in.json", JSON_INPUTS)]
    right = tests.write("out.json", JSON_OUTPUTS % 21)
    assert "Test passed!" in tests.run("--json", *map(str, (*files, right)), code=0)
    wrong = tests.write("wrong.json", JSON_OUTPUTS % 22)
    out = tests.run("--json", *map(str, (*files, wrong)), code=1)
    assert 'topic HEAVY, record 0: value {"KILOS": 21}, expected {"KILOS": 22}' in out


def test_files_of_ksql_test_runner_may_insert_values_and_have_any_format(tests: Folder) -> None:
    statements = tests.write(
        "s.sql",
        """
        CREATE STREAM s (id INT KEY, made TIMESTAMP, cents DECIMAL(6, 2)) WITH (kafka_topic='s', value_format='AVRO');
        CREATE TABLE t WITH (value_format='PROTOBUF') AS SELECT id, SUM(cents) AS total, COUNT(*) AS n FROM s
            WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY id;
        INSERT INTO s (rowtime, id, cents) VALUES (1500, 7, 10.25);
        """,
    )
    window = '"window": {"start": 1000, "end": 2000, "type": "time"}'
    record = '"topic": "T", "key": 7, "value": {"TOTAL": 10.25, "N": 1}, ' + window
    outputs = tests.write("out.json", '{"outputs": [{' + record + "}]}")
    assert "Test passed!" in tests.run("--json", str(statements), str(outputs), code=0)


def test_files_that_are_not_of_ksql_test_runner_are_named(tests: Folder) -> None:
    statements, inputs = tests.write("s.sql", STREAMS), tests.write("in.json", '{"inputs": 3}')
    assert "in.json is no file of ksql-test-runner" in tests.run(
        "--json", *map(str, (statements, inputs, inputs)), code=1
    )
    assert "--json takes the files" in tests.run("--json", str(statements), code=1)


PER_HOUR = """
CREATE STREAM rides (bike STRING KEY, minutes INT) WITH (kafka_topic='rides', value_format='JSON');
CREATE TABLE totals AS SELECT bike, SUM(`MINUTES`) AS total FROM rides WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY bike;
CREATE TABLE visits AS SELECT bike, COUNT(*) AS n FROM rides WINDOW SESSION (1 HOUR) GROUP BY bike;
INSERT INTO rides (rowtime, bike, minutes) VALUES (3600007, 'b', 5);
"""


@pytest.mark.parametrize(
    "asserted",
    [
        "totals (bike, windowstart, windowend, total) VALUES ('b', 3600000, 7200000, 5)",
        "visits (windowstart, windowend, n) VALUES (3600007, 3600007, 1)",
    ],
)
def test_an_assertion_names_the_window(tests: Folder, asserted: str) -> None:
    tests.write("good.sql", f"{PER_HOUR} ASSERT VALUES {asserted};")
    assert tests.run(code=0).endswith("good.sql: good\n1 passed, 0 failed\n")


def test_an_assertion_about_another_window_fails(tests: Folder) -> None:
    tests.write("bad.sql", f"{PER_HOUR} ASSERT VALUES totals (windowstart, total) VALUES (7200000, 5);")
    assert "{'WINDOWSTART': 3600000, 'TOTAL': 5}" in tests.run(code=1)


def test_an_assertion_about_an_unknown_column_says_which_there_are(tests: Folder) -> None:
    tests.write("bad.sql", f"{STREAMS} INSERT INTO parcels VALUES (1, 2); ASSERT VALUES parcels (kilo) VALUES (2);")
    assert "`KILO` does not exist. PARCELS has ID, GRAMS, ROWTIME." in tests.run(code=1)


def test_a_column_with_the_name_of_a_unit_is_written_in_backquotes(tests: Folder) -> None:
    tests.write("bad.sql", PER_HOUR.replace("`MINUTES`", "minutes"))
    assert "MINUTES is a unit of time here; a column of this name is written `MINUTES` (line 3" in tests.run(code=1)


def test_an_assert_of_another_kind_or_an_unknown_name_says_what_there_is(tests: Folder) -> None:
    tests.write(
        "t.sql",
        f"--@test: kind\n{STREAMS}ASSERT TABLE heavy (id INT PRIMARY KEY, kilos INT) WITH (kafka_topic='HEAVY', "
        f"value_format='JSON');\n--@test: name\n{STREAMS}ASSERT VALUES heavi (id) VALUES (1);",
    )
    out = tests.run(code=1)
    assert "Expected type does not match actual for source HEAVY. Expected: TABLE, Actual: STREAM" in out
    assert "HEAVI does not exist." in out
    assert "Did you mean HEAVY?" in out


def test_a_field_that_a_struct_has_not_is_refused_in_values_that_are_inserted_or_expected(tests: Folder) -> None:
    stream = (
        "CREATE STREAM s (id INT KEY, c ARRAY<STRUCT<name STRING, vat INT>>) "
        "WITH (kafka_topic='s', value_format='JSON');\n"
    )
    tests.write(
        "t.sql",
        f"--@test: insert\n{stream}INSERT INTO s VALUES (1, ARRAY[STRUCT(nmae := 'x', vat := 1)]);\n"
        f"--@test: assert\n{stream}INSERT INTO s VALUES (1, ARRAY[STRUCT(name := 'x')]);\n"
        "ASSERT VALUES s (c) VALUES (ARRAY[STRUCT(nmae := 'x')]);\n",
    )
    out = tests.run(code=1)
    assert out.count("there is no field `NMAE`; the fields are `NAME`, `VAT`") == 2
    assert out.endswith("0 passed, 2 failed\n")


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("ksql.udfs.python.enabled=yes", "allowed are true and false"),
        ("auto.offset.reset=earlest", "auto.offset.reset is 'earlest'"),
        ("ksql.nope=1", "there is no setting 'ksql.nope'"),
    ],
)
def test_settings_of_the_command_are_checked(tests: Folder, setting: str, problem: str) -> None:
    tests.write("t.sql", STREAMS)
    assert problem in tests.run(str(tests.folder), "-c", setting, code=1)


def test_a_file_of_functions_that_declares_none_is_refused(tests: Folder) -> None:
    tests.write("functions.py", "def doubled(x):\n    return 2 * x\n")
    tests.write("t.sql", STREAMS)
    assert "declares no function" in tests.run("t.sql", "--functions", "functions.py", code=1)
