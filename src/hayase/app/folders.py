"""The folders of an application on this machine: made, or found to be its user's, before anything is put in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hayase.core.config import StreamsConfig
from hayase.core.errors import FolderError
from hayase.core.private_files import private_folder
from hayase.log.config import log_config
from hayase.log.embedded.store import FILES
from hayase.query.local_folders import settle_application_folder
from hayase.storage.blobs import BlobStore
from hayase.storage.disk_full import disk_full, is_out_of_space
from hayase.storage.posix_blobs import TEMPORARIES, PosixBlobs
from hayase.topology.topology import Topology

_CHECKPOINT = (
    TEMPORARIES,
    "amendments",
    "assignments",
    "changelog",
    "claims",
    "edges",
    "epochs",
    "floor",
    "lease",
    "lineage",
    "migration",
    "plan.json",
    "plans",
    "positions",
    "probe",
    "programs",
    "redo",
    "rounds",
    "schemas",
    "snapshots",
    "spark",
    "sql",
    "terms",
    "topologies",
    "topology-programs",
)
"""The entries of a checkpoint's folder."""


def settle_folders(topology: Topology, config: StreamsConfig, blobs: BlobStore) -> None:
    """Make the application's folders private, with the access for a group that the settings give.

    Raises:
        FolderError: `FOLDER_NOT_PRIVATE`: one belongs to another user; `FOLDER_NOT_USABLE`: one cannot be made or
            written.
    """
    access = config.files_group_access
    with _naming("state.dir", config.state_dir):
        settle_application_folder(config)
    if isinstance(blobs, PosixBlobs):
        with _naming("checkpoint.dir", blobs.root):
            private_folder(blobs.root, access, contents=_CHECKPOINT)
    if log_config(config).kind == "embedded":
        with _naming("log.dir", config.log_dir):
            private_folder(config.log_dir, access, contents=FILES)
    if any(spec.in_memory for spec in topology.stores.values()):
        with _naming("state.memory.dir", config.state_memory_dir):
            private_folder(config.state_memory_dir, access, predictable=True)


def settle_runtime_folders(config: StreamsConfig, blobs: BlobStore) -> None:
    """Make the folders of a shared runtime private, as `settle_folders` does; its topologies have folders of their own.

    Raises:
        FolderError: as `settle_folders`.
    """
    with _naming("state.dir", config.state_dir):
        settle_application_folder(config)
    if isinstance(blobs, PosixBlobs):
        with _naming("checkpoint.dir", blobs.root):
            private_folder(blobs.root, config.files_group_access, contents=_CHECKPOINT)


@contextmanager
def _naming(setting: str, folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if is_out_of_space(error.errno):
            raise disk_full(f"The folder of {setting}", folder, error) from error
        raise FolderError(
            "FOLDER_NOT_USABLE",
            f"{folder} cannot be made or written: {error.strerror} ({error.filename or folder}). Set {setting} to a "
            "folder that this user can write",
            setting=setting,
        ) from error
