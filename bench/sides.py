"""The command lines of the two systems under test."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from bench.scenarios import Scenario
from hayase.core.java import JavaHome
from hayase.testing.maven_jars import Artifact, maven_jars

ROOT = Path(__file__).resolve().parent.parent
_MAVEN_PROJECT = ROOT / "bench" / "kafka-streams"
_PEERS_REQUIREMENTS = ROOT / "bench" / "peers" / "requirements.txt"
_PEERS_ENVIRONMENT = ROOT / "bench" / "peers" / ".venv"
SIDES = ("ours", "peer")
PYTHON_PEERS = {"spark": "bench.peers.spark", "quix": "bench.peers.quix", "faust": "bench.peers.faust_app"}
NAMES = {
    "ours": "Hayase",
    "peer": "Kafka Streams",
    "spark": "Structured Streaming",
    "quix": "Quix Streams",
    "faust": "Faust",
}


def command(
    side: str,
    scenario: Scenario,
    java: JavaHome,
    *,
    log_arguments: list[str],
    output_topic: str,
    application_id: str,
    guarantee: str,
    state_dir: Path,
) -> list[str]:
    """The command that runs a scenario until it gets SIGTERM. Both sides take the same options."""
    options = [*log_arguments, "--input", scenario.input.name, "--output", output_topic]
    if scenario.table_read is not None:
        options += ["--table", scenario.table_read]
    options += ["--application-id", application_id, "--guarantee", guarantee, "--state-dir", str(state_dir)]
    if side == "ours":
        if scenario.sql:
            return [sys.executable, "-m", "bench.ours.sql", "--script", scenario.application, *options]
        return [sys.executable, "-m", f"bench.ours.{scenario.application}", *options]
    options = ["--application", scenario.application, *options]
    if side == "spark":
        version = _peers_pyspark()
        connector = Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", version)
        options = ["--jars", str(maven_jars(f"spark-kafka-{version}", [connector], java)), *options]
    if side in PYTHON_PEERS:
        return [str(_PEERS_ENVIRONMENT / "bin" / "python"), "-m", PYTHON_PEERS[side], *options]
    target = _MAVEN_PROJECT / "target"
    classpath = f"{target / 'bench.jar'}:{target / 'lib'}/*"
    return [str(java.executable), "-Xmx1g", "-cp", classpath, "bench.Main", *options]


def prepare(side: str) -> None:
    """Build or install what a side needs, unless it is there.

    Raises:
        RuntimeError: that failed.
    """
    if side == "peer":
        build_peer()
    elif side in PYTHON_PEERS:
        installed(_PEERS_REQUIREMENTS, _PEERS_ENVIRONMENT)


def installed(requirements: Path, environment: Path) -> Path:
    """The Python of an environment with these packages; made unless it is there.

    Raises:
        RuntimeError: pip failed.
    """
    text, python = requirements.read_text(), environment / "bin" / "python"
    stamp = environment / "requirements.txt"
    if stamp.exists() and stamp.read_text() == text:
        return python
    venv.create(environment, with_pip=True, clear=True)
    pip = [str(python), "-m", "pip", "install", "-q", "-r", str(requirements)]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"pip install of {requirements.name} failed: {done.stdout[-500:]}{done.stderr[-1500:]}")
    stamp.write_text(text)
    return python


def _peers_pyspark() -> str:
    """Of the Spark beside us, which is also that of its connectors."""
    found = re.search(r"^pyspark==(\S+)$", _PEERS_REQUIREMENTS.read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{_PEERS_REQUIREMENTS} has no line pyspark==VERSION")
    return found[1]


def build_peer() -> None:
    """Build the Kafka Streams applications with Maven, unless they are built from these very sources.

    Raises:
        RuntimeError: Maven is missing or failed.
    """
    sources = sorted(path for path in _MAVEN_PROJECT.rglob("*") if path.suffix in {".java", ".xml", ".properties"})
    digest = hashlib.sha256()
    for path in sources:
        if "target" not in path.relative_to(_MAVEN_PROJECT).parts:
            digest.update(path.read_bytes())
    stamp = _MAVEN_PROJECT / "target" / "sources.sha256"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise RuntimeError("mvn is not on PATH: install Maven and a JDK of version 17 or newer to build the Java side")
    done = subprocess.run(
        [maven, "-q", "-B", "-f", str(_MAVEN_PROJECT / "pom.xml"), "clean", "package"],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"mvn package failed: {done.stdout[-2000:]}{done.stderr[-500:]}")
    stamp.write_text(digest.hexdigest())
