"""Which requests are refused at once: without a password, or from a web page in a browser of this machine."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from hayase.connect.rest.requests import error_answer
from hayase.core.properties import parse_properties

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Guard:
    """Refuses requests before they are looked at.

    Args:
        app: what is behind it.
        users: passwords by user; empty: all may ask.
        hosts: names by which the interface is reached; empty: any. A web page whose name was turned to point to this
            machine asks under its own name.
        needs_no_password: whether requests to a path are let in without one.
    """

    def __init__(
        self,
        app: ASGIApp,
        users: Mapping[str, str],
        hosts: Collection[str] = (),
        needs_no_password: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._app = app
        self._needs_no_password = needs_no_password
        self._users = {user.encode(): password.encode() for user, password in users.items()}
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401 or 403."""
        if scope["type"] == "http":
            # The path as it was sent: a name may have a slash, which is encoded there.
            scope = {**scope, "path": scope["raw_path"].decode("ascii", "replace")}
            headers = Headers(scope=scope)
            if self._foreign(headers):
                await error_answer(403, "the request comes from a web page of another origin")(scope, receive, send)
                return
            known = not self._users or self._known(headers.get("authorization", ""))
            if not known and not self._needs_no_password(scope["path"]):
                refused = error_answer(401, "User cannot access the resource.")
                refused.headers["WWW-Authenticate"] = 'Basic realm="connect"'
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _foreign(self, headers: Headers) -> bool:
        host = headers.get("host", "")
        if self._hosts and (urlsplit(f"//{host}").hostname or "").lower() not in self._hosts:
            return True
        origin = headers.get("origin")
        return origin is not None and urlsplit(origin).netloc.lower() != host.lower()

    def _known(self, authorization: str) -> bool:
        scheme, _, encoded = authorization.partition(" ")
        try:
            user, _, password = base64.b64decode(encoded, validate=True).partition(b":")
        except binascii.Error:
            return False
        expected = self._users.get(user, b"")
        same = hmac.compare_digest(password, expected)
        return scheme.lower() == "basic" and user in self._users and same


def read_users(file: str | None) -> dict[str, str]:
    """Users and passwords of `rest.basic.auth.file`."""
    if file is None:
        return {}
    return parse_properties(Path(file).expanduser().read_text(encoding="utf-8"), file)


def loopback_hosts(hosts: Collection[str]) -> tuple[str, ...]:
    """The names that a request must use, where all listeners are on loopback; else any."""
    return _LOOPBACK if all(host in _LOOPBACK for host in hosts) else ()
