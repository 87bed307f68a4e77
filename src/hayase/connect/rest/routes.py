"""Paths of the REST interface, each with what it calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from urllib.parse import quote

from starlette.routing import Route

from hayase.connect.herder.herder import Herder
from hayase.connect.herder.states import BadRequestError, NotFoundError, TargetState
from hayase.connect.rest.loggers import all_loggers, one_logger, set_logger
from hayase.connect.rest.requests import Answer, Call, Handler, endpoint, patch_of, props_of

_ACCEPTED = Answer(status=202)
_NO_CONTENT = Answer(status=204)


def routes(herder: Herder, root: Callable[[], dict[str, object]], max_bytes: int) -> list[Route]:
    """All paths.

    Args:
        herder: answers.
        root: the answer of `/`.
        max_bytes: of a body.
    """
    tables = (
        _worker(root), _connectors(herder), _states(herder), _offsets(herder), _signals(herder), _plugins(herder),
        _loggers(),
    )  # fmt: skip
    return [
        Route(path, endpoint(handler, max_bytes), methods=[method], name=f"{method} {path}")
        for table in tables
        for (method, path), handler in table.items()
    ]


_Table = dict[tuple[str, str], Handler]


def _worker(root: Callable[[], dict[str, object]]) -> _Table:
    healthy = {"status": "healthy", "message": "Worker has completed startup and is ready to handle requests."}
    return {("GET", "/"): lambda call: Answer(root()), ("GET", "/health"): lambda call: Answer(healthy)}


def _connectors(herder: Herder) -> _Table:
    def create(call: Call) -> Answer:
        body = call.body
        if not isinstance(body, dict):
            raise BadRequestError("INVALID_BODY", "the body must be an object with name and config")
        props = props_of(body.get("config"), "config")
        name = body.get("name") or props.get("name", "")
        if props.setdefault("name", str(name)) != name:
            raise BadRequestError(
                "NAME_MISMATCH",
                f"Connector name configuration ({props['name']}) doesn't match connector name in the URL ({name})",
            )
        made = herder.create(props, _initial_state(body.get("initial_state")))
        return Answer(made, 201, f"/connectors/{quote(str(made['name']), safe='')}")

    def put_config(call: Call) -> Answer:
        made, info = herder.put_config(call.name, props_of(call.body))
        location = f"/connectors/{quote(call.name, safe='')}"
        return Answer(info, 201, location) if made else Answer(info)

    def delete(call: Call) -> Answer:
        herder.delete(call.name)
        return _NO_CONTENT

    return {
        ("GET", "/connectors"): lambda call: Answer(_expanded(herder, call.repeated.get("expand", []))),
        ("POST", "/connectors"): create,
        ("GET", "/connectors/{name}"): lambda call: Answer(herder.info(call.name)),
        ("DELETE", "/connectors/{name}"): delete,
        ("GET", "/connectors/{name}/config"): lambda call: Answer(herder.config(call.name)),
        ("PUT", "/connectors/{name}/config"): put_config,
        ("PATCH", "/connectors/{name}/config"): lambda call: Answer(
            herder.patch_config(call.name, patch_of(call.body))
        ),
    }


def _expanded(herder: Herder, expand: list[str]) -> object:
    names = herder.connectors()
    if not expand:
        return names
    parts = {"status": herder.status, "info": herder.info}
    expanded: dict[str, object] = {}
    for name in names:
        with contextlib.suppress(NotFoundError):  # it was deleted meanwhile
            expanded[name] = {each: parts[each](name) for each in expand if each in parts}
    return expanded


def _initial_state(text: object) -> TargetState:
    states = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}
    state = states.get(str(text or "RUNNING").upper())
    if state is None:
        raise BadRequestError("INVALID_STATE", f"initial_state is {text!r}; allowed are {', '.join(states)}")
    return state


def _states(herder: Herder) -> _Table:
    def target(state: TargetState, answer: Answer) -> Handler:
        def handle(call: Call) -> Answer:
            herder.set_target(call.name, state)
            return answer

        return handle

    def restart(call: Call) -> Answer:
        tasks, failed = call.flag("includeTasks"), call.flag("onlyFailed")
        status = herder.restart(call.name, include_tasks=tasks, only_failed=failed)
        return Answer(status, 202) if tasks or failed else _NO_CONTENT

    def restart_task(call: Call) -> Answer:
        herder.restart_task(call.name, call.task)
        return _NO_CONTENT

    def reset_topics(call: Call) -> Answer:
        herder.reset_topics(call.name)
        return _ACCEPTED

    return {
        ("GET", "/connectors/{name}/status"): lambda call: Answer(herder.status(call.name)),
        ("GET", "/connectors/{name}/tasks"): lambda call: Answer(herder.tasks(call.name)),
        ("GET", "/connectors/{name}/tasks/{task}/status"): lambda call: Answer(
            herder.task_status(call.name, call.task)
        ),
        ("POST", "/connectors/{name}/tasks/{task}/restart"): restart_task,
        ("POST", "/connectors/{name}/restart"): restart,
        ("PUT", "/connectors/{name}/pause"): target(TargetState.PAUSED, _ACCEPTED),
        ("PUT", "/connectors/{name}/resume"): target(TargetState.STARTED, _ACCEPTED),
        ("PUT", "/connectors/{name}/stop"): target(TargetState.STOPPED, _NO_CONTENT),
        ("GET", "/connectors/{name}/topics"): lambda call: Answer(herder.topics(call.name)),
        ("PUT", "/connectors/{name}/topics/reset"): reset_topics,
    }


def _offsets(herder: Herder) -> _Table:
    def alter(call: Call) -> Answer:
        offsets = call.body.get("offsets", []) if isinstance(call.body, dict) else None
        if not isinstance(offsets, list) or not all(isinstance(each, dict) for each in offsets):
            raise BadRequestError(
                "INVALID_BODY", "the body must be an object with offsets, a list of objects with partition and offset"
            )
        return Answer(herder.alter_offsets(call.name, offsets))

    return {
        ("GET", "/connectors/{name}/offsets"): lambda call: Answer(herder.offsets(call.name)),
        ("PATCH", "/connectors/{name}/offsets"): alter,
        ("DELETE", "/connectors/{name}/offsets"): lambda call: Answer(herder.alter_offsets(call.name, None)),
    }


def _signals(herder: Herder) -> _Table:
    """Beyond Kafka Connect, whose users write to the topic themselves."""

    def send(call: Call) -> Answer:
        body = call.body if isinstance(call.body, dict) else {}
        kind, data = body.get("type"), body.get("data", {})
        if not isinstance(kind, str) or not isinstance(data, dict):
            raise BadRequestError(
                "INVALID_BODY",
                "the body must be an object with type, a text, and data, an object: a signal of Debezium",
            )
        return Answer(herder.signal(call.name, kind, data), 202)

    return {("POST", "/connectors/{name}/signals"): send}


def _plugins(herder: Herder) -> _Table:
    def validate(call: Call) -> Answer:
        return Answer(herder.validate_for(call.path["plugin"], props_of(call.body)).as_json())

    return {
        ("GET", "/connector-plugins"): lambda call: Answer(
            herder.plugins(connectors_only=call.flag("connectorsOnly", True))
        ),
        ("GET", "/connector-plugins/{plugin}/config"): lambda call: Answer(herder.plugin_config(call.path["plugin"])),
        ("PUT", "/connector-plugins/{plugin}/config/validate"): validate,
    }


def _loggers() -> _Table:
    def put(call: Call) -> Answer:
        level = call.body.get("level") if isinstance(call.body, dict) else None
        changed = set_logger(call.path["logger"], level)
        return _NO_CONTENT if call.query.get("scope", "worker").lower() == "cluster" else Answer(changed)

    return {
        ("GET", "/admin/loggers"): lambda call: Answer(all_loggers()),
        ("GET", "/admin/loggers/{logger}"): lambda call: Answer(one_logger(call.path["logger"])),
        ("PUT", "/admin/loggers/{logger}"): put,
    }
