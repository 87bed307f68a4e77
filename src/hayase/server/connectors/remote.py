"""Connectors of a Connect worker elsewhere, by its REST interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hayase.connect.rest_client import RestClient, RestError, path_of
from hayase.core.errors import ConfigError
from hayase.core.properties import parse_properties
from hayase.server.connectors.protocol import ConnectServiceError, Json, errors_of

_SETTING = "ksql.connect.url"
_NOT_FOUND, _SERVER_ERROR = 404, 500


@dataclass(frozen=True)
class RemoteConnect:
    """A `ConnectService` over the REST interface of Kafka Connect.

    Attributes:
        url: of the worker, or of one of a cluster.
        timeout_ms: how long an answer may take.
        credentials_file: properties `username` and `password`, read at each request; `None`: none are sent.
    """

    url: str
    timeout_ms: int
    credentials_file: Path | None = None

    def names(self) -> Sequence[str]:
        """See `ConnectService.names`."""
        return sorted(self._ask("GET", "/connectors"))

    def info(self, name: str) -> Json:
        """See `ConnectService.info`."""
        found: Json = self._ask("GET", path_of(name))
        return found

    def status(self, name: str) -> Json:
        """See `ConnectService.status`."""
        found: Json = self._ask("GET", path_of(name, "status"))
        return found

    def topics(self, name: str) -> Sequence[str]:
        """See `ConnectService.topics`; workers before Kafka 2.5 do not have it."""
        try:
            found = self._ask("GET", path_of(name, "topics"))
        except ConnectServiceError as error:
            if error.status == _SERVER_ERROR:
                raise
            return []
        return sorted(found[name]["topics"])

    def errors(self, config: Mapping[str, str]) -> Sequence[str]:
        """See `ConnectService.errors`."""
        plugin = quote(config["connector.class"], safe="")
        return errors_of(self._ask("PUT", f"/connector-plugins/{plugin}/config/validate", config))

    def create(self, config: Mapping[str, str]) -> Json:
        """See `ConnectService.create`."""
        made: Json = self._ask("POST", "/connectors", {"name": config["name"], "config": config})
        return made

    def delete(self, name: str) -> None:
        """See `ConnectService.delete`."""
        self._ask("DELETE", path_of(name))

    def plugins(self) -> Sequence[Json]:
        """See `ConnectService.plugins`."""
        found: Sequence[Json] = self._ask("GET", "/connector-plugins")
        return found

    def close(self) -> None:
        """Nothing: each request has a connection of its own."""

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        user = None if self.credentials_file is None else read_credentials(self.credentials_file)
        client = RestClient(
            self.url,
            user,
            timeout_s=self.timeout_ms / 1000,
            setting=_SETTING,
            advice=f"{_SETTING} says where it is",
        )
        try:
            return client.ask(method, path, body)
        except RestError as error:
            raise ConnectServiceError(error.status or _SERVER_ERROR, error.condition, error.message) from error


def read_credentials(file: Path) -> tuple[str, str]:
    """User and password of a properties file.

    Raises:
        ConfigError: it cannot be read, or does not hold both.
    """
    setting = "ksql.connect.basic.auth.credentials.file"
    try:
        given = parse_properties(file.expanduser().read_text(encoding="utf-8"), str(file))
    except OSError as error:
        raise ConfigError("INVALID_SETTING", f"{setting}: {file} cannot be read: {error.strerror}") from error
    if "username" not in given or "password" not in given:
        raise ConfigError("INVALID_SETTING", f"{setting}: {file} needs two lines, username=… and password=…")
    return given["username"], given["password"]
