"""The archive of the JVM's classes: used where it fits, never in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from hayase.core.java import JavaHome
from hayase.runtime.class_archive import archive_file, archive_options


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
