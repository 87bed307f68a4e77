"""`Herder`: what can be asked of a worker, by the REST interface, the command line or SQL."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence

from hayase.connect.config.config_def import ConfigDef
from hayase.connect.connector_parts import connector_class
from hayase.connect.connector_validation import ConfigInfos, ConnectorValidator, key_json, masked, unmasked
from hayase.connect.contracts import SinkConnector, SourceConnector
from hayase.connect.herder.connector_runner import ConnectorRunner
from hayase.connect.herder.environment import WorkerEnvironment
from hayase.connect.herder.offset_changes import OffsetChanges
from hayase.connect.herder.signals import send_signal
from hayase.connect.herder.states import (
    BadRequestError,
    ConflictError,
    NotFoundError,
    State,
    Status,
    TargetState,
)
from hayase.connect.herder.stores import ConfigStore, KeyedTopic, StatusStore, StoredConnector
from hayase.connect.herder.task_host import TaskHost
from hayase.connect.plugins import CONNECTOR_TYPES, PluginType
from hayase.core.errors import ConfigError

_END_S = 30.0
_NAME_BYTES_MAX = 240
Json = dict[str, object]


class Herder:
    """The connectors of a worker. Thread-safe.

    Args:
        env: of the worker.
        host: runs the tasks; default: threads of this process.

    Example:
        A herder begins with what the topic of configurations holds:

            herder = Herder(env)
            herder.start()
            herder.create({"name": "lines", "connector.class": "FileStreamSource", ...})
            herder.status("lines")
            herder.close()
    """

    def __init__(self, env: WorkerEnvironment, host: TaskHost | None = None) -> None:
        self.env = env
        self._host = host
        self.validator = ConnectorValidator(env.plugins, env.references, durable=env.durable, overrides=env.overrides)
        self._lock = threading.RLock()
        self._runners: dict[str, ConnectorRunner] = {}
        self._ending: dict[str, ConnectorRunner] = {}  # deleted; a new one of the name would be fenced by its end
        config, clock = env.config, env.clock
        self._configs = ConfigStore(KeyedTopic(env.log, config.string("config.storage.topic"), 1, clock), config.group)
        partitions = config.int("status.storage.partitions")
        self._statuses = StatusStore(
            KeyedTopic(env.log, config.string("status.storage.topic"), partitions, clock), clock
        )
        self._offsets = OffsetChanges(env)

    def start(self) -> None:
        """Start the connectors that the topic of configurations holds."""
        stored = self._configs.load()
        topics = self._statuses.load_topics()
        self.env.log.prepare_markers(self.env.config.group)
        for name, connector in stored.items():
            self._run(name, connector).topics.update(topics.get(name, ()))

    def close(self) -> None:
        """Stop all connectors; their configurations and offsets stay."""
        with self._lock:
            runners = list(self._runners.values())
        for runner in runners:
            runner.close()
        for runner in runners:
            runner.join(_END_S)
        self._configs.close()
        self._statuses.close()

    def _run(self, name: str, stored: StoredConnector) -> ConnectorRunner:
        runner = ConnectorRunner(name, stored, self.env, self._configs, self._statuses, self._host)
        self._runners[name] = runner
        runner.start()
        return runner

    def runner(self, name: str, unknown: str = "Connector {} not found") -> ConnectorRunner:
        """The runner of a connector; raises NotFoundError with that text."""
        with self._lock:
            found = self._runners.get(name)
        if found is None:
            raise NotFoundError("UNKNOWN_CONNECTOR", unknown.format(name))
        return found

    # configurations

    def connectors(self) -> list[str]:
        """Names of all connectors, sorted."""
        with self._lock:
            return sorted(self._runners)

    def info(self, name: str) -> Json:
        """Name, configuration, tasks and kind of a connector."""
        runner = self.runner(name)
        return {
            "name": name,
            "config": self.config(name),
            "tasks": [{"connector": name, "task": number} for number in range(len(runner.stored.tasks))],
            "type": self._kind(runner.stored.props),
        }

    def config(self, name: str) -> dict[str, str]:
        """The configuration of a connector: references unresolved, passwords hidden."""
        props = self.runner(name).stored.props
        return masked(props, self._definition(props))

    def create(self, props: Mapping[str, str], target: TargetState = TargetState.STARTED) -> Json:
        """Make a connector; waits for the end of one of that name that is being deleted.

        Raises:
            BadRequestError: its configuration is wrong; all errors are named, and nothing was made.
            ConflictError: there is one of that name, or one that does not end.
        """
        name = _checked_name(props)
        props = {**props, "name": name}
        self._check_free(name)
        self._check(props)
        self._wait_for_end(name)
        with self._lock:
            self._check_free(name)
            if name in self._ending:
                raise _is_ending(name)
            self._configs.put_connector(name, props, target)
            self._run(name, StoredConnector(dict(props), target))
        return {**self.info(name), "tasks": []}  # they come later, however soon

    def _check_free(self, name: str) -> None:
        with self._lock:
            if name in self._runners:
                raise ConflictError("CONNECTOR_EXISTS", f"Connector {name} already exists")

    def _wait_for_end(self, name: str) -> None:
        with self._lock:
            ending = self._ending.get(name)
        if ending is None:
            return
        if not ending.join(_END_S):
            raise _is_ending(name)
        with self._lock:
            if self._ending.get(name) is ending:
                del self._ending[name]

    def put_config(self, name: str, props: Mapping[str, str]) -> tuple[bool, Json]:
        """Make a connector or give it another configuration; whether it was made, and what it is now.

        A value `[hidden]` keeps the password that is stored.
        """
        given = dict(props)
        if given.setdefault("name", name) != name:
            raise _other_name(given["name"], name)
        if not self._change(name, lambda stored: unmasked(given, stored)):
            return True, self.create(given)
        return False, self.info(name)

    def _change(self, name: str, change: Callable[[Mapping[str, str]], dict[str, str]]) -> bool:
        """Give a connector another configuration, made of the one it has; `False`: there is no such connector."""
        while True:
            with self._lock:
                runner = self._runners.get(name)
            if runner is None:
                return False
            stored = runner.stored.props
            wanted = change(stored)
            self._check(wanted)
            with self._lock:
                # Meanwhile it may have been deleted, or changed by another request: then once more.
                if self._runners.get(name) is runner and runner.stored.props is stored:
                    self._configs.put_connector(name, wanted)
                    runner.reconfigure(wanted)
                    return True

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Json:
        """Change some keys of a configuration; `None` removes one (KIP-477)."""
        if (renamed := patch.get("name", name)) != name:
            raise _other_name(renamed, name)

        def change(stored: Mapping[str, str]) -> dict[str, str]:
            given: dict[str, str | None] = {**stored, **patch, "name": name}
            return unmasked({key: value for key, value in given.items() if value is not None}, stored)

        if not self._change(name, change):
            raise NotFoundError("UNKNOWN_CONNECTOR", f"Connector {name} not found")
        return self.info(name)

    def delete(self, name: str) -> None:
        """End a connector and forget it; its offsets stay. Returns when its tasks cannot write any longer."""
        with self._lock:
            runner = self.runner(name)
            self._configs.remove(name)
            self._ending[name] = self._runners.pop(name)
        runner.delete()
        if runner.join(_END_S):
            with self._lock:
                if self._ending.get(name) is runner:
                    del self._ending[name]

    def _check(self, props: Mapping[str, str]) -> None:
        infos = self.validate(props)
        if infos.error_count:
            errors = "\n".join(infos.errors())
            raise BadRequestError(
                "INVALID_CONFIGURATION",
                f"Connector configuration is invalid and contains the following {infos.error_count} error(s):\n{errors}"
                "\nYou can also find the above list of errors at the endpoint "
                "`/connector-plugins/{connectorType}/config/validate`",
            )

    def validate(self, props: Mapping[str, str]) -> ConfigInfos:
        """All keys of a configuration with their errors; raises BadRequestError where no class is given."""
        try:
            return self.validator.validate(props)
        except ConfigError as error:
            raise BadRequestError(error.condition, error.message) from error

    def validate_for(self, plugin: str, props: Mapping[str, str]) -> ConfigInfos:
        """As `validate`, of a configuration for a class that the request names."""
        named = props.get("connector.class")
        if named is not None:
            wanted = self._connector_name(plugin)
            if self._connector_name(named) != wanted:
                raise BadRequestError(
                    "CLASS_MISMATCH", f"Included connector type {named} does not match request type {plugin}"
                )
        return self.validate({**props, "connector.class": named or plugin})

    def _connector_name(self, name: str) -> str:
        try:
            return self.env.plugins.find(name, *CONNECTOR_TYPES).name
        except ConfigError:
            return name

    # states

    def status(self, name: str) -> Json:
        """The states of a connector and its tasks."""
        runner = self.runner(name, "No status found for connector {}")
        return {
            "name": name,
            "connector": _status_json(runner.status),
            "tasks": [{"id": task, **_status_json(status)} for task, status in sorted(runner.task_statuses.items())],
            "type": self._kind(runner.stored.props),
        }

    def tasks(self, name: str) -> list[Json]:
        """Ids and configurations of a connector's tasks."""
        runner = self.runner(name)
        definition = self._definition(runner.stored.props)
        return [
            {"id": {"connector": name, "task": number}, "config": masked(config, definition)}
            for number, config in enumerate(runner.stored.tasks)
        ]

    def task_status(self, name: str, task: int) -> Json:
        """The state of one task."""
        status = self.runner(name).task_statuses.get(task)
        if status is None:
            raise NotFoundError("UNKNOWN_TASK", f"No status found for task {name}-{task}")
        return {"id": task, **_status_json(status)}

    def set_target(self, name: str, target: TargetState) -> None:
        """Start, pause or stop a connector; returns before it has happened."""
        with self._lock:
            runner = self.runner(name, "Unknown connector {}")
            self._configs.put_target(name, target)
            runner.set_target(target)

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> Json:
        """Restart a connector, and its tasks if asked; the states that are shown meanwhile."""
        runner = self.runner(name, "Unknown connector: {}")
        tasks = {
            task
            for task, status in runner.task_statuses.items()
            if include_tasks and (not only_failed or status.state is State.FAILED)
        }
        runner.restart(connector=not only_failed or runner.status.state is State.FAILED, tasks=tasks)
        return self.status(name)

    def restart_task(self, name: str, task: int) -> None:
        """Restart one task."""
        runner = self.runner(name, "Unknown connector: {}")
        if task not in runner.task_statuses:
            raise NotFoundError("UNKNOWN_TASK", f"Unknown task: {name}-{task}")
        runner.restart(connector=False, tasks={task})

    # offsets

    def offsets(self, name: str) -> Json:
        """The offsets of a connector."""
        runner = self.runner(name)
        cls = connector_class(self.env.plugins, runner.stored.props)
        return {"offsets": self._offsets.of(name, cls, runner.stored.props)}

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, object]] | None) -> Json:
        """Set offsets of a stopped connector, or forget all (`None`).

        Args:
            name: of the connector.
            offsets: objects with `partition` and `offset`; an offset `None` is forgotten.

        Raises:
            BadRequestError: the connector is not stopped, or an offset is wrong; nothing was changed.
        """
        runner = self.runner(name)
        if offsets is not None and not offsets:
            raise BadRequestError("NO_OFFSETS", "Partitions / offsets need to be provided for an alter offsets request")
        with runner.working:
            if not runner.stopped:
                raise BadRequestError(
                    "NOT_STOPPED",
                    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done "
                    f"for the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint",
                )
            props = self.env.references.resolved(runner.stored.props)
            cls = connector_class(self.env.plugins, props)
            return {"message": self._offsets.change(name, cls, props, offsets)}

    # signals

    def signal(self, name: str, kind: str, data: Mapping[str, object]) -> Json:
        """Send a running connector a signal by its topic, as `execute-snapshot`; topic and id of the signal.

        Raises:
            BadRequestError: the connector reads no signals from a topic.
        """
        return send_signal(self.env, name, self.runner(name).stored.props, kind, data)

    # requests that connectors take

    def checks_signatures(self, name: str) -> bool:
        """Whether a connector refuses requests that are not signed."""
        with self._lock:
            runner = self._runners.get(name)
        if runner is None:
            return False
        props = runner.stored.props
        try:
            cls = connector_class(self.env.plugins, props)
        except ConfigError:  # a class of an earlier plugin.path, of which nothing runs
            return False
        return issubclass(cls, SourceConnector) and cls().checks_signatures(props)

    # topics

    def topics(self, name: str) -> Json:
        """The topics that a connector has used; none of one that is unknown."""
        self._check_tracking("topic.tracking.enable", "Topic tracking is disabled.")
        with self._lock:
            runner = self._runners.get(name)
        return {name: {"topics": [] if runner is None else sorted(runner.topics)}}

    def reset_topics(self, name: str) -> None:
        """Forget which topics a connector has used."""
        self._check_tracking("topic.tracking.enable", "Topic tracking is disabled.")
        self._check_tracking("topic.tracking.allow.reset", "Topic tracking reset is disabled.")
        runner = self.runner(name)
        topics = sorted(runner.topics)
        runner.topics.clear()
        self._statuses.remove_topics(name, topics)

    def _check_tracking(self, setting: str, text: str) -> None:
        if not self.env.config.bool(setting):
            error = NotFoundError("TOPIC_TRACKING_DISABLED", text)
            error.status = 403
            raise error

    # plug-ins

    def plugins(self, *, connectors_only: bool = True) -> list[Json]:
        """The plug-ins there are, with the guarantee of each connector."""
        types = CONNECTOR_TYPES if connectors_only else tuple(PluginType)
        return [
            {
                "class": plugin.name,
                "type": str(plugin.kind),
                "version": plugin.version,
                **self._guarantee(plugin.name, plugin.kind),
            }
            for plugin in self.env.plugins.of_type(*types)
        ]

    def _guarantee(self, name: str, kind: PluginType) -> Json:
        if kind is not PluginType.SINK:
            return {}
        cls = self.env.plugins.load(name, SinkConnector, kind)  # type: ignore[type-abstract] # a base class
        return {"delivery": str(cls.delivery)}

    def plugin_config(self, name: str) -> list[Json]:
        """The keys that a plug-in takes, without those that all of its kind take."""
        try:
            plugin = self.env.plugins.find(name, *PluginType)
        except ConfigError as error:
            raise NotFoundError("UNKNOWN_PLUGIN", f"Unknown plugin {name}.") from error
        return [key_json(key) for key in self.env.plugins.class_of(plugin).config().keys.values()]

    # all

    def metrics(self) -> dict[str, dict[int, dict[str, float]]]:
        """Metrics of all tasks, by connector and task."""
        with self._lock:
            runners = dict(self._runners)
        return {name: runner.metrics() for name, runner in runners.items()}

    def states(self) -> dict[str, tuple[str, dict[int, str]]]:
        """The state of each connector, and of its tasks."""
        with self._lock:
            runners = dict(self._runners)
        return {
            name: (
                str(runner.status.state),
                {task: str(each.state) for task, each in dict(runner.task_statuses).items()},
            )
            for name, runner in runners.items()
        }

    def _definition(self, props: Mapping[str, str]) -> ConfigDef:
        try:
            return connector_class(self.env.plugins, props).config()
        except ConfigError:
            return ConfigDef()

    def _kind(self, props: Mapping[str, str]) -> str:
        try:
            cls = connector_class(self.env.plugins, props)
        except ConfigError:
            return "unknown"
        return "source" if issubclass(cls, SourceConnector) else "sink"


def _status_json(status: Status) -> Json:
    found: Json = {"state": str(status.state), "worker_id": status.worker_id}
    if status.trace is not None:
        found["trace"] = status.trace
    if status.version is not None:
        found["version"] = status.version
    return found


def _checked_name(props: Mapping[str, str]) -> str:
    name = props.get("name", "").strip()
    if re.search(r"[\x00-\x1f\x7f-\x9f]", name):
        raise BadRequestError("INVALID_NAME", f"String may not contain control sequences: {name!r}")
    if len(name.encode(errors="replace")) > _NAME_BYTES_MAX:
        raise BadRequestError(
            "INVALID_NAME",
            f"the name has {len(name.encode(errors='replace'))} bytes in UTF-8; up to {_NAME_BYTES_MAX} are allowed, "
            "since names of tasks and consumer groups are made of it",
        )
    return name


def _other_name(given: str | None, name: str) -> BadRequestError:
    return BadRequestError(
        "NAME_MISMATCH", f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})"
    )


def _is_ending(name: str) -> ConflictError:
    return ConflictError("CONNECTOR_ENDING", f"a connector {name} was deleted and has not ended yet; try again later")
