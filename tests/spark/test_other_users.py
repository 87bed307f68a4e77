"""What other users of the machine find of an application that runs: nothing they can read, connect to or use."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
from tests.other_user import NOBODY, as_other_user, mode_of, needs_root, open_below, shared_place

T = TypeVar("T")
_SUBMIT = "org.apache.spark.deploy.SparkSubmit"  # the main class of a JVM that PySpark starts

_PROGRAM = """
import os, sys, threading
os.umask(0)
from pathlib import Path
from hayase import Consumed, Grouped, Materialized, Produced, Serdes, StreamsApp, StreamsBuilder
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig, OutputBatch

base = Path(sys.argv[1])
log = open_log(LogConfig("embedded", str(base / "log"), {"fsync": "false"}))
for topic in ("in", "out"):
    log.create_topic(topic, 2)
writer = log.writer()
keys = [b"%d" % number for number in range(100)]
writer.append([OutputBatch("in", keys, keys, [1] * len(keys))])
writer.close()
log.close()
text = Serdes.string()

def mark(key, value):
    (base / f"made by a function {key[0]}").write_text(value)

builder = StreamsBuilder()
stream = builder.stream("in", Consumed.with_(text, text))
stream.foreach(mark)
counts = stream.group_by(lambda key, value: value[:1], Grouped.with_(text, text)).count(
    Materialized.as_("counts").with_store_type("in_memory")
)
counts.to_stream().to("out", Produced.with_(text, Serdes.long()))
settings = {
    "application.id": "shop", "log.dir": str(base / "log"), "state.dir": str(base / "state"), "num.standby.replicas": 1,
    "state.memory.dir": str(base / "memory"), "spark.hadoop.fs.s3a.secret.key": "open-" + "sesame",
    "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:1",
}
with StreamsApp(builder.build(), settings) as app:
    app.start()
    while app.progress().last_epoch < 0:
        threading.Event().wait(0.1)
    print("running", flush=True)
    sys.stdin.readline()
    from pyspark.sql import SparkSession
    print(SparkSession.active().sparkContext.getConf().get("spark.hadoop.fs.s3a.secret.key"), flush=True)
"""


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """The folder of an application of a process of its own, with umask 0, and the process."""
    with shared_place() as place:
        temporaries = place / "tmp"
        temporaries.mkdir()
        temporaries.chmod(0o1777)
        environment = {**os.environ, "TMPDIR": str(temporaries)}
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(place)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            yield place, process
        finally:
            if process.poll() is None:
                said, _ = process.communicate("\n", timeout=120)
                assert said == "open-sesame\n"  # Spark has it all the same


def ask(process: subprocess.Popen[str], question: Callable[[psutil.Process], T]) -> list[T]:
    """The answers of a process and of those below it.

    Without what has ended in the meantime, waited for or not: it has neither a command line nor connections.
    """
    ours = psutil.Process(process.pid)
    answers = []
    for each in (ours, *ours.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # a zombie raises it as well
            answers.append(question(each))
    return answers


def test_no_file_or_folder_of_a_running_application_is_open_to_others(running: tuple[Path, Any]) -> None:
    place, _ = running
    opened = [each for part in ("log", "state", "memory") for each in open_below(place / part)]
    # What is in a closed folder cannot be reached: sockets there have the mode that the program's umask gives them.
    top = [path for path in (place / "tmp").iterdir() if (mode := mode_of(path)) and mode & 0o077]
    ours = [path for path in top if not path.name.startswith("hsperfdata")]  # the JVM's own, for tools like jps
    assert (opened, ours) == ([], [])


def test_native_libraries_are_loaded_from_folders_that_others_cannot_write_to(running: tuple[Path, Any]) -> None:
    """Java packages unpack them when they are first used: the codec of Spark's shuffle among them."""
    (maps,) = filter(None, ask(running[1], lambda each: _SUBMIT in each.cmdline() and each.memory_maps()))
    files = {Path(each.path.removesuffix(" (deleted)")) for each in maps if ".so" in each.path}
    open_to_others = [str(file) for file in files if any(folder.stat().st_mode & 0o022 for folder in file.parents[:1])]
    assert any("lz4" in file.name for file in files), files
    assert open_to_others == []


def test_files_that_a_function_of_the_user_makes_get_the_umask_of_the_program(running: tuple[Path, Any]) -> None:
    place, _ = running
    modes = {path.stat().st_mode & 0o777 for path in place.glob("made by a function *")}
    assert modes == {0o666}


def test_no_secret_is_on_a_command_line(running: tuple[Path, Any]) -> None:
    lines = ask(running[1], lambda each: " ".join(each.cmdline()))
    assert any("org.apache.spark" in line for line in lines)
    assert [line for line in lines if "open-sesame" in line] == []


@needs_root
def test_another_user_cannot_connect_to_any_socket_of_the_application(running: tuple[Path, Any]) -> None:
    place, process = running
    sockets = ask(process, lambda each: each.net_connections(kind="unix"))
    paths = {each.laddr for part in sockets for each in part if each.laddr}
    bound = sorted(str(path) for path in paths if str(path).startswith(str(place)))
    assert len(bound) >= 3  # logs, Python's daemon, the span's server …

    def connect() -> list[str]:
        reached = []
        for path in bound:
            try:
                socket.socket(socket.AF_UNIX).connect(path)
                reached.append(path)
            except (PermissionError, FileNotFoundError):  # closed, or not there any more
                pass
        return reached

    assert as_other_user(connect) == []


def test_ports_are_on_loopback_only_and_sparks_demand_authentication(running: tuple[Path, Any]) -> None:
    ports = {
        (each.laddr.ip.removeprefix("::ffff:"), each.laddr.port)
        for part in ask(running[1], lambda each: each.net_connections(kind="tcp"))
        for each in part
        if each.status == psutil.CONN_LISTEN
    }
    assert ports
    assert {address for address, _ in ports} == {"127.0.0.1"}
    answers = [_ask_spark(port) for _, port in sorted(ports)]
    assert sum(b"sasl" in each.lower() or b"auth" in each.lower() for each in answers) >= 2, answers


def _ask_spark(port: int) -> bytes:
    """What a port answers to a request in Spark's protocol from a client that knows no secret."""
    body = b"hello"
    frame = struct.pack(">bqi", 3, 7, len(body)) + body  # RpcRequest, its id, its length
    try:
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.settimeout(3)
            connection.sendall(struct.pack(">q", 8 + len(frame)) + frame)
            return connection.recv(65536)
    except OSError:  # no answer, or a port that is closed by now
        return b""


@needs_root
def test_a_memory_folder_that_another_user_made_first_is_refused_and_not_followed(tmp_path: Path) -> None:
    from hayase import Consumed, HayaseError, Materialized, Serdes, StreamsApp, StreamsBuilder

    with shared_place() as place:
        place.chmod(0o1777)
        as_other_user(lambda: (place / "memory").mkdir(0o777))
        builder = StreamsBuilder()
        text = Serdes.string()
        builder.table("in", Consumed.with_(text, text), Materialized.as_("t").with_store_type("in_memory"))
        app = StreamsApp(
            builder.build(),
            {
                "application.id": "shop",
                "log.dir": str(tmp_path / "log"),
                "state.dir": str(tmp_path / "state"),
                "state.memory.dir": str(place / "memory"),
            },
        )
        with pytest.raises(HayaseError, match="belongs to nobody") as error:
            app.start()
        assert error.value.condition == "FOLDER_NOT_PRIVATE"
        assert error.value.context["owner"] == "nobody"
        assert (place / "memory").stat().st_uid == NOBODY
