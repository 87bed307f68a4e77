"""Blobs as objects of an S3 store (Amazon S3 and what speaks its protocol), published with a conditional PUT."""

from __future__ import annotations

import base64
import hashlib
import itertools
import logging
import random
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from hayase.core.errors import StorageError
from hayase.core.patience import IMPATIENT, Patience
from hayase.core.steps import asking
from hayase.storage.blobs import check_folder, name_parts
from hayase.storage.s3_client import S3Client, S3Deleted, S3Head, S3Objects, S3Page, client_for
from hayase.storage.s3_errors import code_of, explain, may_pass, status_of
from hayase.storage.s3_location import S3Location

T = TypeVar("T")
Keys = list[str]

_LOG = logging.getLogger("hayase.storage")

BLOB_BYTES_MAX = 5 << 30
"""The most that one PUT can carry."""
ATTEMPTS = 8
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_WRITER = "hayase-writer"


class S3Blobs:
    """A `BlobStore` in a folder of a bucket.

    A blob is one object, written by one PUT with `If-None-Match: *`: the store creates it whole, or not at all, and
    refuses a second of the same name with 412 ("Conditional writes" in Amazon's user guide of S3). A PUT whose answer
    was lost is sent again, and may then be refused because of itself; so each carries an id in the object's metadata,
    by which a refused writer recognizes its own.

    Everything is tried again while that may help: at least 8 times in about 12 seconds plus the time that requests
    take, and then for as long as the patience lasts, at pauses of up to 5 seconds.

    Safe for several processes and threads; may be pickled and inherited over a fork.

    Args:
        where: bucket, folder and endpoint.
        sleep: waits that many seconds between two attempts.
        chance: a number from 0 to 1, by which pauses differ from writer to writer.
        patience: how long a store that is away is waited for. It is not pickled: a copy in another process has none.
    """

    def __init__(
        self,
        where: S3Location,
        *,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
        patience: Patience = IMPATIENT,
    ) -> None:
        self.where = where
        self._patience = patience
        self._sleep = sleep
        self._chance = chance

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.where,)

    @property
    def publishes_once(self) -> bool:
        """Unless the URL says `conditional_put=false`. That the store keeps the promise is found out by probing."""
        return self.where.conditional_put

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Publish a blob; `False`, and nothing changed, if there is one of that name already.

        Raises:
            StorageError: `BLOB_TOO_LARGE`: more than 5 GiB; and as all methods here `S3_UNREACHABLE`, `S3_FAILED`.
            ConfigError: `PUBLISH_NOT_ATOMIC`: the store does not know conditional PUT; and as all methods here
                `S3_CREDENTIALS_MISSING`, `S3_ACCESS_DENIED`, `S3_BUCKET_MISSING`.
        """
        key = self._key(name)
        if len(data) > BLOB_BYTES_MAX:
            raise StorageError(
                "BLOB_TOO_LARGE",
                f"{name} has {len(data):,} bytes, and one PUT to {self.where} carries 5 GiB at most. Make epochs "
                "smaller: max.records.per.epoch",
            )
        if not self.where.conditional_put and self.exists(name):
            return False
        condition = {"IfNoneMatch": "*"} if self.where.conditional_put else {}
        writer = uuid.uuid4().hex
        md5 = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()

        def put(client: S3Client) -> bool:
            try:
                client.put_object(
                    Bucket=self.where.bucket,
                    Key=key,
                    Body=data,
                    ContentMD5=md5,
                    Metadata={_WRITER: writer},
                    **condition,
                )
            except ClientError as error:
                if status_of(error) != 412:
                    raise
                return False
            return True

        if self._run(f"writing {name}", put):
            return True
        head = self._head(name)
        return head is not None and head["Metadata"].get(_WRITER) == writer

    def get(self, name: str) -> bytes | None:
        """The blob; `None` if there is none."""
        key = self._key(name)

        def get(client: S3Client) -> bytes | None:
            try:
                data: bytes = client.get_object(Bucket=self.where.bucket, Key=key)["Body"].read()
            except ClientError as error:
                if _is_absent(error):
                    return None
                raise
            return data

        return self._run(f"reading {name}", get)

    def size(self, name: str) -> int | None:
        """Bytes of the blob; `None` if there is none."""
        head = self._head(name)
        return None if head is None else int(head["ContentLength"])

    def exists(self, name: str) -> bool:
        """Whether there is a blob of that name."""
        return self._head(name) is not None

    def list(self, prefix: str) -> list[str]:
        """Names of the blobs in the folder `prefix` (`a/b/`; empty for the root), sorted; not those of its folders."""
        if prefix:
            check_folder(prefix)
        skip = len(self.where.folder)
        # Sorted by us: Amazon's directory buckets are not.
        return sorted(key[skip:] for page in self._pages(prefix, delimiter="/") for key in page)

    def delete(self, name: str) -> None:
        """Remove a blob; nothing happens if there is none."""
        key = self._key(name)
        self._run(f"deleting {name}", lambda client: client.delete_object(Bucket=self.where.bucket, Key=key))

    def delete_below(self, folder: str) -> None:
        """Remove all blobs of a folder (`a/b/`) and of the folders in it."""
        check_folder(folder)
        for page in self._pages(folder):
            objects: S3Objects = {"Objects": [{"Key": key} for key in page], "Quiet": True}

            def remove(client: S3Client, objects: S3Objects = objects) -> S3Deleted:
                return client.delete_objects(Bucket=self.where.bucket, Delete=objects)

            failed = self._run(f"deleting {folder}", remove).get("Errors", [])
            if failed:
                raise StorageError(
                    "S3_FAILED",
                    f"{self.where} did not delete {len(failed)} of {len(page)} objects below {folder}; the first is "
                    f"{failed[0].get('Key')}: {failed[0].get('Code')} {failed[0].get('Message', '')}. Try again",
                )

    def is_empty(self) -> bool:
        """Whether there is no object in the folder of the bucket."""
        return next(self._pages("", most=1), None) is None

    def tidy(self) -> None:
        """Nothing to do: a bucket has no folders of its own, and an unfinished PUT leaves nothing."""

    def _key(self, name: str) -> str:
        name_parts(name)
        return self.where.folder + name

    def _head(self, name: str) -> S3Head | None:
        key = self._key(name)

        def head(client: S3Client) -> S3Head | None:
            try:
                return client.head_object(Bucket=self.where.bucket, Key=key)
            except ClientError as error:
                if _is_absent(error):
                    return None
                raise

        return self._run(f"looking for {name}", head)

    def _pages(self, prefix: str, *, delimiter: str = "", most: int = 1000) -> Iterator[Keys]:
        """Keys below a folder, a page at a time; pages without any are left out."""
        more: dict[str, str] = {"Delimiter": delimiter} if delimiter else {}
        while True:

            def page(client: S3Client, more: dict[str, str] = more) -> S3Page:
                return client.list_objects_v2(
                    Bucket=self.where.bucket, Prefix=self.where.folder + prefix, MaxKeys=most, **more
                )

            answer = self._run(f"listing {prefix or 'the checkpoint'}", page)
            if keys := [each["Key"] for each in answer.get("Contents", [])]:
                yield keys
            if not answer.get("IsTruncated"):
                return
            more = {**more, "ContinuationToken": answer["NextContinuationToken"]}

    def _run(self, doing: str, action: Callable[[S3Client], T]) -> T:
        """Do it, again while that may help."""
        wait = self._patience.begin()
        for attempt in itertools.count(1):
            try:
                with asking():
                    done = action(client_for(self.where))
            except (BotoCoreError, ClientError) as error:
                explained = explain(error, self.where, doing)
                if not may_pass(error):
                    wait.over()
                    raise explained from error
                if attempt >= ATTEMPTS and not wait.again(explained):
                    raise explained from error
                pause = self._pause_s(attempt)
                _LOG.info("%s: attempt %d of %s failed, again in %.1f s: %s", self.where, attempt, doing, pause, error)
            else:
                wait.over()
                return done
            if attempt < ATTEMPTS:
                self._sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _pause_s(self, attempt: int) -> float:
        doublings = min(attempt - 1, 10)  # a store may be away for days
        return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0**doublings) * (0.5 + self._chance() / 2)


def _is_absent(error: ClientError) -> bool:
    """A missing bucket is no missing object; the answer to HEAD has no body that could tell them apart."""
    return status_of(error) == 404 and code_of(error) != "NoSuchBucket"
