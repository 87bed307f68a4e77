"""The commands that need no Spark, as a user types them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hayase
from hayase.cli.main import run_cli
from hayase.cli.options import read_settings
from hayase.core.records import Window, Windowed
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig, OutputBatch
from hayase.serde import Serdes, SessionWindowedSerde

ROOT = Path(__file__).parents[3]


class Shell:
    """Runs `hayase …` in this process on a log of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.log_dir = folder / "log"
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("HAYASE_LOG_DIR", str(self.log_dir))
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        self.err = ""

    def run(self, *arguments: str, stdin: bytes = b"", code: int = 0) -> str:
        """What it prints; checks its exit code."""
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capsys.readouterr()
        found = run_cli(arguments)
        out, self.err = self._capsys.readouterr()
        assert found == code, (found, out, self.err)
        return out

    def error_of(self, *arguments: str) -> str:
        """What it prints on standard error, failing."""
        self.run(*arguments, code=1)
        return self.err


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(tmp_path, capsys, monkeypatch)


def test_topics_are_created_listed_and_described(shell: Shell) -> None:
    assert shell.run("topics", "create", "orders", "-p", "3", "-c", "cleanup.policy=compact") == (
        "created orders with 3 partitions\n"
    )
    shell.run("topics", "create", "users")
    assert shell.run("topics", "list") == "orders\nusers\n"
    described = shell.run("topics", "describe", "orders")
    assert "3 partitions" in described
    assert "cleanup.policy=compact" in described
    assert "partition 2: offsets 0 to 0" in described


def test_produced_lines_are_consumed_with_keys_nulls_and_places(shell: Shell) -> None:
    shell.run("topics", "create", "t")
    shell.run("topics", "produce", "t", "--null", "NULL", stdin=b'a:{"n": 1}\nno key\nb:NULL\nc:\n')
    assert shell.err == "wrote 4 records\n"
    out = shell.run("topics", "consume", "t", "--from-beginning", "--stop-at-end", "--offsets")
    assert out == '0:0\ta\t{"n": 1}\n0:1\tnull\tno key\n0:2\tb\tnull\n0:3\tc\t\n'


def test_an_object_without_a_key_is_refused_before_it_is_cut_at_its_first_colon(shell: Shell) -> None:
    shell.run("topics", "create", "t")
    shell.run("topics", "produce", "t", stdin=b'{"n":1}\n', code=1)
    assert "write KEY:VALUE, or use --no-keys" in shell.err
    shell.run("topics", "produce", "t", stdin=b'{"n" is a key:1\n')


def test_produced_lines_have_the_time_that_is_asked_for(shell: Shell) -> None:
    shell.run("topics", "create", "t")
    for when in ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "1767225600000"):
        shell.run("topics", "produce", "t", "--no-keys", "--timestamp", when, stdin=b"a\n")
    out = shell.run("topics", "consume", "t", "--from-beginning", "--stop-at-end", "--timestamps")
    assert [line.split("\t")[0] for line in out.splitlines()] == ["2026-01-01T00:00:00.000Z"] * 3
    shell.run("topics", "produce", "t", "--timestamp", "yesterday", code=1)
    assert "--timestamp 'yesterday' is no time" in shell.err
    shell.run("topics", "produce", "t", "--timestamp", "-1", code=1)


def test_with_no_keys_the_whole_line_is_the_value(shell: Shell) -> None:
    shell.run("topics", "create", "t")
    shell.run("topics", "produce", "t", "--no-keys", stdin=b'{"a":1}\r\nlast')
    assert shell.run("topics", "consume", "t", "--from-beginning", "--max", "2") == 'null\t{"a":1}\nnull\tlast\n'


def test_consume_stops_after_max_records(shell: Shell) -> None:
    shell.run("topics", "create", "t")
    shell.run("topics", "produce", "t", "--no-keys", stdin=b"1\n2\n3\n")
    assert shell.run("topics", "consume", "t", "--from-beginning", "--max", "2") == "null\t1\nnull\t2\n"


def test_formats_headers_and_times_are_shown(shell: Shell) -> None:
    log = open_log(LogConfig("embedded", str(shell.log_dir), {"fsync": "false"}))
    log.create_topic("t", 1)
    start = (1_767_571_200_000).to_bytes(8, "big")
    headers = ((("why", b"x\x00"), ("none", None)),)
    log.writer().append(
        [OutputBatch("t", [b"k" + start], [b"caf\xc3\xa9 au lait"], [1_767_571_200_005], headers=list(headers))]
    )
    log.writer().append([OutputBatch("t", [b"k" + start], [(7).to_bytes(8, "big")], [0])])
    log.close()
    out = shell.run(
        *("topics", "consume", "t", "--from-beginning", "--stop-at-end", "--timestamps", "--headers"),
        *("--key-format", "windowed", "--value-format", "long"),
    )
    assert out.splitlines() == [
        "2026-01-05T00:00:00.005Z\twhy=x\\x00,none=null\tk@2026-01-05T00:00:00.000Z\tcafé au lait",
        "1970-01-01T00:00:00.000Z\t-\tk@2026-01-05T00:00:00.000Z\t7",
    ]
    assert shell.run("topics", "consume", "t", "--from-beginning", "--max", "1", "--key-format", "hex").startswith(
        "6b 00 00"
    )


def test_keys_of_sessions_are_shown_with_start_and_end(shell: Shell) -> None:
    start_ms = 1_767_571_200_000
    key = SessionWindowedSerde(Serdes.string()).serialize(Windowed("ada", Window(start_ms, start_ms + 90_000)))
    log = open_log(LogConfig("embedded", str(shell.log_dir), {"fsync": "false"}))
    log.create_topic("t", 1)
    log.writer().append([OutputBatch("t", [key, b"short"], [b"2", b"1"], [1, 2])])
    log.close()
    out = shell.run("topics", "consume", "t", "--from-beginning", "--stop-at-end", "--key-format", "session")
    assert out.splitlines() == ["ada@2026-01-05T00:00:00.000Z/2026-01-05T00:01:30.000Z\t2", "short\t1"]


def test_json_is_indented_and_what_is_no_json_is_text(shell: Shell) -> None:
    shell.run("topics", "create", "t")
    shell.run("topics", "produce", "t", "--no-keys", stdin=b'{"a":1}\nnot json\n')
    out = shell.run("topics", "consume", "t", "--from-beginning", "--stop-at-end", "--value-format", "json")
    assert out == 'null\t{\n  "a": 1\n}\nnull\tnot json\n'


@pytest.mark.parametrize("command", ["consume", "produce", "describe", "delete"])
def test_an_unknown_topic_is_one_line_on_standard_error(shell: Shell, command: str) -> None:
    assert shell.run("topics", command, "nope", code=1) == ""
    assert shell.err.startswith("error: there is no topic 'nope'; ")
    assert shell.err.endswith("[UNKNOWN_TOPIC]\n")
    assert shell.err.count("\n") == 1


def test_a_topic_that_exists_is_not_made_again(shell: Shell) -> None:
    shell.run("topics", "create", "t")
    shell.run("topics", "create", "t", code=1)
    assert "[TOPIC_EXISTS]" in shell.err


def test_a_wrong_topic_setting_says_which_there_are(shell: Shell) -> None:
    shell.run("topics", "create", "t", "-c", "retention", code=1)
    assert "is not KEY=VALUE" in shell.err
    shell.run("topics", "create", "t", "-c", "retention=1", code=1)
    assert "retention.ms" in shell.err


def test_settings_of_a_topic_are_changed_and_taken_back(shell: Shell) -> None:
    shell.run("topics", "create", "t", "-c", "retention.ms=1000")
    out = shell.run("topics", "alter", "t", "-c", "retention.bytes=5", "--delete-config", "retention.ms")
    assert out == "  retention.bytes=5\n"
    assert "retention.ms" not in shell.run("topics", "describe", "t")
    assert "  retention.ms=-1\n" in shell.run("topics", "describe", "t", "--all")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("t",), "nothing to change"),
        (("t", "-c", "retention.ms=soon"), "must be a whole number from -1, not 'soon'"),
        (("t", "--delete-config", "retention"), "it knows cleanup.policy, "),
        (("nope", "-c", "retention.ms=1"), "there is no topic 'nope'"),
        (("t", "-c", "remote.storage.enable=true"), "needs remote.storage.url"),
    ],
)
def test_a_change_of_settings_that_cannot_be_made_is_one_line(
    shell: Shell, arguments: tuple[str, ...], said: str
) -> None:
    shell.run("topics", "create", "t")
    assert shell.run("topics", "alter", *arguments, code=1) == ""
    assert said in shell.err
    assert shell.err.count("\n") == 1


def test_a_topic_is_removed_after_a_question(shell: Shell) -> None:
    shell.run("topics", "create", "t")
    shell.run("topics", "delete", "t", stdin=b"n\n", code=1)
    assert shell.run("topics", "list") == "t\n"
    assert shell.run("topics", "delete", "t", "--yes") == "removed t\n"
    assert shell.run("topics", "list") == ""


@pytest.mark.long
def test_cleaning_says_what_it_did_and_describe_where_the_records_are(shell: Shell, tmp_path: Path) -> None:
    shell.run("topics", "create", "users", "-c", "cleanup.policy=compact")
    shell.run("topics", "produce", "users", stdin=b"a:1\nb:2\na:3\n")
    tier = (
        "remote.storage.enable=true",
        f"remote.storage.url={tmp_path}/old",
        "local.retention.bytes=0",
        "segment.ms=1",
    )
    shell.run("topics", "create", "orders", *(part for pair in tier for part in ("-c", pair)))
    shell.run("topics", "produce", "orders", stdin=b"a:1\nb:2\n")
    time.sleep(0.002)  # longer than segment.ms
    assert shell.run("topics", "clean").startswith("1 superseded records, ")
    assert "offsets 0 to 3, 3 of them; " in shell.run("topics", "describe", "users")
    described = shell.run("topics", "describe", "orders").splitlines()
    assert "0 bytes here" in described[-2]
    assert "in 1 remote part" in described[-2]
    assert described[-1].startswith("    offsets 0 to 2: 2 records, ")
    assert shell.run("topics", "clean") == "nothing to clean\n"
    out = shell.run("topics", "consume", "orders", "--from-beginning", "--stop-at-end")
    assert out == "a\t1\nb\t2\n"


def test_both_kinds_of_log_at_once_are_refused(shell: Shell) -> None:
    shell.run("topics", "list", "-b", "localhost:9092", code=1)
    assert "leave one out" in shell.err


def test_describe_shows_the_topology_and_the_form_of_each_part(shell: Shell) -> None:
    out = shell.run("describe", f"{ROOT}/examples/ecommerce.py:topology")
    assert "Sub-topology: 1 for global store (will not generate tasks)" in out
    assert (
        "Sub-topology 1 (global): level 0, columns, in rows epochs of up to 200 records (every node has a column form)"
        in out
    )
    assert "Sub-topology 2: level 2, columns" in out
    rows = shell.run("describe", f"{ROOT}/examples/ecommerce.py", "-c", "processing.form=rows")
    assert "Sub-topology 2: level 2, rows (processing.form is 'rows')" in rows


def test_describe_shows_the_topics_that_frames_of_spark_are_joined_by(shell: Shell, tmp_path: Path) -> None:
    program = tmp_path / "pages.py"
    program.write_text(
        "from hayase import StreamsBuilder\n"
        "builder = StreamsBuilder()\n"
        "builder.from_spark('views', lambda spark: None).to_spark('counts', lambda frame, number: None)\n"
    )
    assert shell.run("describe", str(program)).endswith(
        "Frames of Spark:\n"
        "  from_spark views --> topic pages-views-from-spark\n"
        "  topic pages-counts-to-spark --> to_spark counts\n"
    )


def test_a_wrong_setting_is_one_line(shell: Shell) -> None:
    shell.run("run", f"{ROOT}/examples/quickstart.py", "-c", "comit.interval.ms=5", code=1)
    assert shell.err.startswith("error: there is no setting 'comit.interval.ms'; did you mean 'commit.interval.ms'?")
    shell.run("run", f"{ROOT}/examples/quickstart.py", "-c", "oops", code=1)
    assert "is not KEY=VALUE" in shell.err


def test_missing_topics_are_one_line_before_spark_starts(shell: Shell) -> None:
    shell.run("run", f"{ROOT}/examples/quickstart.py", "--to-end", code=1)
    assert (
        "create them before the application starts, as by `hayase topics create purchases` [UNKNOWN_TOPIC]" in shell.err
    )
    assert "Traceback" not in shell.err


def test_debug_shows_the_trace(shell: Shell) -> None:
    with pytest.raises(Exception, match="there is no topic"):
        run_cli(["--debug", "topics", "describe", "nope"])


def test_wrong_arguments_name_the_help_that_explains_them(shell: Shell) -> None:
    shell.run("demo", "--orders", "5", code=2)
    assert "--orders" in shell.err and "`hayase demo --help`" in shell.err
    shell.run("dmo", code=2)
    assert "Did you mean 'demo'?" in shell.err


@pytest.mark.parametrize("group", [(), ("topics",), ("app",), ("dev",)])
def test_a_group_without_a_command_shows_its_help(shell: Shell, group: tuple[str, ...]) -> None:
    shell.run(*group, code=2)
    assert shell.err.startswith("Usage: hayase")
    assert "Commands:" in shell.err


@pytest.mark.parametrize(
    "command",
    [
        *(("demo",), ("run",), ("describe",), ("app", "reset"), ("dev", "kafka"), ("topics", "list")),
        *(("topics", "create"), ("topics", "describe"), ("topics", "produce"), ("topics", "consume")),
    ],
)
def test_every_command_has_help_with_an_example(shell: Shell, command: tuple[str, ...]) -> None:
    text = shell.run(*command, "--help")
    assert "For example:" in text
    assert f"hayase {' '.join(command)}" in text.split("For example:")[1]


def test_the_version_is_that_of_the_package(shell: Shell) -> None:
    assert shell.run("--version").startswith("hayase 0.")


@pytest.mark.long
def test_describe_says_how_many_partitions_topics_have_which_are_missing_and_what_does_not_fit(shell: Shell) -> None:
    program = f"{ROOT}/examples/ecommerce.py"
    assert "Topics:" not in shell.run("describe", program)
    assert not shell.log_dir.exists()
    shell.run("topics", "create", "orders", "-p", "3")
    shell.run("topics", "create", "products")
    out = shell.run("describe", program)
    assert "  orders: read, 3 partitions\n" in out
    assert "  users: read, MISSING: hayase topics create users\n" in out
    shell.run("topics", "create", "users", "-p", "2")
    out = shell.run("describe", program)
    assert "  sales: written, MISSING: hayase topics create sales\n" in out
    assert "  DOES NOT FIT: [PARTITIONS_DIFFER] " in out
    shell.run("topics", "delete", "users", "--yes")
    shell.run("topics", "create", "users", "-p", "3")
    out = shell.run("describe", program)
    assert "DOES NOT FIT" not in out
    assert "-repartition: between tasks, 3 partitions\n" in out


def test_headers_are_written_and_records_read_from_an_offset_of_a_partition(shell: Shell) -> None:
    shell.run("topics", "create", "t", "-p", "2")
    shell.run("topics", "produce", "t", "--no-keys", "--header", "source=test", "--header", "n=1=2", stdin=b"a\nb\nc\n")
    where = ("topics", "consume", "t", "--stop-at-end", "--offsets")
    assert shell.run(*where, "--partition", "0", "--offset", "1", "--headers") == "0:1\tsource=test,n=1=2\tnull\tc\n"
    assert shell.run(*where, "--partition", "1", "--from-beginning") == "1:0\tnull\tb\n"
    assert shell.run(*where, "--partition", "0", "--offset", "9") == ""
    assert "2 partitions, counted from 0" in shell.error_of(*where, "--partition", "2")
    assert "--offset goes with --partition" in shell.error_of(*where, "--offset", "1")
    assert "is not NAME=VALUE" in shell.error_of("topics", "produce", "t", "--header", "x")


def test_topics_are_listed_and_described_for_programs(shell: Shell) -> None:
    shell.run("topics", "create", "t", "-p", "2", "-c", "retention.ms=1000")
    (listed,) = [json.loads(line) for line in shell.run("topics", "list", "--json").splitlines()]
    assert (listed["topic"], listed["partitions"], listed["config"]["retention.ms"]) == ("t", 2, "1000")
    described = json.loads(shell.run("topics", "describe", "t", "--json"))
    assert described["offsets"] == [{"partition": each, "start": 0, "end": 0} for each in (0, 1)]


def test_settings_come_from_the_nearest_project_file_and_its_folders_are_relative_to_it(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HAYASE_LOG_DIR")
    (tmp_path / "shop" / "src").mkdir(parents=True)
    project = tmp_path / "shop" / "hayase.toml"
    project.write_text('application.id = "shop"\nlog.dir = "data/log"\n')
    monkeypatch.chdir(tmp_path / "shop" / "src")
    shell.run("topics", "create", "orders")
    assert (tmp_path / "shop" / "data" / "log" / "data.mdb").exists()
    assert read_settings(["state.dir=x"], None)["log.dir"] == str(tmp_path / "shop" / "data" / "log")
    project.chmod(0o666)
    assert "any user can write it" in shell.error_of("topics", "list")


def test_applications_with_state_on_this_machine_are_listed(shell: Shell, tmp_path: Path) -> None:
    for name in ("shop", "not an id"):
        (tmp_path / "state" / "hayase" / name / "checkpoint").mkdir(parents=True)
    (tmp_path / "state" / "hayase" / "notes").mkdir()
    assert shell.run("app", "list") == "shop\tnot running\tno epoch is finished\n"
    assert json.loads(shell.run("app", "list", "--json")) == {
        "application_id": "shop", "running": False, "finished_epoch": None,
    }  # fmt: skip


def test_the_command_is_a_module_too_and_the_package_has_its_version(shell: Shell) -> None:
    done = subprocess.run([sys.executable, "-m", "hayase", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"hayase {hayase.__version__}\n"


def test_no_line_of_the_help_is_cut_off(shell: Shell) -> None:
    for group in ((), ("app",), ("state",), ("topics",), ("dev",)):
        assert not [line for line in shell.run(*group, "--help").splitlines()[1:] if line.endswith("...")]
