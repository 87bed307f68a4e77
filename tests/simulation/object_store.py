"""A model of an S3 store, below the product's `S3Blobs`: strongly consistent, with conditional PUT, over a bad network.

A request can be lost before it arrives, its answer can be lost, and it can arrive long after its sender gave up.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from botocore.exceptions import ClientError, ReadTimeoutError
from tests.simulation.scheduler import Sim

from hayase.core import steps
from hayase.core.patience import IMPATIENT, Patience
from hayase.storage import s3_blobs
from hayase.storage.s3_blobs import S3Blobs
from hayase.storage.s3_location import S3Location

URL = "s3://simulated/app/?endpoint=http://127.0.0.1:1"
_PREFIX = "app/"


@dataclass(frozen=True)
class Blob:
    data: bytes
    metadata: dict[str, str]


@dataclass
class Network:
    """How bad it is: chances by request."""

    lost: float = 0.0
    """The request never arrives."""
    unknown: float = 0.0
    """It arrives, and its answer does not."""
    late: float = 0.0
    """It arrives after its sender gave up."""


@dataclass
class ObjectStore:
    """A bucket."""

    sim: Sim
    network: Network = field(default_factory=Network)
    objects: dict[str, Blob] = field(default_factory=dict)
    down_until: float = 0.0

    def blobs(self, patience: Patience = IMPATIENT) -> S3Blobs:
        """A `BlobStore` of the current process."""
        where = S3Location.parse(URL)
        return S3Blobs(where, sleep=self.sim.sleep, chance=self.sim.rng.random, patience=patience)

    def client(self) -> StoreClient:
        return StoreClient(self)

    def names(self, folder: str = "") -> list[str]:
        """Names of blobs, for the oracle."""
        return sorted(key.removeprefix(_PREFIX) for key in self.objects if key.startswith(_PREFIX + folder))

    def get(self, name: str) -> bytes | None:
        """A blob, for the oracle."""
        found = self.objects.get(_PREFIX + name)
        return found.data if found is not None else None

    def backup(self) -> dict[str, Blob]:
        """A copy of all that is there, taken at one moment."""
        return dict(self.objects)

    def lose(self, folder: str) -> None:
        """Blobs of a folder are deleted behind the application's back."""
        self.objects = {name: blob for name, blob in self.objects.items() if not name.startswith(_PREFIX + folder)}

    def restore(self, copy: dict[str, Blob]) -> None:
        """Put a copy in the place of what is there."""
        self.objects = dict(copy)


class StoreClient:
    """botocore's client, as far as `S3Blobs` uses it."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def put_object(
        self, *, Bucket: str, Key: str, Body: bytes, ContentMD5: str, Metadata: dict[str, str], IfNoneMatch: str = ""
    ) -> None:
        def put() -> None:
            if IfNoneMatch and Key in self._store.objects:
                raise _refused("PreconditionFailed", 412, "PutObject")
            self._store.objects[Key] = Blob(Body, Metadata)

        self._request(f"PUT {_shown(Key)}", put)

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        def get() -> dict[str, Any]:
            found = self._store.objects.get(Key)
            if found is None:
                raise _refused("NoSuchKey", 404, "GetObject")
            return {"Body": io.BytesIO(found.data)}

        return self._request(f"GET {_shown(Key)}", get, reads=True)

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        def head() -> dict[str, Any]:
            found = self._store.objects.get(Key)
            if found is None:
                raise _refused("404", 404, "HeadObject")
            return {"Metadata": found.metadata, "ContentLength": len(found.data)}

        return self._request(f"HEAD {_shown(Key)}", head, reads=True)

    def delete_object(self, *, Bucket: str, Key: str) -> None:
        self._request(f"DELETE {_shown(Key)}", lambda: self._store.objects.pop(Key, None))

    def delete_objects(self, *, Bucket: str, Delete: dict[str, Any]) -> dict[str, Any]:
        keys = [each["Key"] for each in Delete["Objects"]]

        def delete() -> dict[str, Any]:
            for key in keys:
                self._store.objects.pop(key, None)
            return {}

        return self._request(f"DELETE {len(keys)} objects", delete)

    def list_objects_v2(self, *, Bucket: str, Prefix: str, MaxKeys: int, Delimiter: str = "") -> dict[str, Any]:
        def list_() -> dict[str, Any]:
            found = [key for key in sorted(self._store.objects) if key.startswith(Prefix)]
            if Delimiter:
                found = [key for key in found if Delimiter not in key[len(Prefix) :]]
            return {"Contents": [{"Key": key} for key in found], "IsTruncated": False}

        return self._request(f"LIST {Prefix}", list_, reads=True)

    def _request(self, label: str, effect: Callable[[], Any], *, reads: bool = False) -> Any:
        sim, network = self._store.sim, self._store.network
        if sim.process is None:
            return effect()
        sim.step(label)
        if sim.in_transaction:
            return effect()  # time stands still inside, so that waiting would never end
        if self._store.down_until > sim.now:
            sim.sleep(1.0)
            raise _no_answer()
        chance = sim.rng.random()
        if chance < network.lost:
            sim.trace("  request lost")
            sim.sleep(1.0)
            raise _no_answer()
        chance -= network.lost
        if not reads and chance < network.late:
            delay = sim.rng.choice((0.5, 3.0, 15.0))
            sim.trace(f"  request arrives {delay:g} s late")
            sim.at(delay, lambda: _quietly(effect))
            sim.sleep(1.0)
            raise _no_answer()
        result = effect()
        if chance - network.late < network.unknown:
            sim.trace("  answer lost")
            sim.sleep(1.0)
            raise _no_answer()
        sim.step("  answered")
        return result


def _quietly(effect: Callable[[], Any]) -> None:
    try:
        effect()
    except ClientError:
        return


def _refused(code: str, status: int, operation: str) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, operation)


def _no_answer() -> ReadTimeoutError:
    return ReadTimeoutError(endpoint_url="http://127.0.0.1:1")


def _shown(key: str) -> str:
    """In the trace: a program's digest depends on where this process keeps its files."""
    name = key.removeprefix(_PREFIX)
    return "programs/..." if name.startswith("programs/") else name


@contextmanager
def in_place_of_s3(client: Callable[[], Any]) -> Iterator[None]:
    """While every `S3Blobs` asks a model of a store.

    Simulated processes share one thread, and leave a request when they are killed, which may be after the simulation:
    what they write down of their steps is theirs.
    """
    with (
        mock.patch.object(steps, "STEPS", steps.Steps()),
        mock.patch.object(s3_blobs, "client_for", side_effect=lambda _: client()),
    ):
        yield
