"""Levels of loggers, as `/admin/loggers` shows and sets them."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from hayase.connect.herder.states import BadRequestError, NotFoundError

_TRACE, _OFF = 5, logging.CRITICAL + 10
_LEVELS: Mapping[str, int] = {
    "TRACE": _TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": _OFF,
}
"""Kafka Connect's levels."""
_ROOT = "root"
_modified_ms: dict[str, int] = {}


def all_loggers() -> dict[str, object]:
    """Every logger that has a level of its own."""
    own = [name for name, each in _known().items() if each.level != logging.NOTSET]
    return {name: _shown(name) for name in sorted({_ROOT, *own})}


def one_logger(name: str) -> dict[str, object]:
    """The level of one logger; raises NotFoundError."""
    if name != _ROOT and name not in _known():
        raise NotFoundError("UNKNOWN_LOGGER", f"Logger {name} not found.")
    return _shown(name)


def set_logger(name: str, level: object) -> list[str]:
    """Set the level of a logger and of those below it; their names."""
    if level is None:
        raise BadRequestError("MISSING_LEVEL", "Desired 'level' parameter was not specified in request.")
    number = _LEVELS.get(str(level).upper())
    if number is None:
        raise NotFoundError("INVALID_LEVEL", f"invalid log level '{level}'.")
    changed = [_ROOT, *_known()] if name == _ROOT else [each for each in _known() if each.startswith(f"{name}.")]
    if name not in changed:
        changed.append(name)
    for each in changed:
        _logger(each).setLevel(number)
        _modified_ms[each] = time.time_ns() // 1_000_000
    return sorted(changed)


def _known() -> dict[str, logging.Logger]:
    loggers = logging.Logger.manager.loggerDict
    return {name: each for name, each in list(loggers.items()) if isinstance(each, logging.Logger)}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == _ROOT else name)


def _shown(name: str) -> dict[str, object]:
    number = _logger(name).getEffectiveLevel()
    level = max((each for each in _LEVELS.items() if each[1] <= max(number, _TRACE)), key=lambda each: each[1])[0]
    return {"level": level, "last_modified": _modified_ms.get(name)}
