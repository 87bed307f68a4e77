"""Functions of CREATE FUNCTION in child processes: what hangs or dies is ended, and the server goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.command_servers import client_of, ksql, rows, server_in

from hayase.server.children.python_calls import PythonCalls
from hayase.server.children.values import pack, unpack
from hayase.sql.errors import FunctionError
from hayase.sql.functions.python_source import PythonFunction
from hayase.sql.types.sql_types import BIGINT

FOR_EVER = "while True: pass"


@pytest.fixture(scope="module")
def calls() -> Iterator[PythonCalls]:
    made = PythonCalls(1.0)
    yield made
    made.close()


def function(body: str, *parameters: str) -> PythonFunction:
    return PythonFunction("F", parameters, BIGINT, body)


@pytest.mark.parametrize(
    "value", [None, True, -5, 2**70, 1.5, "é", b"\0", Decimal("1.50"), [1, [None]], {"a": {1: [Decimal(2)]}}]
)
def test_values_come_back_as_they_are(calls: PythonCalls, value: Any) -> None:
    assert unpack(pack(value)) == value
    result = calls(function("x", "x"), [value])
    assert (result, type(result)) == (value, type(value))


def test_a_call_runs_in_another_process_without_the_servers_environment(
    calls: PythonCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_SERVER", "hunter22")
    own = PythonCalls(10.0)
    pid, secret = own(function("import os\nreturn [os.getpid(), os.environ.get('SECRET_OF_SERVER')]"), [])
    own.close()
    assert pid != os.getpid()
    assert secret is None


def test_what_a_function_prints_or_raises_does_not_reach_the_server(calls: PythonCalls) -> None:
    assert calls(function("print('x' * 100000)\nreturn 1"), []) == 1
    with pytest.raises(FunctionError, match="F: ZeroDivisionError: "):
        calls(function("1 // 0"), [])
    with pytest.raises(FunctionError, match="is no value of SQL"):
        calls(function("object()"), [])
    assert calls(function("2"), []) == 2


@pytest.mark.long
def test_a_function_that_hangs_is_ended_and_not_called_again_for_a_while(calls: PythonCalls) -> None:
    before, began_s = calls.ended, time.monotonic()
    with pytest.raises(FunctionError, match="took longer than 1 s and was ended"):
        calls(function(FOR_EVER), [])
    again_s = time.monotonic()
    with pytest.raises(FunctionError, match="is not called again"):
        calls(function(FOR_EVER), [])
    assert again_s - began_s >= 1.0
    assert time.monotonic() - again_s < 0.5
    assert calls.ended == before + 1
    assert calls(function("3"), []) == 3


@pytest.mark.long
def test_a_function_that_hung_is_called_again_later() -> None:
    now_s = [0.0]
    calls = PythonCalls(0.2, now_s=lambda: now_s[0])
    with pytest.raises(FunctionError, match="was ended"):
        calls(function(FOR_EVER), [])
    now_s[0] = 31.0
    with pytest.raises(FunctionError, match="was ended"):
        calls(function(FOR_EVER), [])
    calls.close()


@pytest.mark.long
@pytest.mark.parametrize("body", ["import os\nos._exit(3)", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"])
def test_a_function_that_ends_its_process_fails_alone(calls: PythonCalls, body: str) -> None:
    with pytest.raises(FunctionError, match="has ended its process"):
        calls(function(body), [])
    assert calls(function("4"), []) == 4


def test_a_function_that_takes_all_memory_fails_alone(calls: PythonCalls) -> None:
    with pytest.raises(FunctionError, match="MemoryError"):
        calls(function("bytearray(8 << 30)"), [])
    assert calls(function("5"), []) == 5


@pytest.mark.long
def test_a_pull_query_with_a_function_that_hangs_ends_and_the_server_goes_on(tmp_path: Path) -> None:
    settings = {"ksql_udfs_python_enabled": "true", "hayase_server_function_timeout_ms": "1000"}
    with server_in(tmp_path, **settings) as context:
        client = client_of(context)
        ksql(client, "CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);"
                     "CREATE FUNCTION hangs (v INT) RETURNS INT LANGUAGE PYTHON AS '\nwhile True: pass\nreturn v\n';"
                     "CREATE FUNCTION doubled (v INT) RETURNS INT LANGUAGE PYTHON AS '2 * v';"
                     + "".join(f"INSERT INTO s VALUES ({number}, {number});" for number in range(20)))  # fmt: skip
        began_s = time.monotonic()
        assert rows(client, "SELECT hangs(v) AS h FROM s;") == [[None]] * 20
        assert time.monotonic() - began_s < 15
        assert rows(client, "SELECT doubled(v) AS d FROM s;") == [[2 * number] for number in range(20)]
        assert context.python_calls.ended == 1


@pytest.mark.long
def test_a_function_at_work_ends_with_a_server_that_is_killed(tmp_path: Path) -> None:
    shown = tmp_path / "pid"
    body = f"import os, pathlib\npathlib.Path({str(shown)!r}).write_text(str(os.getpid()))\nwhile True: pass"
    server = textwrap.dedent(
        f"""
        from hayase.server.children.python_calls import PythonCalls
        from hayase.sql.functions.python_source import PythonFunction
        from hayase.sql.types.sql_types import BIGINT
        PythonCalls(600.0)(PythonFunction("F", (), BIGINT, {body!r}), [])
        """
    )
    process = subprocess.Popen([sys.executable, "-c", server])
    until_s = time.monotonic() + 60
    try:
        while not shown.exists() or not shown.read_text():
            assert process.poll() is None and time.monotonic() < until_s
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    child = int(shown.read_text())
    while Path(f"/proc/{child}").exists() and "python_worker" in Path(f"/proc/{child}/cmdline").read_text():
        assert time.monotonic() < until_s, "the child runs on"
        time.sleep(0.05)
