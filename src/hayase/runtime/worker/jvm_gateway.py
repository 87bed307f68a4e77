"""The JVM of a session: started with a umask of its own, and without secrets on its command line."""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from hayase.core.secrets import in_clear
from hayase.core.socket_folder import socket_folder

UMASK_VARIABLE = "HAYASE_UMASK"
"""In the environment of Spark's Python processes: the umask of the program, for the functions of its user."""
_STATUS = Path("/proc/self/status")


def launch_jvm(settings: Mapping[str, str], umask: int) -> None:
    """Start the JVM, unless this process has one. What Spark writes (shuffled rows above all) has no access for others.

    Settings that hold secrets are left out: they would be on a command line, which every user of the machine can read.
    Spark gets all settings again over the connection to the JVM when the session is made.

    Args:
        settings: Spark's.
        umask: of the JVM.
    """
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    shown = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        if not in_clear(key, value):
            shown.set(key, value)
    if (own := _own_umask()) is not None:
        os.environ[UMASK_VARIABLE] = own
    SparkContext._ensure_initialized(gateway=launch_gateway(shown, {"umask": umask}))


def folder_of_jvm() -> str:
    """A new private folder for what the JVM makes in passing. Gone at exit.

    Sockets between it and its Python processes: Spark asks for no secret there. And native libraries that Java packages
    unpack and load: in `/tmp`, another user could put a file of that name there first.
    """
    folder = str(socket_folder("hayase-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _own_umask() -> str | None:
    """The umask of this process, octal; asking the system call for it would change it."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((line.split()[1] for line in lines if line.startswith("Umask:")), None)
