"""The processes in which Spark's JVM has streaming sources planned, one for each query."""

from __future__ import annotations

import contextlib

import psutil

_MODULE = "pyspark.sql.streaming.python_streaming_source_runner"


def end_source_processes(jvm: int) -> None:
    """End those of a JVM whose queries have stopped.

    Spark ends such a process with its query, but not one that was still importing: that finds no socket of the JVM to
    connect to, and prints a trace on the terminal when the program has already ended well.

    Args:
        jvm: its process id.
    """
    with contextlib.suppress(psutil.Error):  # the JVM has ended
        for process in psutil.Process(jvm).children():
            with contextlib.suppress(psutil.Error):  # it has ended by itself
                if _MODULE in process.cmdline():
                    process.terminate()
