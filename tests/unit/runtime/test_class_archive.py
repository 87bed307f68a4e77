"""The archive of the JVM's classes: used where it fits, never in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from hayase.core.java import JavaHome
from hayase.runtime.driver.class_archive import archive_file, archive_options, make_archive_in_background


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JavaHome:
    monkeypatch.setenv("HAYASE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "java").mkdir()
    return JavaHome(tmp_path / "java", tmp_path / "java" / "bin" / "java", 17, "JAVA_HOME")


def make(java: JavaHome) -> Path:
    file = archive_file(java)
    file.parent.mkdir(parents=True)
    file.touch()
    return file


def test_without_an_archive_the_jvm_gets_no_options(java: JavaHome) -> None:
    assert archive_options(java, "") == ""


def test_an_archive_that_is_there_is_used(java: JavaHome) -> None:
    file = make(java)
    assert f"-XX:SharedArchiveFile={file}" in archive_options(java, "-Dx=1")


@pytest.mark.parametrize("given", ["-XX:ArchiveClassesAtExit=a.jsa", "-Xmx1g -XX:SharedArchiveFile=b.jsa"])
def test_what_a_user_says_about_archives_counts(java: JavaHome, given: str) -> None:
    make(java)
    assert archive_options(java, given) == ""


def test_another_java_has_another_archive(java: JavaHome) -> None:
    before = archive_file(java)
    (java.java_home / "release").write_text('JAVA_VERSION="17.0.99"')
    assert archive_file(java) != before


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    found: list[list[str]] = []
    monkeypatch.setenv("HAYASE_CLASS_ARCHIVE", "")
    monkeypatch.setattr("subprocess.Popen", lambda command, **_: found.append(command))
    return found


def test_after_a_first_run_an_archive_is_made_in_the_background_once(java: JavaHome, begun: list[list[str]]) -> None:
    assert make_archive_in_background(java, "-Dx=1", {})
    assert not make_archive_in_background(java, "-Dx=1", {})
    assert [command[-2:] for command in begun] == [["-m", "hayase.cli.warm_up"]]


@pytest.mark.parametrize("given", ["-XX:ArchiveClassesAtExit=a.jsa", "-XX:SharedArchiveFile=b.jsa"])
def test_none_is_made_where_a_user_says_something_about_archives(
    java: JavaHome, given: str, begun: list[list[str]]
) -> None:
    assert not make_archive_in_background(java, given, {})
    assert not begun


def test_none_is_made_where_there_is_one_or_nobody_wants_one(
    java: JavaHome, begun: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAYASE_CLASS_ARCHIVE", "off")
    assert not make_archive_in_background(java, "", {})
    monkeypatch.setenv("HAYASE_CLASS_ARCHIVE", "on")
    make(java)
    assert not make_archive_in_background(java, "", {})
    assert not begun
