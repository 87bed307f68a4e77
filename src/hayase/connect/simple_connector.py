"""What most connectors are: they keep their configuration and give each task a copy of it."""

from __future__ import annotations

from typing import ClassVar

from hayase.connect.contracts import Connector, Props


class SimpleConnector(Connector):
    """A connector whose tasks get its own configuration; to be named before `SourceConnector` or `SinkConnector`.

    Attributes:
        one_task: whether there is one task, however many are allowed.

    Example:
        A sink that has only to name its keys and its task:

            class LinesSink(SimpleConnector, SinkConnector):
                @classmethod
                def config(cls) -> ConfigDef:
                    return ConfigDef().define("file", ConfigType.STRING)

                def task_class(self) -> type[SinkTask]:
                    return LinesSinkTask
    """

    one_task: ClassVar[bool] = False

    def start(self, props: Props) -> None:
        """See `Connector.start`."""
        self.props = dict(props)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """See `Connector.task_configs`."""
        return [dict(self.props) for _ in range(1 if self.one_task else max_tasks)]

    def stop(self) -> None:
        """See `Connector.stop`."""
