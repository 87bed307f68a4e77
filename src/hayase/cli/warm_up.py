"""Making the archive of the JVM's classes: a small application is run once by a JVM that writes down what it loads."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from hayase.core.cache import cached_folder
from hayase.core.errors import MissingRequirementError
from hayase.core.java import JavaHome, find_java

_TIMEOUT_S = 300
_MODULE = "hayase.cli.warm_up"
"""This one; it may run as `__main__`."""


def make_archive(java: JavaHome | None = None) -> tuple[Path, bool]:
    """Make the archive if it is not there; returns its file, and whether this call made it.

    Raises:
        MissingRequirementError: there is no Java, or this one cannot make such an archive.
    """
    from hayase.runtime.driver.class_archive import archive_file

    file = archive_file(java or find_java())
    is_new = []

    def fill(folder: Path) -> None:
        is_new.append(folder)
        _record(folder / file.name)

    cached_folder(file.parent, fill)
    return file, bool(is_new)


def _record(file: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="hayase-warm-up-") as scratch:
        command = [sys.executable, "-m", _MODULE, scratch, str(file)]
        failed, said = _run(command)
    if failed or not file.exists():
        raise MissingRequirementError(
            "NO_CLASS_ARCHIVE",
            "this Java cannot write an archive of classes, so Spark starts without one (which works, and takes "
            f"longer): {said}",
        )


def _run(command: list[str]) -> tuple[bool, str]:
    """Whether a command has failed, and its last words; after the timeout it is ended with all that it started."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=_TIMEOUT_S)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return True, f"the small application was not complete after {_TIMEOUT_S} s"
    return bool(process.returncode), "\n".join(said.strip().splitlines()[-5:])


def _run_small_application(scratch: Path, file: Path) -> None:
    """Everything a job needs of the JVM: source, two levels with a shuffle between them, an epoch record, a stop."""
    from hayase import Consumed, Grouped, Produced, Serdes, StreamsApp, StreamsBuilder
    from hayase.log.open import open_log
    from hayase.log.protocol import LogConfig, OutputBatch
    from hayase.runtime.driver.class_archive import RECORD_OPTION
    from hayase.runtime.driver.jvm import Jvm

    text = Serdes.string()
    log = open_log(LogConfig("embedded", str(scratch / "log"), {"fsync": "false"}))
    for topic in ("in", "out"):
        log.create_topic(topic, 2)
    writer = log.writer()
    keys: list[bytes | None] = [b"%d" % number for number in range(100)]
    writer.append([OutputBatch("in", keys, keys, [1] * len(keys))])
    writer.close()
    log.close()
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(text, text))
    counts = stream.group_by(lambda key, value: value[:1], Grouped.with_(text, text)).count()
    counts.to_stream().to("out", Produced.with_(text, Serdes.long()))
    settings = {
        "application.id": "warm-up",
        "log.dir": str(scratch / "log"),
        "state.dir": str(scratch / "state"),
        "checkpoint.dir": str(scratch / "checkpoint"),
        "checkpoint.fsync": False,
        "spark.driver.extraJavaOptions": f"{RECORD_OPTION}{file}",
    }
    with StreamsApp(builder.build(), settings) as app:
        app.start_to_end()
        app.wait()
    if app.error is not None:
        raise app.error
    Jvm().stop(_TIMEOUT_S)  # the archive is written when the JVM ends


if __name__ == "__main__":
    if sys.argv[1:]:
        _run_small_application(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        make_archive()
