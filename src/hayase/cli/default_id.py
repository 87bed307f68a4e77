"""The default `application.id` of a file or module that a command names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hayase.app.checkpoint import stored_plan
from hayase.app.plan_switch import check_plan
from hayase.cli.load import Loaded
from hayase.compiler.options import configured
from hayase.core.config import StreamsConfig
from hayase.core.errors import CheckpointError, ConfigError
from hayase.storage.open import open_blobs

_ID = "application.id"
_GENERIC = frozenset({"app", "main", "stream", "streams", "topology"})
"""Modules of a package that say nothing of it: there the package has the name."""


def with_default_id(loaded: Loaded, settings: Mapping[str, object]) -> StreamsConfig:
    """The settings with an `application.id`: the one that is given, else that of the file, module or package.

    Raises:
        ConfigError: `APPLICATION_ID_CHANGED`: the application was started under the id that earlier releases made of
            the module's name alone, so its state is there.
    """
    default = _text(default_id(loaded))
    config = StreamsConfig({_ID: default, **settings})
    before = _text(loaded.name)
    if _ID not in settings and before != default:
        _check_not_started_as(before, loaded, settings, config)
    return config


def default_id(loaded: Loaded) -> str:
    """The name of the file or module; of a module called app, main, stream, streams or topology that of its package."""
    return loaded.package if loaded.package and loaded.name in _GENERIC else loaded.name


def note_of_earlier_default(loaded: Loaded, config: StreamsConfig) -> str | None:
    """What a first run under another default says, if another program, or an earlier form of this one, has the old one.

    Args:
        loaded: the program.
        config: its settings.
    """
    before = _text(loaded.name)
    if config.application_id != _text(default_id(loaded)) or not _has_state(before, config):
        return None
    return (
        f"this is the first run of {config.application_id!r}; the default application.id of this module was {before!r} "
        f"in earlier releases, and {config.state_dir} has state of an application of that name, of another topology"
    )


def _check_not_started_as(before: str, loaded: Loaded, settings: Mapping[str, object], config: StreamsConfig) -> None:
    if not _has_state(before, config):
        return
    config_before = StreamsConfig({_ID: before, **settings})
    blobs = open_blobs(config_before.checkpoint_dir, fsync=False)
    if stored_plan(blobs) is None:
        return
    try:
        check_plan(blobs, configured(loaded.topology, config_before), config_before)
    except CheckpointError:  # of another program: see note_of_earlier_default
        return
    raise ConfigError(
        "APPLICATION_ID_CHANGED",
        f"the default application.id of this module is {config.application_id!r}, the name of its package; it was "
        f"{before!r} in earlier releases, and this program has state under that id in {config.state_dir}. Give the id: "
        f"`-c application.id={before}` goes on with that state, `-c application.id={config.application_id}` starts "
        "over, with its input read from the beginning",
    )


def _has_state(before: str, config: StreamsConfig) -> bool:
    """Whether there is state under an earlier default, and none under this one."""
    state = Path(config.state_dir)
    return (
        before != config.application_id and (state / before).is_dir() and not (state / config.application_id).is_dir()
    )


def _text(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name) or "app"
