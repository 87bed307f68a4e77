"""The shell of the SQL server."""

from __future__ import annotations

import io
import json
from pathlib import Path

import httpx2
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from hayase.cli.sql.completion import SqlCompleter
from hayase.cli.sql.output import Output, OutputFormat
from hayase.cli.sql.prompt import interact, statements_of
from hayase.cli.sql.shell import LeaveShell, Shell, is_command, is_complete
from hayase.client import SqlClient

_ROWS = (
    '[{"header":{"queryId":"q1","schema":"`ID` STRING, `V` BIGINT"}},\n'
    '{"row":{"columns":["a, b",1]}},\n{"finalMessage":"Limit Reached"}]\n'
)
_STREAMS = {
    "@type": "streams",
    "streams": [
        {"name": "ORDERS", "topic": "orders", "keyFormat": "KAFKA", "valueFormat": "JSON", "isWindowed": False}
    ],
}
_SOURCE = {
    "@type": "sourceDescription",
    "sourceDescription": {
        "name": "ORDERS",
        "extended": False,
        "fields": [{"name": "ID", "schema": {"type": "STRING"}, "type": "KEY"}],
    },
}


class _Fixture:
    """A shell whose server answers what tests need."""

    def __init__(self, format_: OutputFormat = OutputFormat.TABULAR) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.sent: list[str] = []
        client = SqlClient("http://server", transport=httpx2.MockTransport(self._answer))
        output = Output(self.out, self.err, format_, width=41)
        self.shell = Shell(client, output, lambda url: client, lambda: iter(["SHOW TABLES;"]))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/query-stream":
            self.sent.append(json.loads(request.content)["sql"])
            return httpx2.Response(200, text=_ROWS)
        if request.url.path == "/query":
            return httpx2.Response(200, text="line 1\n\nline 2\n")
        if request.url.path.startswith("/is_valid_property"):
            return httpx2.Response(200, json=True)
        if request.url.path == "/info":
            return httpx2.Response(200, json={"KsqlServerInfo": {"version": "0.29.0"}})
        text = json.loads(request.content)["ksql"]
        self.sent.append(text)
        if "BAD" in text:
            message = "line 2:3: Syntax Error"
            return httpx2.Response(400, json={"error_code": 40001, "message": message, "statementText": text})
        if text.startswith("DESCRIBE"):
            return httpx2.Response(200, json=[_SOURCE])
        if text.startswith("LIST FUNCTIONS"):
            return httpx2.Response(200, json=[{"@type": "function_names", "functions": [{"name": "COUNT"}]}])
        return httpx2.Response(200, json=[_STREAMS] if text.startswith("LIST") else [])

    @property
    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()


def test_rows_are_a_table_that_ends_with_its_message() -> None:
    fixture = _Fixture()
    assert fixture.shell.run("SELECT * FROM t EMIT CHANGES LIMIT 1;")
    assert fixture.lines == [
        "+-------------------+-------------------+",
        "| ID                | V                 |",
        "+-------------------+-------------------+",
        "| a, b              | 1                 |",
        "Limit Reached",
    ]


def test_rows_as_json_are_objects() -> None:
    fixture = _Fixture(OutputFormat.JSON)
    fixture.shell.run("SELECT * FROM t;")
    assert [json.loads(line) for line in fixture.lines] == [{"ID": "a, b", "V": 1}]


def test_rows_as_csv_are_quoted_where_they_must_be() -> None:
    fixture = _Fixture(OutputFormat.CSV)
    fixture.shell.run("SELECT * FROM t;")
    assert fixture.lines == ["ID,V", '"a, b",1']


def test_lists_are_tables() -> None:
    fixture = _Fixture()
    fixture.shell.run("LIST STREAMS;")
    assert fixture.lines[0].startswith("Stream Name | Kafka Topic")
    assert fixture.lines[2].startswith("ORDERS      | orders")


def test_several_statements_are_executed_one_after_the_other() -> None:
    fixture = _Fixture()
    fixture.shell.run("CREATE STREAM a (x INT) WITH (kafka_topic='a', value_format='JSON'); SELECT * FROM a;")
    assert [text.split()[0] for text in fixture.sent] == ["CREATE", "SELECT"]


def test_an_error_is_shown_under_its_position_and_ends_the_text() -> None:
    fixture = _Fixture()
    assert not fixture.shell.run("DROP STREAM\n  BAD;\nLIST STREAMS;")
    assert fixture.err.getvalue().splitlines() == ["  BAD;", "  ^", "line 2:3: Syntax Error"]
    assert len(fixture.sent) == 1


@pytest.mark.parametrize("position", ["line 1:6: wrong", "Line: 1, Col: 6: wrong", "wrong (line 1, column 6)"])
def test_positions_are_found_as_messages_have_them(position: str) -> None:
    fixture = _Fixture()
    fixture.shell._show(position, "DROP x;")
    assert fixture.err.getvalue().splitlines() == ["DROP x;", "     ^", position]


def test_settings_and_variables_are_those_of_the_shell() -> None:
    fixture = _Fixture()
    fixture.shell.run("SET 'auto.offset.reset'='earliest'; DEFINE x = '1';")
    assert fixture.shell.client.properties == {"auto.offset.reset": "earliest"}
    assert fixture.shell.client.variables == {"x": "1"}
    fixture.shell.run("UNSET 'auto.offset.reset'; UNDEFINE x;")
    assert fixture.shell.client.properties == fixture.shell.client.variables == {}


def test_a_script_runs_the_scripts_beside_it(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "outer.sql").write_text("RUN SCRIPT 'inner/a.sql';")
    (tmp_path / "inner" / "a.sql").write_text("RUN SCRIPT 'b.sql';")
    (tmp_path / "inner" / "b.sql").write_text("LIST STREAMS;")
    fixture = _Fixture()
    assert fixture.shell.run(f"RUN SCRIPT '{tmp_path}/outer.sql';")
    assert fixture.sent == ["LIST STREAMS;"]


@pytest.mark.parametrize("path", ["../other.sql", "{}/other.sql", "link.sql"])
def test_a_script_runs_no_script_outside_of_its_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "other.sql").write_text("LIST STREAMS;")
    (tmp_path / "own" / "link.sql").symlink_to(tmp_path / "other.sql")
    (tmp_path / "own" / "a.sql").write_text(f"RUN SCRIPT '{path.format(tmp_path)}';")
    fixture = _Fixture()
    assert not fixture.shell.run(f"RUN SCRIPT '{tmp_path}/own/a.sql';")
    assert "SCRIPT_ELSEWHERE" in fixture.err.getvalue() and fixture.sent == []
    assert fixture.shell.run(f"RUN SCRIPT '{tmp_path}/other.sql';")
    assert fixture.sent == ["LIST STREAMS;"]


def test_a_script_that_runs_itself_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("RUN SCRIPT 'a.sql';")
    fixture = _Fixture()
    assert not fixture.shell.run(f"RUN SCRIPT '{tmp_path}/a.sql';")
    assert "run each other" in fixture.err.getvalue()


def test_what_comes_from_a_pipe_is_executed_as_if_it_was_typed(tmp_path: Path) -> None:
    fixture = _Fixture()
    text = (
        f"SPOOL '{tmp_path}/out.txt'\nLIST\n  STREAMS; LIST STREAMS;\nSPOOL OFF\n-- at last\nOUTPUT JSON\nLIST TABLES"
    )
    assert fixture.shell.run_typed(text)
    assert fixture.sent == ["LIST\n  STREAMS;", "LIST STREAMS;", "LIST TABLES;"]
    assert (tmp_path / "out.txt").read_text().count("ORDERS") == 2
    assert fixture.shell.output.format is OutputFormat.JSON


@pytest.mark.parametrize("line", ["RUN SCRIPT '/none.sql';", "OUTPUT xml", "SPOOL /none/out.txt"])
def test_a_command_that_fails_ends_what_comes_from_a_pipe(line: str) -> None:
    fixture = _Fixture()
    assert not fixture.shell.run_typed(f"LIST STREAMS;\n{line}\nLIST TABLES;")
    assert fixture.sent == ["LIST STREAMS;"]


def test_a_statement_may_follow_a_script_on_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("LIST STREAMS;")
    fixture = _Fixture()
    assert fixture.shell.run_typed(f"RUN SCRIPT '{tmp_path}/a.sql'; LIST TABLES;")
    assert fixture.sent == ["LIST STREAMS;", "LIST TABLES;"]


def test_a_file_of_the_command_line_runs_the_scripts_beside_it_and_no_others(tmp_path: Path) -> None:
    fixture, file = _Fixture(), tmp_path / "own" / "outer.sql"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "inner.sql").write_text("LIST STREAMS;")
    (tmp_path / "other.sql").write_text("LIST TABLES;")
    assert fixture.shell.run_file(file, "RUN SCRIPT 'inner.sql';")
    assert not fixture.shell.run_file(file, "RUN SCRIPT '../other.sql';")
    assert "SCRIPT_ELSEWHERE" in fixture.err.getvalue()
    assert fixture.sent == ["LIST STREAMS;"]


def test_spool_writes_to_a_file_as_well(tmp_path: Path) -> None:
    fixture = _Fixture()
    fixture.shell.command(f"SPOOL '{tmp_path}/out.txt'")
    fixture.shell.run("LIST STREAMS;")
    fixture.shell.command("SPOOL OFF")
    assert "ORDERS" in (tmp_path / "out.txt").read_text()


def test_ctrl_c_ends_the_query_and_the_shell_goes_on() -> None:
    fixture = _Fixture()

    class Interrupted(io.StringIO):
        def write(self, text: str) -> int:
            if "a, b" in text:
                raise KeyboardInterrupt
            return super().write(text)

    fixture.shell.output = Output(Interrupted(), fixture.err, OutputFormat.JSON, width=41)
    assert fixture.shell.run("SELECT * FROM orders EMIT CHANGES; LIST STREAMS;")
    assert fixture.sent == ["SELECT * FROM orders EMIT CHANGES;", "LIST STREAMS;"]


def test_at_a_terminal_lines_belong_together_until_the_semicolon_and_ctrl_c_drops_them() -> None:
    fixture = _Fixture()
    history = InMemoryHistory()
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("SELECT 1\x03LIST\rSTREAMS;\rhistory\r\x04")
        interact(fixture.shell, history)
    assert fixture.sent == ["LIST\nSTREAMS;"]
    assert list(statements_of(history)) == ["LIST\nSTREAMS;", "history"]


def test_lines_of_print_are_shown_without_the_empty_ones() -> None:
    fixture = _Fixture()
    fixture.shell.run("PRINT orders;")
    assert fixture.lines == ["line 1", "line 2"]


@pytest.mark.parametrize("line", ["exit", "QUIT;", "Exit"])
def test_exit_leaves_the_shell(line: str) -> None:
    with pytest.raises(LeaveShell):
        _Fixture().shell.command(line)


@pytest.mark.parametrize("line", ["HELP", "VERSION", "HISTORY", "OUTPUT json", "SERVER", "CLEAR"])
def test_commands_are_no_statements(line: str) -> None:
    fixture = _Fixture()
    assert fixture.shell.command(line)
    assert fixture.sent == []


def test_a_text_may_have_commands_on_lines_of_their_own_between_statements(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("LIST TABLES;")
    fixture = _Fixture()
    text = f"RUN SCRIPT '{tmp_path}/a.sql';\n\nOUTPUT json\nLIST STREAMS;\nSELECT\n  output\nFROM t;\n"
    assert fixture.shell.run_typed(text)
    assert [each.split()[:2] for each in fixture.sent] == [
        ["LIST", "TABLES;"],
        ["LIST", "STREAMS;"],
        ["SELECT", "output"],
    ]
    assert fixture.shell.output.format is OutputFormat.JSON


@pytest.mark.parametrize("command", ["RUN SCRIPT 'nowhere.sql';", "OUTPUT xml"])
def test_a_command_that_fails_ends_the_text(command: str) -> None:
    fixture = _Fixture()
    assert not fixture.shell.run_typed(f"{command}\nLIST STREAMS;")
    assert fixture.sent == []


def test_a_script_that_is_not_there_is_named() -> None:
    fixture = _Fixture()
    assert not fixture.shell.command("RUN SCRIPT 'nowhere.sql'")
    assert "nowhere.sql cannot be read" in fixture.err.getvalue()


def test_lines_count_behind_a_command_as_in_the_text() -> None:
    fixture = _Fixture()
    assert not fixture.shell.run_typed("OUTPUT json\n\n  SELECT 'a;\n")
    line, mark, message, *_ = fixture.err.getvalue().splitlines()
    assert (line, mark) == ("  SELECT 'a;", "         ^")
    assert "line 3" in message


@pytest.mark.parametrize("text", ["RUN faster;", "SELECT output;", "OUTPUT json\nLIST STREAMS;", "", "   "])
def test_what_is_no_command_is_no_command(text: str) -> None:
    assert not is_command(text)


def test_a_wrong_output_format_is_an_error_and_changes_nothing() -> None:
    fixture = _Fixture()
    fixture.shell.command("OUTPUT xml")
    assert fixture.shell.output.format is OutputFormat.TABULAR
    assert "xml" in fixture.err.getvalue().lower()


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("HELP", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 'a;", False),
        ("SELECT 1; SELECT", False),
        ("SELECT 1; -- done", True),
        ("SELECT ?", True),
        ("RUN SCRIPT 'a.sql'", True),
    ],
)
def test_a_statement_is_complete_with_its_semicolon(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_behind_from_sources_are_offered() -> None:
    completer = SqlCompleter(_Fixture().shell)
    assert list(completer.words("SELECT * FROM o", "SELECT * FROM o")) == [("ORDERS", "source")]


def test_keywords_functions_and_commands_are_offered() -> None:
    completer = SqlCompleter(_Fixture().shell)
    words = list(completer.words("s", "s"))
    assert {("SELECT", ""), ("COUNT", "function"), ("SPOOL", "command")} <= set(words)


def test_columns_of_sources_that_are_named_are_offered() -> None:
    completer = SqlCompleter(_Fixture().shell)
    assert ("ID", "column of ORDERS") in list(completer.words("SELECT i", "SELECT i FROM orders"))
