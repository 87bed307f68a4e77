"""docs/operations.md: its commands work in the order in which they stand there; its metrics and conditions exist."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hayase import ProgressReport, State, StreamsConfig
from hayase.app.failure_recovery import Recovery, shut_down_client
from hayase.app.runtime_settings import OF_TOPOLOGIES
from hayase.app.telemetry import Telemetry
from hayase.cli.options import read_settings
from hayase.core import metrics as m
from hayase.core.java import find_java, spark_java_home
from hayase.runtime.driver import streams_metrics
from hayase.task.summary import BundleSummary

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_commands_work_as_they_stand_there(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    script = "\n".join(re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL))
    script = script.replace("9464", port).replace("app.log", str(tmp_path / "app.log"))
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HAYASE_", "XDG_"))}
    environment = {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    done = subprocess.run(
        ["bash", "-m", "-e", "-o", "pipefail", "-c", f"trap 'kill -KILL %1 2>/dev/null || true' EXIT\n{script}"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=850,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "application 'quickstart' is RUNNING, pid " in done.stdout
    assert '"state": "RUNNING", "paused": false' in done.stdout
    assert "kafka_streams_stream_thread_metrics_process_total{" in done.stdout
    assert "application 'quickstart' is paused" in done.stdout
    assert "application 'quickstart' goes on" in done.stdout
    assert "application 'quickstart' is not running" in done.stdout
    assert "starts over when it is run next" in done.stdout


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_commands_for_a_cluster_work_as_they_stand_there(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    script = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)).replace("7077", port)
    java = find_java()
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HAYASE_", "XDG_", "SPARK_"))}
    environment = {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "JAVA_HOME": str(spark_java_home(java)),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    with (tmp_path / "said").open("wb") as said:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", f"trap 'kill -KILL $(jobs -p) 2>/dev/null || true' EXIT\n{script}"],
            cwd=tmp_path, env=environment, stdout=said, stderr=said, check=False, timeout=1750,
        )  # fmt: skip
    output = (tmp_path / "said").read_text()
    assert done.returncode == 0, output
    assert output.count("stopped: ") == 3, output


def _exists(level: str) -> set[str]:
    """`group name` of all metrics there can be."""
    report = ProgressReport(State.RUNNING, 0, -1, 0, 0, 0, 0, 0, None)
    config = StreamsConfig({"application.id": "a", "metrics.recording.level": level})
    telemetry = Telemetry(config, "", lambda: report, lambda: Recovery(shut_down_client, 0))
    counts = [m.Count(name, "0_0", "owner", 1) for name in (*streams_metrics.COUNTS, m.ENTRIES)]
    measures = [m.Measure(name, "0_0", "", 1, 1.0, 1.0, 1.0) for name in streams_metrics.MEASURES]
    reported = streams_metrics.SummaryMetrics(telemetry.registry, {}, "a", level)
    reported.add(BundleSummary("0-0", 0, False, True, counts, {}, measures))
    telemetry.count_epoch(5)
    return {f"{name.group} {name.name}" for name in telemetry.registry.snapshot()}


def _documented(*, debug: bool) -> set[str]:
    found = set()
    for group, names in re.findall(r"^\| `(stream-[a-z-]+)`[^|]*\| (.*) \|$", PAGE, re.MULTILINE):
        always, _, more = names.partition("*")
        found |= {f"{group} {name}" for name in re.findall(r"`([a-z0-9-]+)`", always + (more if debug else ""))}
    return found


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_the_metrics_it_lists_are_those_there_are(level: str) -> None:
    assert _documented(debug=level == "DEBUG") == _exists(level)


def test_the_conditions_it_names_are_those_of_errors() -> None:
    named = {
        name
        for row in re.findall(r"^\| (`[A-Z_]+`[^|]*)\|", PAGE, re.MULTILINE)
        for name in re.findall(r"`([A-Z_]+)`", row)
    }
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "src" / "hayase").rglob("*.py"))
    made = {f"{stage}_FAILED" for stage in ("DESERIALIZATION", "PROCESSING", "PRODUCTION")}
    assert len(named) > 20
    assert not {name for name in named - made if f'"{name}"' not in source}


def test_the_page_lists_the_settings_of_a_topology() -> None:
    (listed,) = re.findall(r"^### Settings of a topology\n\n(.*?)\n\n", PAGE, re.DOTALL | re.MULTILINE)
    assert re.findall(r"`(.*?)`", listed) == [*sorted(OF_TOPOLOGIES), "app.*"]


def test_the_file_of_settings_is_read_as_the_page_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "hayase.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    config = StreamsConfig(read_settings(None, None))
    assert (config.application_id, config.commit_interval_ms) == ("shop", 500)
    assert config.state_dir == tmp_path / "data" / "state"
