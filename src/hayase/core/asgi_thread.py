"""An HTTP server for an ASGI application, in a thread of its own with an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_STOP_S = 10.0
_LINGER_S = 1.0
"""For answers on their way. A client that keeps an idle connection of HTTP/2 and does not read from it never closes
it."""
_NATIVE_END_S = 0.25
"""The server's native threads end a moment after it. One that is still there when Python ends aborts the process."""
_LOOK_S = 0.02
_BACKLOG = 1024
_CONNECTIONS_MAX = 4096
_FILES_SHARE = 2
"""A connection needs a file descriptor; so does all else in the process."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of a listener with TLS.

    Attributes:
        certificate: and those of the authorities between.
        key: of the certificate; `None`: it is in the same file.
        client_authority: whose certificate a client must show; `None`: it need not show any.
    """

    certificate: str | Path
    key: str | Path | None = None
    client_authority: str | Path | None = None


class AsgiThread:
    """Serves an application on a socket: HTTP/1.1, HTTP/2 with and without TLS, WebSocket.

    Args:
        bound: bound to its address; the server takes it.
        name: of the thread.
        tls: `None`: plain HTTP.
        threads: for what the application gives to threads; `None`: what asyncio takes.
        grace_s: how long requests at work may take when the server stops.
    """

    def __init__(
        self,
        bound: socket.socket,
        name: str,
        *,
        tls: TlsFiles | None = None,
        threads: int | None = None,
        grace_s: float = 1.0,
    ) -> None:
        self._host, self._port = bound.getsockname()[:2]
        shown = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"{'http' if tls is None else 'https'}://{shown}:{self._port}"
        """Where it answers."""
        self._socket = bound
        self._name = name
        self._tls = tls
        self._threads = threads
        self._grace_s = grace_s
        self._loop = asyncio.new_event_loop()
        self._server: Any = None
        self._requests: set[asyncio.Task[Any]] = set()
        self._serving: asyncio.Future[Any] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None

    def start(self, app: Any) -> None:
        """Begin to answer for an application; a connection that comes a moment earlier waits.

        Raises:
            Exception: files of TLS cannot be read; the server says which.
        """
        self._server = self._made(self._tracked(app))
        self._socket.listen(_BACKLOG)
        self._socket.setblocking(False)
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], object]) -> None:
        """Do something in the event loop; nothing where it has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work)

    def close(self) -> None:
        """Stop answering. Calling it again does nothing."""
        if self._thread is None:
            self._socket.close()
            self._loop.close()
        elif self._thread.is_alive():
            self.call(self._stop)
            self._thread.join(_STOP_S + self._grace_s)

    def _tracked(self, app: Any) -> Any:
        """The application, whose requests can be ended."""

        async def tracked(scope: Any, receive: Any, send: Any) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._requests.add(task)
            try:
                await app(scope, receive, send)
            finally:
                self._requests.discard(task)

        return tracked

    def _stop(self) -> None:
        if self._ending is None:
            self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        """Take no more requests, give those at work their time, then leave connections that are still open."""
        self._server.stop()
        until = self._loop.time() + self._grace_s
        while self._requests and self._loop.time() < until:
            await asyncio.sleep(_LOOK_S)
        for task in self._requests:
            task.cancel()
        left = [*self._requests] if self._serving is None else [*self._requests, self._serving]
        if left:
            await asyncio.wait(left, timeout=_LINGER_S)
        if self._serving is not None:
            self._serving.cancel()

    async def _serve(self) -> None:
        self._serving = asyncio.ensure_future(self._server.serve())
        with contextlib.suppress(asyncio.CancelledError):
            await self._serving
        if self._ending is not None:  # the server leaves what is at work to itself
            await self._ending

    def _made(self, app: Any) -> Any:
        """The server; it is given the socket, because it would bind one that a second server can bind as well."""
        from granian import net
        from granian.constants import Interfaces
        from granian.server.embed import Server

        bound = self._socket
        holder_of: Any = vars(net)["SocketHolder"]  # granian's stubs do not have how one is made

        class OnSocket(Server):
            def _init_shared_socket(self) -> None:
                holder = holder_of(bound.detach(), False, _BACKLOG)
                vars(self).update(_ssp=None, _shd=holder, _sfd=holder.get_fd())

        tls = self._tls
        return OnSocket(
            app,
            address=self._host,
            port=self._port,
            interface=Interfaces.ASGINL,
            backpressure=_connections_max(),
            log_enabled=False,
            ssl_cert=None if tls is None else Path(tls.certificate),
            ssl_key=None if tls is None else Path(tls.key or tls.certificate),
            ssl_ca=None if tls is None or tls.client_authority is None else Path(tls.client_authority),
            ssl_client_verify=tls is not None and tls.client_authority is not None,
        )

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        if self._threads is not None:
            self._loop.set_default_executor(ThreadPoolExecutor(self._threads, "hayase-request"))
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._server = None  # it holds the socket
            self._loop.close()
            time.sleep(_NATIVE_END_S)


def _connections_max() -> int:
    """How many connections may be open: those beyond wait until others are closed, also where these are idle."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _CONNECTIONS_MAX if files == resource.RLIM_INFINITY else min(_CONNECTIONS_MAX, files // _FILES_SHARE)
