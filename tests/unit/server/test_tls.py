"""TLS: HTTP/2 by ALPN on the same port, and clients that have to show certificates."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.certificates import Authority
from tests.unit.server.command_servers import server_in

from hayase.client import AsyncSqlClient, SqlClient, SqlServerError
from hayase.server.http.app import make_app
from hayase.server.serving import HttpServer
from hayase.testing.servers import free_ports

pytestmark = pytest.mark.long


@contextmanager
def served(folder: Path, **more: object) -> Iterator[str]:
    """The address of a server with TLS."""
    (port,) = free_ports(1)
    url = f"https://127.0.0.1:{port}"
    with server_in(folder, listeners=url, **more) as context, HttpServer(make_app(context), context.settings):
        yield url


def test_http_1_and_2_share_a_port_with_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca", "authority")
    own = authority.identity("server")
    trust = ssl.create_default_context(cafile=str(authority.file))
    files = {"ssl_certificate_location": own.certificate, "ssl_key_location": own.key}
    with served(tmp_path, **files) as url:
        for is_h2, version in ((True, "HTTP/2"), (False, "HTTP/1.1")):
            with httpx2.Client(http2=is_h2, verify=trust) as client:
                response = client.get(f"{url}/info")
                assert (response.status_code, response.http_version) == (200, version)


@pytest.mark.parametrize("is_async", [False, True])
def test_the_clients_trust_the_authority_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    authority = Authority(tmp_path / "ca", "authority")
    own = authority.identity("server")
    with served(tmp_path, ssl_certificate_location=own.certificate, ssl_key_location=own.key) as url:
        with pytest.raises(SqlServerError, match=r"not trusted.*SSL_CERT_FILE=ca\.pem"):
            _streams(url, is_async)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        assert _streams(url, is_async)["@type"] == "streams"


def test_a_client_shows_the_certificate_that_it_was_given(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca", "authority")
    own, ann = authority.identity("server"), authority.identity("ann")
    files = {
        "ssl_certificate_location": own.certificate, "ssl_key_location": own.key, "ssl_ca_location": authority.file
    }  # fmt: skip
    tls = ssl.create_default_context(cafile=str(authority.file))
    tls.load_cert_chain(ann.certificate, ann.key)
    with served(tmp_path, **files) as url, SqlClient(url, tls=tls) as client:
        assert client.execute("LIST STREAMS;")


def _streams(url: str, is_async: bool) -> dict[str, Any]:
    async def asked() -> dict[str, Any]:
        async with AsyncSqlClient(url) as client:
            (answer,) = await client.execute("LIST STREAMS;")
            return answer

    if is_async:
        return asyncio.run(asked())
    with SqlClient(url) as client:
        (answer,) = client.execute("LIST STREAMS;")
    return answer


def test_a_client_without_a_certificate_is_refused_where_one_is_needed(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca", "authority")
    own, ann = authority.identity("server"), authority.identity("ann")
    files = {
        "ssl_certificate_location": own.certificate, "ssl_key_location": own.key, "ssl_ca_location": authority.file
    }  # fmt: skip
    with served(tmp_path, **files) as url:
        trust = ssl.create_default_context(cafile=str(authority.file))
        with httpx2.Client(verify=trust) as client, pytest.raises(httpx2.HTTPError):
            client.get(f"{url}/info")
        trust.load_cert_chain(ann.certificate, ann.key)
        with httpx2.Client(verify=trust) as client:
            assert client.get(f"{url}/info").status_code == 200
