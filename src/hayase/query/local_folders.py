"""The folders of an application on this machine: states of the workers, of followers, and of older epochs."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from hayase.core.config import StreamsConfig
from hayase.core.private_files import is_own_folder, make_folder, private_folder
from hayase.state.environment.folders import StateFolders


def application_folder(config: StreamsConfig) -> Path:
    """The folder of an application's local state on this machine, of its followers, and of states of older epochs."""
    return Path(config.state_dir) / config.application_id


def state_folders(config: StreamsConfig) -> StateFolders:
    """Where the workers keep the states of bundles."""
    folder = application_folder(config)
    # Applications of one name, with states in different folders, have nothing to do with each other.
    whose = hashlib.blake2b(os.fsencode(folder), digest_size=6).hexdigest()
    return StateFolders(folder, config.state_memory_dir / f"{config.application_id}-{whose}")


def settle_application_folder(config: StreamsConfig) -> None:
    """Make the folder of an application's local state, or see to it that it is private; raises FolderError."""
    state_dir, access = Path(config.state_dir), config.files_group_access
    make_folder(state_dir, access or "none")
    if is_own_folder(state_dir):
        private_folder(state_dir, access, contents=None if state_dir.name == "hayase" else ())
    private_folder(application_folder(config), access)


def clear_memory(config: StreamsConfig) -> None:
    """Give back the memory that stores of an application took on this machine; it must not be running."""
    memory = state_folders(config).memory
    if is_own_folder(memory.parent):  # in a place like /dev/shm another user may have made it
        shutil.rmtree(memory, ignore_errors=True)


def followers_folder(config: StreamsConfig) -> Path:
    """Where followers are, each in a folder of its name."""
    return application_folder(config) / "followers"


def history_folder(config: StreamsConfig) -> Path:
    """Where states of older epochs are built."""
    return application_folder(config) / "history"
