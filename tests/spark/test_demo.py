"""`hayase demo`, `hayase run` and `hayase server` with a script, as users run them: on Spark, in own processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from hayase.testing.kafka_broker import KafkaBroker
from hayase.testing.servers import free_ports

ROOT = Path(__file__).parents[2]
HAYASE = Path(sys.executable).with_name("hayase")
EQUAL = "Compared with an independent batch computation (DuckDB over the same input): equal, to the record"

pytestmark = pytest.mark.spark


def run_hayase(
    *arguments: str | Path, folder: Path, stdin: str | None = None, timeout_s: float = 240
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HAYASE, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=folder,
        env=_environment(folder),
        check=False,
        timeout=timeout_s,
    )


def _environment(folder: Path) -> dict[str, str]:
    """A home of its own, so that defaults are tried and no file of the developer is touched."""
    outside = ("HAYASE_LOG_DIR", "HAYASE_BOOTSTRAP_SERVERS", "XDG_STATE_HOME", "XDG_DATA_HOME")
    kept = {name: value for name, value in os.environ.items() if name not in outside}
    return {**kept, "XDG_STATE_HOME": str(folder / "state"), "XDG_DATA_HOME": str(folder / "data")}


def test_the_demo_works_from_nothing_and_its_result_is_equal_to_the_batch_computation(tmp_path: Path) -> None:
    done = run_hayase("demo", "--orders", "5000", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert EQUAL in done.stdout
    assert "Sales per product and region, latest windows of 6 hours" in done.stdout
    assert "5 dead letters" in done.stdout
    assert done.stderr == ""


def test_the_demo_in_sql_prints_the_same_table_and_is_equal_to_the_batch_computation(tmp_path: Path) -> None:
    done = run_hayase("demo", "--sql", "--orders", "5000", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert EQUAL in done.stdout
    assert "Sales per product and region, latest windows of 6 hours" in done.stdout
    assert "5 dead letters" in done.stdout
    assert "query CTAS_SALES: enriched-orders -> sales" in done.stdout
    assert done.stderr == ""


@pytest.mark.kafka
def test_the_demo_does_the_same_on_kafka(tmp_path: Path, broker: KafkaBroker) -> None:
    _works_on_kafka(tmp_path, broker)


@pytest.mark.slow
@pytest.mark.kafka
def test_the_demo_does_the_same_on_kafka_again_and_again(tmp_path: Path, broker: KafkaBroker) -> None:
    for _ in range(3):
        _works_on_kafka(tmp_path, broker)


def _works_on_kafka(folder: Path, broker: KafkaBroker) -> None:
    done = run_hayase("demo", "--orders", "5000", "--kafka", broker.bootstrap_servers, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert EQUAL in done.stdout


@pytest.mark.slow
def test_a_demo_that_keeps_running_compares_when_it_is_stopped(tmp_path: Path) -> None:
    arguments = [HAYASE, "demo", "--orders", "2000", "--keep-running", "--dir", str(tmp_path / "demo")]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_environment(tmp_path)
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        try:
            for line in process.stdout:
                lines.append(line)
                if line.startswith("running") and _records(line) > 2_500:  # some of the trickle is processed
                    break
            process.send_signal(signal.SIGINT)
            lines += process.stdout.readlines()
            assert process.wait(60) == 0, "".join(lines)
        finally:
            process.kill()
    assert EQUAL in "".join(lines)


def _records(line: str) -> int:
    return int(line.split()[1].replace(",", ""))


def test_an_application_runs_to_the_end_and_on_from_there_until_sigterm(tmp_path: Path) -> None:
    for topic in ("purchases", "spending"):
        assert run_hayase("topics", "create", topic, "-p", "2", folder=tmp_path).returncode == 0
    purchases = 'ada:{"item": "book", "cents": 1250}\nbob:{"item": "pen", "cents": 300}\n'
    run_hayase("topics", "produce", "purchases", stdin=purchases, folder=tmp_path)
    program = ROOT / "examples" / "quickstart.py"
    done = run_hayase("run", program, "--to-end", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "stopped: 2 records read, 2 written, 0 dropped" in done.stdout
    # What Spark's JVM logs is in its file.
    assert "log4j" not in done.stderr and " WARN " not in done.stderr
    assert list(tmp_path.rglob("spark.log"))

    run_hayase("topics", "produce", "purchases", stdin='ada:{"item": "lamp", "cents": 50}\n', folder=tmp_path)
    with subprocess.Popen(
        [str(HAYASE), "run", str(program)], stdout=subprocess.PIPE, text=True, env=_environment(tmp_path), cwd=tmp_path
    ) as process:
        try:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and '"cents":1300' not in _spending(tmp_path):
                time.sleep(1)
            refused = run_hayase("app", "reset", "quickstart", "--yes", folder=tmp_path)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert refused.returncode == 1
    assert "is running already" in refused.stderr
    assert sorted(_spending(tmp_path).splitlines()) == [
        'ada\t{"purchases":1,"cents":1250}',
        'ada\t{"purchases":2,"cents":1300}',
        'bob\t{"purchases":1,"cents":300}',
    ]


def _spending(folder: Path) -> str:
    return run_hayase("topics", "consume", "spending", "--from-beginning", "--stop-at-end", folder=folder).stdout


def test_a_server_with_a_file_of_queries_answers_for_its_health_and_its_metrics_alone(tmp_path: Path) -> None:
    (tmp_path / "shop.sql").write_text(
        "CREATE STREAM a (k STRING KEY, v INT) WITH (kafka_topic='a', partitions=1, value_format='JSON');\n"
        "CREATE TABLE b AS SELECT k, COUNT(*) AS n FROM a GROUP BY k;\n"
    )
    ports = free_ports(1)
    assert ports is not None
    address = f"http://127.0.0.1:{ports[0]}"
    with subprocess.Popen(
        [str(HAYASE), "server", "--queries-file", "shop.sql", "--listen", address, "-c", "ksql.service.id=shop_"],
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(tmp_path),
        cwd=tmp_path,
    ) as process:
        try:
            deadline = time.monotonic() + 240
            while time.monotonic() < deadline and _answer(f"{address}/ready")[0] != 200:
                time.sleep(0.5)
            health, metrics, info = (_answer(f"{address}/{path}") for path in ("healthcheck", "metrics", "info"))
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
            assert process.stdout is not None
            assert process.stdout.read().endswith("stopped\n")
        finally:
            process.kill()
    assert health[0] == 200
    assert '"isHealthy": true' in health[1]
    assert "kafka_streams_" in metrics[1]
    assert info[0] == 404


def _answer(url: str) -> tuple[int, str]:
    """Status and text; 0 if nothing listens."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError:
        return 0, ""
