"""The command lines of the two systems under test."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench.scenarios import Scenario
from hayase.core.java import JavaHome

ROOT = Path(__file__).resolve().parent.parent
_MAVEN_PROJECT = ROOT / "bench" / "kafka-streams"
SIDES = ("ours", "peer")


def command(
    side: str,
    scenario: Scenario,
    java: JavaHome,
    *,
    bootstrap: str,
    input_topic: str,
    output_topic: str,
    application_id: str,
    guarantee: str,
    state_dir: Path,
) -> list[str]:
    """The command that runs a scenario until it gets SIGTERM. Both sides take the same options."""
    options = ["--bootstrap", bootstrap, "--input", input_topic, "--output", output_topic]
    options += ["--application-id", application_id, "--guarantee", guarantee, "--state-dir", str(state_dir)]
    if side == "ours":
        return [sys.executable, "-m", f"bench.ours.{scenario.name}", *options]
    target = _MAVEN_PROJECT / "target"
    classpath = f"{target / 'bench.jar'}:{target / 'lib'}/*"
    return [
        str(java.executable),
        "-Xmx1g",
        "-cp",
        classpath,
        "bench.Main",
        "--scenario",
        scenario.name,
        *options,
    ]


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
