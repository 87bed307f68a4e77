"""The archive of the JVM's classes.

Spark loads some 15,000 of them, and reading them parsed saves half the CPU of a start.

The archive (about 170 MB; "AppCDS" in Java's documentation) fits one Java, one PySpark and the place where they are
installed. It lives in the cache folder and is made by `hayase dev warm-up`, or in the background when the first run has
ended. Without one, Spark starts as it always does. The JVM checks itself that an archive fits, and starts without it if
not.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pyspark

from hayase.core.cache import cache_root
from hayase.core.java import JavaHome
from hayase.core.private_files import check_owner, make_folder
from hayase.core.spark_home import light_spark_home

RECORD_OPTION = "-XX:ArchiveClassesAtExit="
SWITCH = "HAYASE_CLASS_ARCHIVE"
"""Environment variable: with `off` no archive is made without being asked for."""
_MAKER = "hayase.cli.warm_up"
_NICENESS = 19


def archive_file(java: JavaHome) -> Path:
    """Where the archive of this Java and this PySpark is, or would be."""
    release = java.java_home / "release"
    parts = (
        str(java.executable.resolve()),
        release.read_text() if release.exists() else str(java.version),
        version("pyspark"),
        os.environ.get("SPARK_HOME") or str(light_spark_home() or Path(pyspark.__file__).parent),
    )
    digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()
    return cache_root() / f"spark-classes-{digest}" / "classes.jsa"


def archive_options(java: JavaHome, given: str) -> str:
    """JVM options that use the archive; empty if there is none, or if the options given say what to do about one."""
    if RECORD_OPTION in given or "-XX:SharedArchiveFile=" in given:
        return ""
    file = archive_file(java)
    # What does not fit is no reason to write to a user's terminal.
    if not file.exists():
        return ""
    check_owner(file)
    return f"-XX:SharedArchiveFile={file} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def make_archive_in_background(java: JavaHome, given: str, environment: Mapping[str, str]) -> bool:
    """Begin to make the archive, in a process of its own that outlives this one, at the lowest priority.

    Whether it was begun.

    Once on a machine for each Java and PySpark: if that fails, it is not tried again, as it would fail again at the end
    of every run.

    Args:
        java: that of the run which has ended.
        given: Java options of that run; some say what to do about an archive.
        environment: as it was before that run; with what it has set, another Java would be found.
    """
    file = archive_file(java)
    if os.environ.get(SWITCH, "").lower() == "off" or file.exists():
        return False
    if RECORD_OPTION in given or "-XX:SharedArchiveFile=" in given:
        return False
    tried = file.parent.with_name(f"{file.parent.name}.tried")
    try:
        make_folder(tried.parent)
        os.close(os.open(tried, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        subprocess.Popen(
            ["nice", "-n", str(_NICENESS), sys.executable, "-m", _MAKER],
            env=dict(environment),
            cwd="/",  # the folder of the program may go away
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:  # it was tried before; or the cache cannot be written, or there is no `nice`
        return False
    return True
