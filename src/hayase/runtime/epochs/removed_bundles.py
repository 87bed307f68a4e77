"""Deletes what sub-topologies that are gone have left, once the plan without them is in use, if that was asked for."""

from __future__ import annotations

import shutil

from hayase.core.failpoints import reach
from hayase.runtime.wire.app_spec import AppSpec
from hayase.state.changelog.changelog import Changelog
from hayase.storage.blobs import BlobStore
from hayase.task.epoch_record import EpochRecord


def delete_removed_bundles(app: AppSpec, blobs: BlobStore, record: EpochRecord) -> None:
    """Delete changelogs, snapshots and local states of `AppSpec.deleted_bundles`; again and again does no harm.

    Only called once an epoch of the plan is done: then no epoch of an earlier plan is open or will be, ids of
    sub-topologies are never used again, and no later record names these bundles.

    Args:
        app: the program, whose plan does not have these bundles.
        blobs: its checkpoint.
        record: of an epoch of its plan that is done.
    """
    for bundle in set(app.deleted_bundles).difference(each.id for each in app.plan.bundles):
        reach("before_bundle_deletion", bundle=bundle, epoch=record.epoch)
        Changelog(blobs, bundle).end(app.checkpoint_id, record.epoch, record.wall_clock_ms)
        for in_memory in (False, True):
            for folder in (app.folders.logged, app.folders.unlogged):
                shutil.rmtree(folder(bundle, in_memory=in_memory), ignore_errors=True)
        reach("after_bundle_deletion", bundle=bundle, epoch=record.epoch)
