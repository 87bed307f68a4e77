"""Connections to S3 stores: one client per process and location."""

from __future__ import annotations

import os
from typing import BinaryIO, Protocol, TypedDict

import botocore.session
from botocore.config import Config

from hayase.storage.s3_location import S3Location

_CONNECT_TIMEOUT_S = 5
_READ_TIMEOUT_S = 60


class S3Head(TypedDict):
    """What is known of an object without its content."""

    ContentLength: int
    Metadata: dict[str, str]


class S3Object(TypedDict):
    """An object with its content."""

    Body: BinaryIO


class S3Key(TypedDict):
    """An object by its name."""

    Key: str


class S3Objects(TypedDict):
    """Objects to be deleted; quiet answers name only those that were not."""

    Objects: list[S3Key]
    Quiet: bool


class S3Failure(TypedDict, total=False):
    """An object that was not deleted, and why."""

    Key: str
    Code: str
    Message: str


class S3Deleted(TypedDict, total=False):
    """What became of objects to be deleted."""

    Errors: list[S3Failure]


class S3Page(TypedDict, total=False):
    """Some of the objects of a bucket."""

    Contents: list[S3Key]
    IsTruncated: bool
    NextContinuationToken: str


class S3Client(Protocol):
    """What is used of botocore's client, whose methods are made as the program runs."""

    def put_object(
        self, *, Bucket: str, Key: str, Body: bytes, ContentMD5: str, Metadata: dict[str, str], **condition: str
    ) -> object:
        """Write an object, under a condition (`IfNoneMatch`) if there is one."""

    def get_object(self, *, Bucket: str, Key: str) -> S3Object:
        """Read an object."""

    def head_object(self, *, Bucket: str, Key: str) -> S3Head:
        """Look for an object."""

    def delete_object(self, *, Bucket: str, Key: str) -> object:
        """Delete an object."""

    def delete_objects(self, *, Bucket: str, Delete: S3Objects) -> S3Deleted:
        """Delete up to 1,000 objects."""

    def list_objects_v2(self, *, Bucket: str, Prefix: str, MaxKeys: int, **more: str) -> S3Page:
        """Objects whose names begin with a prefix; `more` says where it goes on, and what ends a folder's name."""


# Never carried over a fork: a child finds none under its own process id and makes its own.
_clients: dict[tuple[int, S3Location], S3Client] = {}


def client_for(where: S3Location) -> S3Client:
    """The process's client; thread-safe. Credentials come from botocore's own chain (environment, ~/.aws, role).

    Raises:
        botocore.exceptions.BotoCoreError: the AWS configuration of this machine is not usable.
    """
    key = (os.getpid(), where)
    client = _clients.get(key)
    if client is None:
        # Two threads may both make one; that costs a moment, a lock could be inherited locked over a fork.
        client = _clients[key] = _make(where)
    return client


def _make(where: S3Location) -> S3Client:
    path_style = where.path_style if where.path_style is not None else where.endpoint is not None
    config = Config(
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=_READ_TIMEOUT_S,
        tcp_keepalive=True,
        retries={"total_max_attempts": 1},  # S3Blobs tries again, and knows which answers may be its own doing
        s3={"addressing_style": "path" if path_style else "auto"},
        # Trailing checksums are an Amazon matter: other stores refuse such uploads.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        user_agent_extra="hayase",
    )
    session = botocore.session.get_session()
    client: S3Client = session.create_client("s3", region_name=where.region, endpoint_url=where.endpoint, config=config)
    return client
