"""Connections to S3 stores: one client per process and location."""

from __future__ import annotations

import os
from typing import Any

import botocore.session
from botocore.config import Config

from hayase.storage.s3_location import S3Location

_CONNECT_TIMEOUT_S = 5
_READ_TIMEOUT_S = 60

# Never carried over a fork: a child finds none under its own process id and makes its own.
_clients: dict[tuple[int, S3Location], object] = {}


def client_for(where: S3Location) -> Any:
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


def _make(where: S3Location) -> Any:
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
    return session.create_client("s3", region_name=where.region, endpoint_url=where.endpoint, config=config)
