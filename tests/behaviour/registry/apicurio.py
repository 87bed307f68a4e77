"""Apicurio Registry on loopback: an independent server with Confluent's REST protocol.

Fetched by Maven, once per machine.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hayase.core.cache import cache_root, cached_folder
from hayase.core.java import find_java
from hayase.testing.servers import LAUNCHER

VERSION = "2.6.13.Final"  # the newest for Java 17
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_START_SECONDS = 120.0


def has_maven() -> bool:
    """Whether the server can be fetched, or was."""
    return shutil.which("mvn") is not None or (_folder() / ".complete").exists()


def _folder() -> Path:
    return cache_root() / f"apicurio-{VERSION}"


def _download(target: Path) -> None:
    artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
    java = find_java()
    subprocess.run(
        ["mvn", "-B", "-q", _GOAL, f"-Dartifact={artifact}", f"-DoutputDirectory={target}"],
        check=True, timeout=600, stdin=subprocess.DEVNULL, env={**os.environ, "JAVA_HOME": str(java.java_home)},
    )  # fmt: skip
    (archive,) = target.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        if hasattr(tarfile, "data_filter"):  # not in every Python 3.11
            content.extraction_filter = tarfile.data_filter
        content.extractall(target)
    archive.unlink()


@contextmanager
def apicurio(folder: Path) -> Iterator[str]:
    """A running server with its schemas in memory; its address for clients of Confluent's registry."""
    home = cached_folder(_folder(), _download)
    (runner,) = home.glob("*-runner.jar")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        "/bin/sh", "-c", LAUNCHER, "sh", str(find_java().executable), "-Xmx400m", "-XX:TieredStopAtLevel=1",
        "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}",
        "-Dquarkus.datasource.jdbc.acquisition-timeout=120", "-jar", str(runner),  # 5 s are short on a busy machine
    ]  # fmt: skip
    with (folder / "apicurio.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    try:
        _wait(process, url, folder / "apicurio.log")
        yield url
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/subjects", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError("Apicurio Registry did not start: " + log.read_text()[-2000:])
