"""Checks of every request before it is read: its host, its origin, its user, its size."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hayase.app.http_server import is_allowed_host
from hayase.server.errors import BODY_TOO_LARGE, FORBIDDEN, MISDIRECTED, RequestError
from hayase.server.http.errors import error_response, unauthenticated
from hayase.server.security.users import Role, User, Users, check_role
from hayase.server.settings import ServerSettings

_USER = "hayase.user"
_STREAMED = frozenset({"/inserts-stream"})
_POLICY_VIOLATION = 1008
_NAMES_KEPT = 64
"""So many spellings of the server's own names are known without looking at them again."""


class AccessChecks:
    """Refuses requests that may not be served (an ASGI middleware).

    A foreign Host or Origin is refused on loopback too: a page of another site, which a browser on this machine shows,
    could call the server otherwise.

    Args:
        app: what serves the others.
        settings: of the server.
        users: with their roles; `None`: every request may do everything.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, users: Users | None) -> None:
        self._app = app
        self._settings = settings
        self._users = users
        self._own_names: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        try:
            self._check_place(headers)
        except RequestError as error:
            await _refuse(scope, receive, send, error)
            return
        if self._users is not None and scope["path"] not in self._settings.skipped_paths:
            user = await self._user(headers, scope)
            if user is None:
                await _ask_for_user(scope, receive, send, self._settings.realm)
                return
            scope[_USER] = user
        if scope["type"] == "http" and scope["path"] not in _STREAMED:
            await self._bounded(scope, receive, send, headers)
        else:
            await self._app(scope, receive, send)

    def _check_place(self, headers: Mapping[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        settings = self._settings
        if host and not self._is_own(host):
            raise RequestError(
                MISDIRECTED,
                "FOREIGN_HOST",
                f"The server is not {host!r}: call it by the name that it listens at, or name that one in "
                "hayase.server.allowed.hosts",
            )
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin not in settings.allowed_origins and urlsplit(origin).netloc != host:
            raise RequestError(
                FORBIDDEN,
                "FOREIGN_ORIGIN",
                f"Pages of {origin!r} may not call the server: name them in access.control.allow.origin",
            )

    def _is_own(self, host: str) -> bool:
        if host in self._own_names:
            return True
        is_own = is_allowed_host(host, self._settings.listener.host, self._settings.allowed_hosts)
        if is_own and len(self._own_names) < _NAMES_KEPT:
            self._own_names.add(host)
        return is_own

    async def _user(self, headers: Mapping[bytes, bytes], scope: Scope) -> User | None:
        assert self._users is not None
        kind, _, text = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if kind.lower() != "basic":
            return None
        try:
            name, _, password = base64.b64decode(text.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        return await asyncio.to_thread(self._users.check, name, password)

    async def _bounded(self, scope: Scope, receive: Receive, send: Send, headers: Mapping[bytes, bytes]) -> None:
        """Serve a request whose body may have so many bytes only."""
        limit = self._settings.max_body_bytes
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > limit:
            await _refuse(scope, receive, send, _too_large(limit))
            return
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body") or b"")
            if size > limit:
                raise _too_large(limit)
            return message

        await self._app(scope, counted, send)


def role_of(scope: Scope) -> Role:
    """What the user of a request may do; everything where users are not asked for."""
    user = scope.get(_USER)
    return user.role if isinstance(user, User) else Role.ADMIN


def require_role(scope: Scope, role: Role) -> None:
    """Refuse a request of a user with less rights; raises RequestError."""
    check_role(role_of(scope), role)


def _too_large(limit: int) -> RequestError:
    return RequestError(
        BODY_TOO_LARGE,
        "BODY_TOO_LARGE",
        f"The body of the request has more than {limit} bytes, which hayase.server.max.body.bytes allows",
    )


async def _refuse(scope: Scope, receive: Receive, send: Send, error: RequestError) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": error.condition})
        return
    await error_response(error)(scope, receive, send)


async def _ask_for_user(scope: Scope, receive: Receive, send: Send, realm: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": "Unauthorized"})
        return
    await unauthenticated(realm)(scope, receive, send)
