"""Requests to the REST interface: bodies, parameters, and answers with errors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from hayase.connect.exceptions import ConnectError
from hayase.connect.herder.states import BadRequestError, HerderError
from hayase.connect.request_body import read_body
from hayase.core.errors import ConfigError, HayaseError

_LOG = logging.getLogger(__name__)
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Call:
    """A request, as handlers get it.

    Attributes:
        path: parameters of the path.
        query: parameters behind the question mark; the last one of a name.
        repeated: all of them.
        body: the JSON that was sent; `None`: none.
    """

    path: Mapping[str, str]
    query: Mapping[str, str]
    repeated: Mapping[str, list[str]]
    body: object

    def flag(self, name: str, default: bool = False) -> bool:
        """A parameter that is true or false."""
        return self.query.get(name, str(default)).strip().lower() == "true"

    @property
    def name(self) -> str:
        """The connector that the path names."""
        return self.path["name"]

    @property
    def task(self) -> int:
        """The task that the path names; raises NotFoundError."""
        text = self.path["task"]
        if not text.isdecimal():
            raise BadRequestError("INVALID_TASK", f"a task is a number from 0 on, not {text!r}")
        return int(text)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler gives.

    Attributes:
        body: as JSON; `None` with a status of 204 or 202: nothing.
        status: of HTTP.
        location: of what was made.
    """

    body: object = None
    status: int = 200
    location: str | None = None


Handler = Callable[[Call], Answer]


def endpoint(handler: Handler, max_bytes: int) -> Callable[[Request], Awaitable[Response]]:
    """A Starlette endpoint that reads the body, calls a handler in a thread, and answers with JSON."""

    async def answer(request: Request) -> Response:
        try:
            body = await _body(request, max_bytes)
            pairs = list(request.query_params.multi_items())
            repeated: dict[str, list[str]] = {}
            for key, value in pairs:
                repeated.setdefault(key, []).append(value)
            path = {name: unquote(value) for name, value in request.path_params.items()}
            call = Call(path, dict(pairs), repeated, body)
            given = await run_in_threadpool(handler, call)
        except HerderError as error:
            return error_answer(error.status, error.message)
        except (ConfigError, ConnectError) as error:
            return error_answer(400, error.message)
        except HayaseError as error:
            _LOG.warning("%s %s: %s", request.method, request.url.path, error)
            return error_answer(500, error.message)
        except Exception:  # a fault of ours: the client gets no details
            _LOG.exception("%s %s failed", request.method, request.url.path)
            return error_answer(500, "the request failed; the worker's log says why")
        return json_answer(given)

    return answer


def json_answer(given: Answer) -> Response:
    """The response of an answer."""
    headers = {} if given.location is None else {"Location": given.location}
    if given.body is None:
        return Response(status_code=given.status, headers=headers)
    return Response(msgspec.json.encode(given.body), given.status, headers, media_type=JSON)


def error_answer(status: int, message: str) -> Response:
    """An error, as clients of Kafka Connect read it."""
    return json_answer(Answer({"error_code": status, "message": message}, status))


async def _body(request: Request, max_bytes: int) -> object:
    data = await read_body(request, max_bytes)
    if data is None:
        error = BadRequestError("BODY_TOO_LARGE", f"the body has more than rest.request.max.bytes={max_bytes}")
        error.status = 413
        raise error
    if not data.strip():
        return None
    if request.headers.get("content-type", JSON).partition(";")[0].strip().lower() != JSON:
        error = BadRequestError("UNSUPPORTED_MEDIA_TYPE", "HTTP 415 Unsupported Media Type")
        error.status = 415
        raise error
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise BadRequestError("INVALID_JSON", f"the body is no JSON: {error}") from error


def props_of(body: object, what: str = "the body") -> dict[str, str]:
    """A configuration in a body: numbers and booleans become text, nulls are left out."""
    return {name: value for name, value in patch_of(body, what).items() if value is not None}


def patch_of(body: object, what: str = "the body") -> dict[str, str | None]:
    """As `props_of`, but nulls stay."""
    if not isinstance(body, dict):
        raise BadRequestError("INVALID_BODY", f"{what} must be an object of keys and values")
    return {str(name): _text(name, value) for name, value in body.items()}


def _text(name: object, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    raise BadRequestError("INVALID_BODY", f"the value of {name} must be a text, a number or a boolean")
