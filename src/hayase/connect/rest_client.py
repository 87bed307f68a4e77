"""A client of a Connect worker's REST interface: of Hayase's worker, and of Kafka Connect."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from hayase.core.errors import ConfigError, HayaseError

_TIMEOUT_S = 90.0
_ADVICE = "Start one with `hayase connect`, or give --url"


class RestError(HayaseError):
    """A worker refused a request, or does not answer.

    Attributes:
        status: of the worker's answer; `None`: there was none.
    """

    def __init__(self, condition: str, message: str, *, status: int | None = None, **context: object) -> None:
        super().__init__(condition, message, **context)
        self.status = status


class RestClient:
    """Asks a worker of connectors. Thread-safe.

    Args:
        url: of its REST interface; may hold user and password.
        user: with a password, instead of those of the URL.
        timeout_s: how long an answer may take.
        setting: what holds the URL, for errors.
        advice: what to do when no worker answers.
    """

    def __init__(
        self,
        url: str,
        user: tuple[str, str] | None = None,
        *,
        timeout_s: float = _TIMEOUT_S,
        setting: str = "--url",
        advice: str = _ADVICE,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        self.url = urllib.parse.urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        if parts.scheme not in ("http", "https") or not host:
            raise ConfigError(
                "INVALID_SETTING", f"{setting} is {self.url!r}; give http://HOST:PORT or https://HOST:PORT"
            )
        if user is None and parts.username is not None:
            user = urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or "")
        self._headers = {"Accept": "application/json"}
        if user is not None:
            self._headers["Authorization"] = "Basic " + base64.b64encode(":".join(user).encode()).decode()
        self._timeout_s = timeout_s
        self._advice = advice

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The answer to a request; `None` where there is no body.

        Raises:
            RestError: `REST_REFUSED`, with the worker's text; `WORKER_AWAY`.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, **({} if data is None else {"Content-Type": "application/json"})}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                text = answer.read()
            return json.loads(text) if text.strip() else None
        except urllib.error.HTTPError as error:
            raise RestError("REST_REFUSED", _message(error), status=error.code) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise RestError("WORKER_AWAY", f"no worker answers at {self.url}: {reason}. {self._advice}") from error

    def names(self) -> list[str]:
        """Names of all connectors."""
        found: list[str] = self.ask("GET", "/connectors")
        return sorted(found)


def _message(error: urllib.error.HTTPError) -> str:
    text = error.read().decode(errors="replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {error.code}: {text[:200]}"


def path_of(name: str, *more: str) -> str:
    """The path of a connector, or of something of it."""
    return "/".join(["/connectors", urllib.parse.quote(name, safe=""), *more])
