"""A small schema registry in this process, on loopback, for tests: Confluent's REST protocol.

It holds schemas in memory. Compatibility levels are stored but nothing is compared under them, except that a subject
keeps to one kind of schema: what may follow what is the business of a real registry.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import unquote, urlsplit

from hayase.core.objects import JsonObject

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_Answer = tuple[int, object]


class SchemaRegistryServer:
    """A schema registry on loopback, for as long as the `with` block runs.

    Args:
        user_info: `user:password` that every request must carry; `None`: none is needed.
        certificate, key: PEM files, for https; `None`: http.

    Attributes:
        requests: method and path of each request, in order.

    Example:
        >>> from hayase import SchemaRegistry
        >>> with SchemaRegistryServer() as server:
        ...     SchemaRegistry(server.url).subjects()
        []
    """

    def __init__(
        self, *, user_info: str | None = None, certificate: Path | None = None, key: Path | None = None
    ) -> None:
        self.requests: list[str] = []
        self._state = _State()
        self._expected = None if user_info is None else "Basic " + base64.b64encode(user_info.encode()).decode()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._answer))
        self._http.daemon_threads = True
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """The address to give to clients."""
        host = "localhost" if self._scheme == "https" else "127.0.0.1"
        return f"{self._scheme}://{host}:{self._http.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _answer(self, method: str, target: str, body: JsonObject, authorization: str | None) -> _Answer:
        path = urlsplit(target).path
        self.requests.append(f"{method} {path}")
        if self._expected is not None and authorization != self._expected:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        return self._state.answer(method, [unquote(part) for part in path.strip("/").split("/")], body)


class _State:
    """Subjects and their schemas."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[str, int] = {}
        self._schemas: dict[int, dict[str, object]] = {}
        self._subjects: dict[str, dict[int, int]] = {}
        self._levels: dict[str | None, str] = {None: "BACKWARD"}

    def answer(self, method: str, path: list[str], body: JsonObject) -> _Answer:
        with self._lock:
            match method, path:
                case "GET", ["subjects"]:
                    return 200, sorted(self._subjects)
                case "GET", ["schemas", "ids", number]:
                    return self._by_id(number)
                case "GET", ["subjects", subject, "versions"]:
                    return (200, sorted(self._subjects[subject])) if subject in self._subjects else _no_subject(subject)
                case "GET", ["subjects", subject, "versions", version]:
                    return self._version(subject, version)
                case "POST", ["subjects", subject, "versions"]:
                    return self._register(subject, body)
                case "POST", ["subjects", subject]:
                    return self._lookup(subject, body)
                case "DELETE", ["subjects", subject]:
                    versions = self._subjects.pop(subject, None)
                    return _no_subject(subject) if versions is None else (200, sorted(versions))
                case "POST", ["compatibility", "subjects", subject, "versions", _]:
                    return 200, {"is_compatible": self._same_kind(subject, body)}
                case _, ["config", *rest]:
                    return self._config(method, rest[0] if rest else None, body)
        return 404, {"error_code": 404, "message": f"there is no {method} /{'/'.join(path)}"}

    def _by_id(self, number: str) -> _Answer:
        content = self._schemas.get(int(number))
        return (404, {"error_code": 40403, "message": "Schema not found"}) if content is None else (200, content)

    def _version(self, subject: str, version: str) -> _Answer:
        versions = self._subjects.get(subject)
        if not versions:
            return _no_subject(subject)
        number = max(versions) if version in ("latest", "-1") else int(version)
        if number not in versions:
            return 404, {"error_code": 40402, "message": f"Version {version} not found."}
        return 200, self._registered(subject, number)

    def _registered(self, subject: str, version: int) -> dict[str, object]:
        number = self._subjects[subject][version]
        return {"subject": subject, "version": version, "id": number, **self._schemas[number]}

    def _register(self, subject: str, body: JsonObject) -> _Answer:
        problem = _problem(body)
        if problem:
            return 422, {"error_code": 42201, "message": f"Invalid schema: {problem}"}
        if not self._same_kind(subject, body):
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible with an earlier schema"}
        number = self._ids.setdefault(_identity(body), len(self._ids) + 1)
        self._schemas[number] = _content(body)
        versions = self._subjects.setdefault(subject, {})
        if number not in versions.values():
            versions[max(versions, default=0) + 1] = number
        return 200, {"id": number}

    def _lookup(self, subject: str, body: JsonObject) -> _Answer:
        versions = self._subjects.get(subject)
        if versions is None:
            return _no_subject(subject)
        number = self._ids.get(_identity(body))
        for version, each in versions.items():
            if each == number:
                return 200, self._registered(subject, version)
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def _same_kind(self, subject: str, body: JsonObject) -> bool:
        kinds = {self._schemas[each].get("schemaType", "AVRO") for each in self._subjects.get(subject, {}).values()}
        return not kinds or kinds == {body.get("schemaType", "AVRO")}

    def _config(self, method: str, subject: str | None, body: JsonObject) -> _Answer:
        if method == "PUT":
            self._levels[subject] = body["compatibility"]
            return 200, {"compatibility": body["compatibility"]}
        if subject not in self._levels:
            message = f"Subject '{subject}' does not have subject-level compatibility configured"
            return 404, {"error_code": 40408, "message": message}
        return 200, {"compatibilityLevel": self._levels[subject]}


def _no_subject(subject: str) -> _Answer:
    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}


def _problem(body: JsonObject) -> str:
    """What is wrong with a schema: that it is no JSON where it must be some."""
    text = body.get("schema")
    if not text:
        return "there is none"
    if body.get("schemaType", "AVRO") == "PROTOBUF":
        return ""
    try:
        json.loads(text)
    except ValueError as error:
        return str(error)
    return ""


def _content(body: JsonObject) -> dict[str, object]:
    content = {"schema": body["schema"], "references": body.get("references") or []}
    return content if body.get("schemaType", "AVRO") == "AVRO" else {**content, "schemaType": body["schemaType"]}


def _identity(body: JsonObject) -> str:
    text = body.get("schema", "")
    if body.get("schemaType", "AVRO") != "PROTOBUF":
        text = json.dumps(json.loads(text), separators=(",", ":"))  # white space makes no other schema
    else:
        text = re.sub(r"\s+", " ", text.strip())
    return json.dumps([body.get("schemaType", "AVRO"), text, body.get("references") or []])


def _handler(answer: Callable[[str, str, JsonObject, str | None], _Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body: JsonObject = json.loads(self.rfile.read(length)) if length else {}
            status, content = answer(self.command, self.path, body, self.headers.get("Authorization"))
            data = json.dumps(content).encode()
            self.send_response(status, HTTPStatus(status).phrase)
            self.send_header("Content-Type", _CONTENT_TYPE)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815 - the names that http.server looks for

        def log_message(self, *_: object) -> None:
            """Not on stderr."""

    return Handler
