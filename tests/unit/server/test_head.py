"""HEAD: the answer to GET without its body, over both versions of HTTP."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from tests.unit.server.command_servers import listening_server_in


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
def test_an_answer_to_head_has_the_headers_of_get_and_no_body(tmp_path: Path, http2: bool) -> None:
    with listening_server_in(tmp_path) as context, httpx2.Client(http1=not http2, http2=http2) as client:
        url = f"{context.settings.listener.url}/info"
        head, get = client.head(url), client.get(url)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(get.content))
