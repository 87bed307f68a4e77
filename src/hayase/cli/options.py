"""Options that several commands share: where the topics are, and an application's settings."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError
from hayase.core.properties import parse_properties
from hayase.log.config import log_config
from hayase.log.open import open_log_of_user
from hayase.log.protocol import Log

PROJECT_FILE = "hayase.toml"
_FOLDERS = {"log.dir", "state.dir", "checkpoint.dir", "state.memory.dir"}

DeleteRemovedStores = Annotated[
    bool,
    typer.Option(
        "--delete-removed-stores",
        help="Delete the rows of stores that the topology does not have any more, also of earlier changes.",
    ),
]
Functions = Annotated[
    list[str] | None,
    typer.Option("--functions", metavar="FILE_OR_MODULE", help="Functions of SQL of your own; may be repeated."),
]
LogDir = Annotated[
    Path | None,
    typer.Option(
        "--log-dir",
        envvar="HAYASE_LOG_DIR",
        metavar="DIR",
        help="Folder of the embedded log; default: hayase/log in your data folder (~/.local/share).",
    ),
]
BootstrapServers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        envvar="HAYASE_BOOTSTRAP_SERVERS",
        metavar="HOST:PORT",
        help="A Kafka cluster instead of the embedded log.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="HAYASE_COMMAND_CONFIG",
        metavar="FILE",
        help="Settings of Kafka's clients from a .properties or .toml file, e.g. security.protocol and "
        "sasl.jaas.config; also bootstrap.servers.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, one object a line, for programs.")]
Config = Annotated[
    list[str] | None,
    typer.Option(
        "--config", "-c", metavar="KEY=VALUE", help="A setting, e.g. -c commit.interval.ms=500; may be repeated."
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config-file",
        metavar="FILE",
        help="Settings from a .properties or .toml file; --config wins over it. "
        "Default: the nearest hayase.toml, upwards.",
    ),
]


_WHERE_TOPICS_ARE = ("log.dir", "bootstrap.servers")


def log_settings(log_dir: Path | None, bootstrap_servers: str | None) -> dict[str, object]:
    """The settings that say where the topics are.

    Raises:
        ConfigError: both were given.
    """
    if log_dir is not None and bootstrap_servers is not None:
        raise ConfigError(
            "INVALID_SETTING",
            "--log-dir and --bootstrap-servers (or HAYASE_LOG_DIR and HAYASE_BOOTSTRAP_SERVERS) are both given; topics "
            "are either in the embedded log or in Kafka: leave one out",
        )
    settings: dict[str, object] = {}
    if log_dir is not None:
        settings["log.dir"] = log_dir
    if bootstrap_servers is not None:
        settings["bootstrap.servers"] = bootstrap_servers
    return settings


@contextmanager
def opened_log(
    log_dir: Path | None, bootstrap_servers: str | None, command_config: Path | None = None
) -> Iterator[Log]:
    """The log that these options mean, closed at the end."""
    settings = log_settings(log_dir, bootstrap_servers)
    read = _read_file(command_config, "--command-config") if command_config is not None else {}
    if not settings and command_config is None:
        read = {key: value for key, value in project_settings().items() if key != "application.id"}
    if log_dir is not None and command_config is not None:
        raise ConfigError(
            "INVALID_SETTING",
            "--log-dir and --command-config (or HAYASE_LOG_DIR and HAYASE_COMMAND_CONFIG) are both given; topics are "
            "either in the embedded log or in Kafka: leave one out",
        )
    config = StreamsConfig({"application.id": "hayase-cli", **read, **settings})
    if command_config is not None and config.embedded:
        raise ConfigError(
            "MISSING_SETTING",
            "--command-config is for a Kafka cluster, and nothing says which: give --bootstrap-servers as well",
        )
    with log_of(config) as log:
        yield log


@contextmanager
def log_of(config: StreamsConfig) -> Iterator[Log]:
    """The log of an application, closed at the end."""
    log = open_log_of_user(log_config(config))
    try:
        yield log
    finally:
        log.close()


def read_settings(
    pairs: Iterable[str] | None, file: Path | None, topics: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Settings of `--config-file`, else of the project's `hayase.toml`, and of `--config`.

    Args:
        pairs: of `--config`; they win.
        file: of `--config-file`.
        topics: of `log_settings`: they win over what a file says of where the topics are.

    Raises:
        ConfigError: the file cannot be read, or a pair has no `=`.
    """
    settings = _read_file(file, "--config-file") if file is not None else project_settings()
    if topics:
        settings = {key: value for key, value in settings.items() if key not in _WHERE_TOPICS_ARE} | dict(topics)
    return {**settings, **settings_of_pairs(pairs, "--config")}


def settings_of_pairs(pairs: Iterable[str] | None, option: str) -> dict[str, object]:
    """Settings that an option gives as `KEY=VALUE`; raises ConfigError if there is no `=`."""
    settings: dict[str, object] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError("INVALID_SETTING", f"{option} {pair!r} is not KEY=VALUE, e.g. commit.interval.ms=500")
        settings[key.strip()] = value.strip()
    return settings


def project_settings() -> dict[str, object]:
    """Settings of the nearest `hayase.toml`, in the working folder or above it; folders in it are relative to its own.

    Raises:
        ConfigError: it cannot be read, or another user could have written it: settings say what is run.
    """
    for folder in (Path.cwd(), *Path.cwd().parents):
        file = folder / PROJECT_FILE
        if not file.is_file():
            continue
        info = file.stat()
        if info.st_uid not in (os.geteuid(), 0) or info.st_mode & stat.S_IWOTH:
            raise ConfigError(
                "INVALID_SETTING",
                f"{file} is not used: it belongs to another user, or any user can write it. Settings say what is run; "
                "fix it with chown or chmod o-w, or name a file of your own with --config-file",
            )
        settings = _read_file(file, PROJECT_FILE)
        for key in _FOLDERS & settings.keys():
            value = settings[key]
            if isinstance(value, str) and "://" not in value:
                settings[key] = str(folder / value)
        return settings
    return {}


def _read_file(file: Path, option: str) -> dict[str, object]:
    where = f"{option} {str(file)!r}"
    try:
        text = file.read_text(encoding="utf-8")
        return _flat(tomllib.loads(text)) if file.suffix == ".toml" else dict(parse_properties(text, where))
    except OSError as error:
        raise ConfigError("INVALID_SETTING", f"{where} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError("INVALID_SETTING", f"{where}: {error}") from error


def _flat(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """TOML reads `commit.interval.ms = 500` as nested tables: put the names together again."""
    settings: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            settings |= _flat(value, f"{prefix}{key}.")
        else:
            settings[prefix + key] = value
    return settings
