"""Contracts of what all plug-ins have, of connectors and of tasks of either direction."""

from __future__ import annotations

import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

from hayase.connect.config.config_def import ConfigDef, ConfigValue

Props = Mapping[str, str]
"""A configuration: texts, with references to secrets resolved."""


class Versioned:
    """What has a version and a definition of its configuration."""

    def version(self) -> str:
        """Its version; shown by `/connector-plugins`."""
        return importlib.metadata.version("hayase")

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys it takes, apart from those that the worker defines for all of its kind."""
        return ConfigDef()


class ConnectorContext(Protocol):
    """What the worker does for a connector."""

    def request_task_reconfiguration(self) -> None:
        """Ask for `task_configs` to be called again, as when a table was added."""
        ...

    def raise_error(self, error: Exception) -> None:
        """Fail the connector from a thread of its own."""
        ...


class Connector(Versioned, ABC):
    """One configured connection to another system: it splits the work into tasks and watches for changes."""

    context: ConnectorContext

    def initialize(self, context: ConnectorContext) -> None:
        """Called once, before `start`."""
        self.context = context

    @abstractmethod
    def start(self, props: Props) -> None:
        """Begin with a configuration. Called once."""

    @abstractmethod
    def task_class(self) -> type[Task]:
        """The class of its tasks."""

    @abstractmethod
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One configuration for each task, at most `max_tasks`; empty: there is nothing to do."""

    @abstractmethod
    def stop(self) -> None:
        """Let go of everything; also after a `start` that failed."""

    def validate(self, props: Props) -> list[ConfigValue]:
        """Errors and recommendations of every key; the default asks the definition.

        Called on an object of its own, without `start`. It may look at the other system: the REST interface answers
        with what it finds before anything is started.
        """
        return self.config().validate(props)


class Task(Versioned, ABC):
    """A part of a connector's work, in one thread."""

    @abstractmethod
    def start(self, props: Props) -> None:
        """Begin with a configuration from `task_configs`. Called once."""

    @abstractmethod
    def stop(self) -> None:
        """End: let go of resources; also after a `start` that failed.

        May come more than once, and from another thread if a call does not return.
        """
