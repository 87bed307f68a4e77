"""The client for asyncio."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any

import httpx2

from hayase.client import protocol
from hayase.client.errors import error_of, unreachable
from hayase.client.protocol import DEFAULT_URL, STREAMED_ROWS, FinalMessage, Header, Row

_NO_READ_LIMIT = httpx2.Timeout(10.0, read=None)


class AsyncSqlClient:
    """Talks to a server, with one pool of connections.

    Args:
        url: of the server.
        user: for basic authentication.
        password: of the user.
        properties: settings for all statements and queries, as SET does it.
        variables: for `${name}` in statements.
        timeout_s: how long an answer may take; rows of a query may take any time.
        http2: use HTTP/2; clear text by prior knowledge.
        tls: what is trusted, and the certificate of the client where the server asks for one; by default the system's
            authorities are trusted, or those of the file that the environment's `SSL_CERT_FILE` names.
        transport: instead of a connection, for tests.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        user: str | None = None,
        password: str | None = None,
        properties: Mapping[str, object] | None = None,
        variables: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
        http2: bool = False,
        tls: ssl.SSLContext | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.properties = dict(properties or {})
        self.variables = dict(variables or {})
        self._sequence_number: int | None = None
        auth = None if user is None else httpx2.BasicAuth(user, password or "")
        self._http = httpx2.AsyncClient(
            base_url=self.url,
            auth=auth,
            timeout=timeout_s,
            http1=not http2,
            http2=http2,
            verify=protocol.trusted(tls),
            transport=transport,
            trust_env=False,
        )

    async def execute(self, text: str, properties: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
        """Execute statements, all but SELECT and PRINT.

        Args:
            text: the statements, each with a semicolon.
            properties: settings over those of the client.

        Returns:
            The answer of each statement that has one; `@type` says which it is.

        Raises:
            SqlServerError: a statement was refused; those before it are executed.
        """
        body = protocol.statement_body(
            text, {**self.properties, **(properties or {})}, self.variables, self._sequence_number
        )
        answers: list[dict[str, Any]] = await self._call("POST", "/ksql", json=body)
        self._sequence_number = protocol.last_sequence_number(answers, self._sequence_number)
        return answers

    async def query(self, text: str, properties: Mapping[str, object] | None = None) -> AsyncRows:
        """Start a pull or push query. Close what is returned, or read it to its end.

        Args:
            text: one SELECT statement.
            properties: settings over those of the client.

        Raises:
            SqlServerError: the query was refused.
        """
        body = protocol.query_body(text, {**self.properties, **(properties or {})}, self.variables)
        request = self._http.build_request(
            "POST", "/query-stream", json=body, headers={"accept": STREAMED_ROWS}, timeout=_NO_READ_LIMIT
        )
        try:
            response = await self._http.send(request, stream=True)
            if response.status_code != 200:
                await response.aread()
                raise error_of(_json(response), response.status_code)
            return await AsyncRows.of(response)
        except httpx2.TransportError as error:
            raise unreachable(self.url, error) from error

    async def insert(
        self, target: str, rows: Iterable[Mapping[str, Any]], properties: Mapping[str, object] | None = None
    ) -> int:
        """Write rows to a stream or table.

        Args:
            target: the stream or table.
            rows: values by the names of columns.
            properties: settings over those of the client.

        Returns:
            How many were written.

        Raises:
            SqlServerError: a row was refused; those before it are written.
        """
        body = protocol.inserts_body(target, rows, {**self.properties, **(properties or {})})
        response = await self._send("POST", "/inserts-stream", content=body)
        if response.status_code != 200:
            raise error_of(_json(response), response.status_code)
        return protocol.acknowledged(response.text.splitlines())

    async def print_topic(self, text: str) -> AsyncIterator[str]:
        """The lines of a PRINT statement, as they come.

        Args:
            text: the statement.

        Raises:
            SqlServerError: it was refused.
        """
        body = protocol.statement_body(text, self.properties, self.variables, None)
        try:
            async with self._http.stream("POST", "/query", json=body, timeout=_NO_READ_LIMIT) as response:
                if response.status_code != 200:
                    await response.aread()
                    raise error_of(_json(response), response.status_code)
                async for line in response.aiter_lines():
                    if line:
                        yield line
        except httpx2.TransportError as error:
            raise unreachable(self.url, error) from error

    async def close_query(self, query_id: str) -> None:
        """End a push query, which may be another client's.

        Raises:
            SqlServerError: there is no query of that id.
        """
        await self._call("POST", "/close-query", json={"queryId": query_id})

    async def info(self) -> dict[str, Any]:
        """Version, ids and state of the server."""
        answer: dict[str, Any] = (await self._call("GET", "/info"))["KsqlServerInfo"]
        return answer

    async def is_valid_property(self, name: str) -> bool:
        """Whether SET takes a setting; raises SqlServerError where it does not, with the reason."""
        return bool(await self._call("GET", f"/is_valid_property/{name}"))

    async def close(self) -> None:
        """Close all connections, which ends the queries that run over them."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncSqlClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _send(self, method: str, path: str, **content: Any) -> httpx2.Response:
        try:
            return await self._http.request(method, path, **content)
        except httpx2.TransportError as error:
            raise unreachable(self.url, error) from error

    async def _call(self, method: str, path: str, **content: Any) -> Any:
        response = await self._send(method, path, **content)
        if response.status_code != 200:
            raise error_of(_json(response), response.status_code)
        return _json(response)


class AsyncRows:
    """The rows of a query, as they come.

    Attributes:
        header: columns and id of the query.
        final_message: why the rows have ended, where the server says it.
    """

    def __init__(self, response: httpx2.Response) -> None:
        self.header: Header
        self.final_message: str | None = None
        self._response = response
        self._lines = response.aiter_lines()

    @classmethod
    async def of(cls, response: httpx2.Response) -> AsyncRows:
        """The rows of a response whose header has been read."""
        rows = cls(response)
        try:
            rows.header = await rows._read_header()
        except BaseException:
            await response.aclose()
            raise
        return rows

    @property
    def query_id(self) -> str:
        """For `close_query`."""
        return self.header.query_id

    async def __aiter__(self) -> AsyncIterator[Row]:
        try:
            async for line in self._lines:
                item = protocol.read_line(line, self.header)
                if isinstance(item, Row):
                    yield item
                elif isinstance(item, FinalMessage):
                    self.final_message = item.text
        except httpx2.TransportError as error:
            raise unreachable(str(self._response.url), error) from error
        finally:
            await self.close()

    async def close(self) -> None:
        """End the query; calling it again does nothing."""
        await self._response.aclose()

    async def __aenter__(self) -> AsyncRows:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _read_header(self) -> Header:
        async for line in self._lines:
            item = protocol.read_line(line, None)
            if isinstance(item, Header):
                return item
        raise error_of("the answer has no header", self._response.status_code)


def _json(response: httpx2.Response) -> Any:
    try:
        return response.json() if response.content else None
    except ValueError:
        return response.text
