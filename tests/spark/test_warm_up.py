"""`hayase dev warm-up` in a new cache folder, with the Java of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def warm_up(cache: Path) -> str:
    command = [sys.executable, "-c", "from hayase.cli.main import main; main()", "dev", "warm-up"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "HAYASE_CACHE": str(cache)}, check=True
    )
    return done.stderr


def test_an_archive_is_made_once_and_the_jvm_reads_classes_from_it(tmp_path: Path) -> None:
    assert "made: " in warm_up(tmp_path)
    said = warm_up(tmp_path)
    assert "there already: " in said
    file = Path(said.split("there already: ")[1].strip())
    assert file.stat().st_size > 50_000_000
    script = f"""
from pathlib import Path
from hayase.runtime.driver.session import build_session
overrides = {{"spark.driver.extraJavaOptions": "-Xlog:class+load:file={tmp_path / "classes.log"}"}}
build_session("x", 1, overrides, Path("{tmp_path / "spark.log"}")).stop()
"""
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "HAYASE_CACHE": str(tmp_path)}, check=True)
    loaded = (tmp_path / "classes.log").read_text().splitlines()
    assert sum("shared objects file (top)" in line for line in loaded) > len(loaded) / 3


def test_after_a_first_run_the_archive_is_made_by_itself(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from hayase.runtime.driver.session import SessionUse
SessionUse("x", 1, {}, Path(sys.argv[1])).release()
"""
    environment = {**os.environ, "HAYASE_CACHE": str(tmp_path), "HAYASE_CLASS_ARCHIVE": "on"}
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "spark.log")], env=environment, check=True)
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("hayase/spark-classes-*/classes.jsa")):
        assert time.monotonic() < deadline
        time.sleep(0.5)
