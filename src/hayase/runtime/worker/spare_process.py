"""Spare process of a shared runtime: works for a pool without a Spark task, until the pool sends it away."""

from __future__ import annotations

from hayase.runtime.wire.slot_messages import JoinAsSpare, StartSpare
from hayase.runtime.worker.slot_client import SlotWorker, serve_pool
from hayase.runtime.worker.spare_source import PoolOffer


def run_spare(offer: PoolOffer, order: StartSpare) -> None:
    """Do what a pool has ordered a process for."""
    worker = SlotWorker(offer.options)
    try:
        serve_pool(worker, JoinAsSpare(order.slot, order.application_id, worker.account), offer.address)
    finally:
        worker.close()
