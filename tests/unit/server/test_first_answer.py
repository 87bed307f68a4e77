"""A server that starts answers before it has imported what runs queries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hayase.testing.servers import free_ports

_LATE = (
    "pyspark", "py4j", "duckdb", "psycopg", "prompt_toolkit",
    "hayase.dsl", "hayase.topology", "hayase.compiler", "hayase.kernel", "hayase.task", "hayase.testing",
    "hayase.app.streams_runtime", "hayase.query", "hayase.sql.plan", "hayase.connect.herder",
)  # fmt: skip
"""Packages that no statement but one that starts a query needs: they cost more than all the rest."""

_RUN = """
import json
import sys
import urllib.request
from importlib.abc import MetaPathFinder

late, folder = {late!r}, {folder!r}

class Late(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if any(name == each or name.startswith(each + ".") for each in late):
            raise AssertionError(f"{{name}} is imported before the first answer")

sys.meta_path.insert(0, Late())

from hayase.cli import main, server  # what the command line has imported by then
from hayase.cli.functions import registry_with
from hayase.server.server import open_server
from hayase.server.serving import serve
from hayase.server.settings import ServerSettings

settings = ServerSettings.of(
    {{"listeners": "http://127.0.0.1:{port}", "log.dir": folder + "/log", "state.dir": folder + "/state"}}
)
context = open_server(settings, registry_with([]), start_queries=False)
http = serve(context)

def ask(path, statement=None):
    body = None if statement is None else json.dumps({{"ksql": statement}}).encode()
    with urllib.request.urlopen(f"{{http.url}}{{path}}", body) as answer:
        return json.load(answer)

create = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);"
print(json.dumps([ask("/info"), ask("/ksql", create), ask("/ksql", "SHOW STREAMS;")]))
http.stop()
context.close()
"""


@pytest.mark.long
def test_info_and_ddl_are_answered_without_what_runs_queries(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    program = _RUN.format(late=_LATE, folder=str(tmp_path), port=port)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    info, created, streams = json.loads(done.stdout)
    assert info["KsqlServerInfo"]["serverStatus"] == "RUNNING"
    assert created[0]["commandStatus"]["message"] == "Stream created"
    assert [stream["name"] for stream in streams[0]["streams"]] == ["S"]


_AT_ONCE = """
import importlib
import threading

from hayase.server.warm_up import import_planning

failed, begin = [], threading.Barrier(4)

def late(name):
    begin.wait()
    try:
        import_planning()
        importlib.import_module(name)
    except ImportError as error:
        failed.append(error)

names = ("hayase.dsl.ktable", "hayase.sql.plan.build", "hayase.dsl.joins.foreign_key", "hayase.dsl.builder")
threads = [threading.Thread(target=late, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed
"""


@pytest.mark.long
def test_threads_that_need_planning_at_once_get_whole_modules() -> None:
    done = subprocess.run([sys.executable, "-c", _AT_ONCE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
