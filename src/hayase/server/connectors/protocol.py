"""What statements about connectors need: `ConnectService`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hayase.server.errors import RequestError

Json = Mapping[str, Any]


class ConnectServiceError(RequestError):
    """A Connect worker refused a request, or does not answer.

    Attributes:
        status: of the worker's answer, as of HTTP.
    """

    def __init__(self, status: int, condition: str, message: str) -> None:
        super().__init__(status * 100, condition, message)
        self.status = status


class ConnectService(Protocol):
    """Connectors of a worker. Thread-safe; every method raises ConnectServiceError."""

    def names(self) -> Sequence[str]:
        """The names of all connectors."""
        ...

    def info(self, name: str) -> Json:
        """`name`, `config`, `tasks`, `type` of a connector."""
        ...

    def status(self, name: str) -> Json:
        """`name`, `connector`, `tasks`, `type`, with states."""
        ...

    def topics(self, name: str) -> Sequence[str]:
        """The topics that a connector has used; empty where the worker does not keep them."""
        ...

    def errors(self, config: Mapping[str, str]) -> Sequence[str]:
        """What is wrong with a configuration that names its class; empty: nothing."""
        ...

    def create(self, config: Mapping[str, str]) -> Json:
        """Make a connector of a configuration that holds its name; what `info` says then."""
        ...

    def delete(self, name: str) -> None:
        """End a connector and forget it."""
        ...

    def plugins(self) -> Sequence[Json]:
        """`class`, `type` and `version` of all classes of connectors."""
        ...

    def close(self) -> None:
        """Let go of everything; connectors of this process stop, and go on at the next start."""
        ...


def errors_of(infos: Json) -> list[str]:
    """The errors in a worker's answer to a validation, each with its key."""
    values = [config["value"] for config in infos["configs"]]
    return [f"{value['name']} - {'. '.join(value['errors'])}" for value in values if value["errors"]]
