"""The folders of an application on this machine: made, or found to be its user's, before anything is put in them."""

from __future__ import annotations

from hayase.core.config import StreamsConfig
from hayase.core.private_files import private_folder
from hayase.log.embedded.store import FILES
from hayase.planner.options import log_config
from hayase.query.checkpoint import settle_application_folder
from hayase.storage.blobs import BlobStore
from hayase.storage.posix_blobs import TEMPORARIES, PosixBlobs
from hayase.topology.topology import Topology

_CHECKPOINT = (
    TEMPORARIES,
    "amendments",
    "changelog",
    "epochs",
    "floor",
    "lease",
    "lineage",
    "migration",
    "plan.json",
    "positions",
    "probe",
    "programs",
    "schemas",
    "snapshots",
    "spark",
    "terms",
)
"""What is in the folder of a checkpoint."""


def settle_folders(topology: Topology, config: StreamsConfig, blobs: BlobStore) -> None:
    """Make the application's folders private, with the access for a group that the settings give.

    Raises:
        FolderError: `FOLDER_NOT_PRIVATE`: one belongs to another user.
    """
    access = config.files_group_access
    settle_application_folder(config)
    if isinstance(blobs, PosixBlobs):
        private_folder(blobs.root, access, contents=_CHECKPOINT)
    if log_config(config).kind == "embedded":
        private_folder(config.log_dir, access, contents=FILES)
    if any(spec.in_memory for spec in topology.stores.values()):
        private_folder(config.state_memory_dir, access, predictable=True)
