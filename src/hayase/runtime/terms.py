"""Terms: every start of an application has a number, higher than those of all starts before it."""

from __future__ import annotations

from hayase.storage.blobs import BlobStore

TERMS_FOLDER = "terms/"


def begin_term(blobs: BlobStore) -> int:
    """The term of a run that begins now, from 1. Call it with the application's lease held.

    Two that hold the lease at once, because one of them was taken for dead, never get the same one.
    """
    while True:
        term = max((int(name.removeprefix(TERMS_FOLDER)) for name in blobs.list(TERMS_FOLDER)), default=0) + 1
        if blobs.put_if_absent(f"{TERMS_FOLDER}{term:012d}", b""):
            break
    for name in blobs.list(TERMS_FOLDER):
        if name < f"{TERMS_FOLDER}{term:012d}":
            blobs.delete(name)
    return term
