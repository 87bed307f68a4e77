"""Where Spark runs the tasks, this machine or a cluster, and what follows from that for a session."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping

from pyspark import SparkConf, SparkContext

from hayase.core.errors import ConfigError

MASTER = "spark.master"
DRIVER_HOST = "spark.driver.host"
BIND_ADDRESS = "spark.driver.bindAddress"
WORKER_PYTHON = "spark.pyspark.python"
_STANDALONE = "spark://"
_CONNECT_S = 10.0
_ENCRYPTED = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled", "spark.authenticate.enableSaslEncryption")
_ADDRESS = re.compile(r"\[?(.+?)\]?:(\d+)")

CLUSTER_SETTINGS: Mapping[str, str] = {
    # Tasks are short; waiting for a free core beside shuffled rows would cost an epoch many times over.
    "spark.locality.wait": "0s",
    # Executors inherit nothing from the driver: each Python worker is one of several that share their cores.
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    # An executor's own account goes to a file on its machine that grows without end; what workers log comes to the
    # driver.
    "spark.log.level": "WARN",
    "spark.executor.syncLogLevel.enabled": "true",
    # As in the driver: the JVM only schedules and shuffles.
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def is_cluster(master: str) -> bool:
    """Whether tasks run in processes other than the driver's JVM.

    Example:
        >>> is_cluster("spark://10.0.0.1:7077"), is_cluster("yarn"), is_cluster("local[4,4]"), is_cluster("")
        (True, True, False, False)
    """
    return bool(master) and not re.fullmatch(r"local(\[.*\])?", master)


def is_encrypted(settings: Mapping[str, str]) -> bool:
    """Whether Spark's processes encrypt what they say to each other.

    Example:
        >>> is_encrypted({"spark.network.crypto.enabled": "true"}), is_encrypted({"spark.authenticate": "true"})
        (True, False)
    """
    return any(settings.get(key, "").lower() == "true" for key in _ENCRYPTED)


def sends_in_clear(settings: Mapping[str, str]) -> bool:
    """Whether our own connections between machines would not be encrypted, and Spark is set to encrypt.

    Example:
        >>> sends_in_clear({"spark.master": "spark://10.0.0.1:7077", "spark.network.crypto.enabled": "true"})
        True
    """
    return is_cluster(settings.get(MASTER, "")) and is_encrypted(settings)


def known_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings that are known before a session is there.

    Those of `spark-submit`, if it runs this program, and `given`.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return dict(given)
    SparkContext._ensure_initialized()
    return {**dict(SparkConf().getAll()), **given}


def cluster_settings(settings: Mapping[str, str], slots: int) -> dict[str, str]:
    """What a session on a cluster needs beside the settings known.

    Raises:
        ConfigError: MASTER_UNREACHABLE.
    """
    derived = dict(CLUSTER_SETTINGS)
    if settings[MASTER].startswith(_STANDALONE):
        derived["spark.cores.max"] = str(slots)
        if DRIVER_HOST not in settings:
            derived[DRIVER_HOST] = derived[BIND_ADDRESS] = own_address(settings[MASTER])
    return derived


def cluster_slots(settings: Mapping[str, str]) -> int:
    """The cores that an application gets on a cluster, as far as the settings say so.

    Raises:
        ConfigError: MISSING_SETTING: they do not.

    Example:
        >>> cluster_slots({"spark.executor.instances": "3", "spark.executor.cores": "2"})
        6
    """
    if "spark.cores.max" in settings:
        return int(settings["spark.cores.max"])
    if "spark.executor.instances" in settings:
        return int(settings["spark.executor.instances"]) * int(settings.get("spark.executor.cores", "1"))
    raise ConfigError(
        "MISSING_SETTING",
        "on a cluster num.stream.threads says how many cores the application gets; set it, or spark.cores.max, or "
        "spark.executor.instances and spark.executor.cores",
        setting="num.stream.threads",
    )


def own_address(master: str) -> str:
    """The address of this machine under which the machines of a standalone cluster know it.

    Args:
        master: `spark://host:port`, or several as `spark://host:port,host:port`.

    Raises:
        ConfigError: MASTER_UNREACHABLE: nothing answers there.
    """
    wrong = ""
    for address in master.removeprefix(_STANDALONE).split(","):
        host, port = _parts(address)
        try:
            with socket.create_connection((host, port), _CONNECT_S) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            wrong = str(error)
    raise ConfigError(
        "MASTER_UNREACHABLE",
        f"no Spark master answers at {master} ({wrong}); start one, or correct spark.master",
        setting=MASTER,
    )


def driver_addresses(settings: Mapping[str, str]) -> tuple[str, str]:
    """Where executors reach this process, and where it has to listen for that; both empty without a cluster.

    Raises:
        ConfigError: MASTER_UNREACHABLE.

    Example:
        >>> driver_addresses({"spark.master": "k8s://https://host:6443", "spark.driver.host": "shop.default.svc"})
        ('shop.default.svc', '0.0.0.0')
    """
    master = settings.get(MASTER, "")
    if not is_cluster(master):
        return "", ""
    if DRIVER_HOST not in settings and master.startswith(_STANDALONE):
        address = own_address(master)
        return address, address
    host = settings.get(DRIVER_HOST) or socket.getfqdn()
    return host, settings.get(BIND_ADDRESS) or ("::" if ":" in host else "0.0.0.0")


def _parts(address: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(address)
    assert match is not None, address  # the settings were checked
    return match[1], int(match[2])
