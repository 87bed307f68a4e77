"""Terms: every start of an application has a number, higher than those of all starts before it."""

from __future__ import annotations

from hayase.runtime.epochs.record_retention import superseded
from hayase.storage.blobs import BlobStore
from hayase.storage.numbered_names import numbers_of

TERMS_FOLDER = "terms/"
_DIGITS = 12


def begin_term(blobs: BlobStore) -> int:
    """The term of a run that begins now, from 1. Call it with the application's lease held.

    Two that hold the lease at once, because one of them was taken for dead, never get the same one: names of terms are
    deleted only by a run that sees a higher one, which a run that creates a lower one afterwards sees as well.

    Raises:
        LeaseHeldError: `LEASE_LOST`: another run has begun meanwhile.
    """
    while True:
        term = newest_term(blobs) + 1
        if blobs.put_if_absent(_name(term), b""):
            break
    known = _terms(blobs)
    if max(known, default=0) > term:
        blobs.delete(_name(term))
        raise superseded(f"term {max(known)} has begun while this run was taking term {term}")
    for earlier in known:
        if earlier < term:
            blobs.delete(_name(earlier))
    return term


def newest_term(blobs: BlobStore) -> int:
    """The highest term that was begun; 0 if none was."""
    return max(_terms(blobs), default=0)


def _terms(blobs: BlobStore) -> list[int]:
    return numbers_of(blobs.list(TERMS_FOLDER), TERMS_FOLDER, _DIGITS)


def _name(term: int) -> str:
    return f"{TERMS_FOLDER}{term:0{_DIGITS}d}"
