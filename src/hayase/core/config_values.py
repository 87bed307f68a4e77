"""Parsers of single settings.

Each takes the key and what was given, returns the typed value or says what is allowed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from hayase.core.errors import ConfigError, TopologyError
from hayase.core.offset_reset import AutoOffsetReset

Parse = Callable[[str, object], object]
Whole = Callable[[str, object], int]

_HOST_PORT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/,\[\]]+):(\d{1,5})")
_LOCAL = re.compile(r"local(\[[\d*, ]+\])?")
_LEGAL_ID = re.compile(r"[a-zA-Z0-9._-]{1,200}")
SERDE_NAMES = (
    "string",
    "bytes",
    "long",
    "integer",
    "short",
    "double",
    "float",
    "boolean",
    "json",
    "uuid",
    "avro",
    "void",
)
"""Names of the serdes of `hayase.serde.Serdes`, for configurations that are text."""
HANDLER_NAMES = ("log_and_fail", "log_and_continue", "dead_letter")
"""Names of the functions of `hayase.processor.handlers`."""
EXTRACTOR_NAMES = ("fail_on_invalid", "log_and_skip", "use_partition_time", "wall_clock")
"""Kafka Streams' built-in timestamp extractors."""


def refuse(key: str, value: object, allowed: str) -> ConfigError:
    """The error for a value that is not allowed."""
    return ConfigError("INVALID_SETTING", f"{key} is {value!r}; allowed is {allowed}", setting=key)


def whole(minimum: int, maximum: int = 2**63 - 1) -> Whole:
    """A whole number within bounds, also as text."""

    def parse(key: str, value: object) -> int:
        allowed = f"a whole number of at least {minimum}" + (f" and at most {maximum}" if maximum < 2**63 - 1 else "")
        number = value
        if isinstance(value, str) and re.fullmatch(r"\s*-?\d+\s*", value):
            number = int(value)
        if not isinstance(number, int) or isinstance(number, bool) or not minimum <= number <= maximum:
            raise refuse(key, value, allowed)
        return number

    return parse


def replication_factor(key: str, value: object) -> int:
    """Copies of a topic, or -1 for what the brokers have as default."""
    number = whole(-1, 32767)(key, value)
    if number == 0:
        raise refuse(key, value, "-1 (the brokers' default) or at least 1")
    return number


def boolean(key: str, value: object) -> bool:
    """True or false, also as text."""
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise refuse(key, value, "True or False")
    return value


def one_of(*allowed: str, hints: Mapping[str, str] | None = None) -> Parse:
    """One of some words; `hints` says more about words that are wrong in a way people get wrong."""

    def parse(key: str, value: object) -> str:
        if value not in allowed:
            hint = (hints or {}).get(value, "") if isinstance(value, str) else ""
            raise refuse(key, value, "one of " + ", ".join(allowed) + hint)
        return str(value)

    return parse


def offset_reset(key: str, value: object) -> AutoOffsetReset:
    """An `AutoOffsetReset`, or its text."""
    refusal = refuse(key, value, "earliest, latest, none, or a duration such as by_duration:PT1H30M")
    if not isinstance(value, AutoOffsetReset | str):
        raise refusal
    try:
        return AutoOffsetReset.of(value)
    except TopologyError as error:
        raise refusal from error


def text(key: str, value: object) -> str:
    """Text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise refuse(key, value, "text that is not empty")
    return value


def application_id(key: str, value: object) -> str:
    """A name that can be a folder, a consumer group and the beginning of a topic's name."""
    if not isinstance(value, str) or not _LEGAL_ID.fullmatch(value) or value in (".", ".."):
        raise refuse(key, value, "1 to 200 ASCII letters, digits, '.', '_' or '-'")
    return value


def dsl_store(key: str, value: object) -> str:
    """Where stores are kept."""
    if value not in ("persistent", "in_memory", "rocksDB"):
        raise refuse(key, value, "one of persistent, in_memory (rocksDB means persistent: on disk)")
    return "in_memory" if value == "in_memory" else "persistent"


def dsl_store_suppliers(key: str, value: object) -> str:
    """The same, also under the names of Kafka Streams' classes."""
    name = str(value).rpartition(".")[2].rpartition("$")[2]
    if name in ("persistent", "RocksDBDslStoreSuppliers"):
        return "persistent"
    if name in ("in_memory", "InMemoryDslStoreSuppliers"):
        return "in_memory"
    raise refuse(
        key, value, "one of persistent, in_memory, RocksDBDslStoreSuppliers (persistent), InMemoryDslStoreSuppliers"
    )


def servers(key: str, value: object) -> tuple[str, ...]:
    """Addresses as `host:port`, a list or text with commas."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Iterable) or isinstance(items, Mapping):
        raise refuse(key, value, "host:port, or several of them with commas between")
    addresses = tuple(item.strip() if isinstance(item, str) else item for item in items)
    if not addresses or not all(isinstance(item, str) and is_host_port(item) for item in addresses):
        raise refuse(key, value, "host:port, or several of them with commas between")
    return addresses


def host_names(key: str, value: object) -> tuple[str, ...]:
    """Names or addresses of hosts without ports, a list or text with commas; `*` is any."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Iterable) or isinstance(items, Mapping):
        raise refuse(key, value, "names of hosts with commas between, or *")
    names = tuple(item.strip().lower().strip("[]") if isinstance(item, str) else "" for item in items)
    if not all(re.fullmatch(r"\*|[a-z0-9._:-]+", item) for item in names):
        raise refuse(key, value, "names of hosts with commas between, or *")
    return names


def is_host_port(item: str) -> bool:
    """Whether the text is `host:port`."""
    match = _HOST_PORT.fullmatch(item)
    return match is not None and 0 < int(match[2]) < 65536


def spark_master(key: str, value: object) -> str:
    """Where Spark runs."""
    if isinstance(value, str):
        places = value.removeprefix("spark://").split(",")
        if value.startswith("spark://") and all(map(is_host_port, places)):
            return value
        if value == "yarn" or (value.startswith("k8s://") and len(value) > len("k8s://")) or _LOCAL.fullmatch(value):
            return value
    raise refuse(key, value, "spark://host:port, spark://host:port,host:port, yarn, k8s://host:port, or local[n,4]")


def folder(key: str, value: object) -> Path:
    """A local folder; `~` is the home directory."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise refuse(key, value, "the path of a local folder")
    path = os.fspath(value)
    if "://" in str(path):
        raise refuse(key, value, "the path of a local folder; state needs a local disk")
    return Path(path).expanduser().absolute()


_SCHEMES = ("s3", "s3a", "s3n", "file", "hdfs", "gs", "abfs", "abfss", "wasb", "wasbs")


def location(key: str, value: object) -> str:
    """A local folder, or the URL of an object store (`s3://…`), which is checked when it is opened."""
    if isinstance(value, str) and "://" in value:
        return value
    if isinstance(value, str) and (scheme := value.partition(":")[0]) in _SCHEMES and scheme != value:
        rest = value.removeprefix(f"{scheme}:").lstrip("/")
        raise refuse(
            key, value, f"a folder, or a URL with two slashes: {scheme}://{'/' if scheme == 'file' else ''}{rest}"
        )
    return str(folder(key, value))


def named_or_object(names: Collection[str], what: str, fits: Callable[[object], bool]) -> Parse:
    """An object of a kind, or the name of a built-in one."""

    def parse(key: str, value: object) -> object:
        if isinstance(value, str):
            if value not in names:
                raise refuse(key, value, f"{what}, or one of the names {', '.join(names)}")
            return value
        if value is None or isinstance(value, type) or not fits(value):
            raise refuse(key, value, f"{what}, or one of the names {', '.join(names)}")
        return value

    return parse


serde = named_or_object(
    SERDE_NAMES, "a serde", lambda value: hasattr(value, "serialize") and hasattr(value, "deserialize")
)
"""A Serde, or the name of one."""

handler = named_or_object(HANDLER_NAMES, "a function of (context, error) that gives a HandlerAnswer", callable)
"""An exception handler, or the name of one."""

extractor = named_or_object(
    EXTRACTOR_NAMES,
    "a TimestampExtractor or a function of (record, partition_time_ms)",
    lambda value: callable(value) or hasattr(value, "on_invalid"),
)
"""A timestamp extractor, or the name of one."""


def optional(parse: Parse) -> Parse:
    """`None` as well."""
    return lambda key, value: None if value is None else parse(key, value)
