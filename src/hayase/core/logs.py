"""Log lines for people or machines, each with where in the application it comes from, and without secrets."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TextIO

from hayase.core.errors import HayaseError

FIELDS = ("application_id", "epoch", "bundle", "task", "node", "sink_topic", "topic", "partition", "offset")
"""What a line says about its place, as far as it is known, in this order."""
MASK = "***"

_SECRET_WORDS = ("password", "secret", "token", "jaas", "credential", ".key", "passphrase", "pem", "user.info")
_NO_SECRET_ENDS = (".location", ".url", ".source", ".ms", ".file", ".type", ".algorithm")
_SECRET_LENGTH_MIN = 4
_NOISY = ("py4j",)
"""Loggers of libraries that say at INFO and DEBUG what an operator does not want to read."""

_NOWHERE: Mapping[str, object] = MappingProxyType({})
_place: ContextVar[Mapping[str, object]] = ContextVar("hayase_log_place", default=_NOWHERE)


@contextmanager
def log_context(**fields: object) -> Iterator[None]:
    """Lines logged inside, by whatever logger, say these fields.

    Example:
        >>> with log_context(application_id="shop", epoch=3):
        ...     place_of(logging.makeLogRecord({"offset": 7}))
        {'application_id': 'shop', 'epoch': 3, 'offset': 7}
    """
    token = _place.set({**_place.get(), **fields})
    try:
        yield
    finally:
        _place.reset(token)


def log_fields(error: HayaseError, application_id: str) -> dict[str, object]:
    """What an error knows about its place, for `extra=`."""
    return {"application_id": application_id, **{k: v for k, v in error.context.items() if k in FIELDS}}


def place_of(record: logging.LogRecord) -> dict[str, object]:
    """The fields of a record: its own (`extra=…`), then those of the context it was logged in."""
    around = _place.get()
    fields = {name: getattr(record, name, around.get(name)) for name in FIELDS}
    return {name: value for name, value in fields.items() if value is not None}


def secret_values(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Values of settings that may not be shown, longest first.

    Example:
        >>> secret_values({"sasl.username": "ada", "sasl.password": "open sesame", "ssl.key.location": "/etc/key"})
        ('open sesame',)
    """
    secrets = {value for key, value in settings.items() if is_secret(key) and len(value) >= _SECRET_LENGTH_MIN}
    return tuple(sorted(secrets, key=lambda value: (-len(value), value)))


def is_secret(key: str) -> bool:
    """Whether a setting's value may not be shown. Where a secret is, is none."""
    lower = key.lower()
    return any(word in lower for word in _SECRET_WORDS) and not lower.endswith(_NO_SECRET_ENDS)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with every secret masked."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


class TextFormatter(logging.Formatter):
    """`2026-11-21T18:05:52.123Z WARNING hayase.task [application_id shop, epoch 3]: message`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the trace behind it if an error was logged with one."""
        place = ", ".join(f"{name} {value}" for name, value in place_of(record).items())
        text = f"{_time(record)} {record.levelname} {record.name}{f' [{place}]' if place else ''}: {_one_line(record)}"
        trace = trace_of(record)
        return without_secrets(f"{text}\n{trace}" if trace else text, self._secrets)


class JsonFormatter(logging.Formatter):
    """One JSON object a line.

    Time, level, logger, message, the fields of its place, process, and trace if there is one.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": without_secrets(record.getMessage(), self._secrets),
            **place_of(record),
            "process": record.process,
            "thread": record.threadName,
        }
        trace = trace_of(record)
        if trace:
            line["trace"] = without_secrets(trace, self._secrets)
        return json.dumps(line, default=str, ensure_ascii=False)


class _OurHandler(logging.StreamHandler[TextIO]):
    """So that setting up logging again replaces what was set up before."""


def configure_logging(
    *, form: str, level: str, secrets: Iterable[str] = (), stream: TextIO | None = None
) -> logging.Handler:
    """Have everything that this process logs written to standard error in one form; replaces an earlier call.

    Args:
        form: `text` or `json`.
        level: the least level, e.g. `INFO`.
        secrets: what is masked wherever it occurs.
        stream: instead of standard error.
    """
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, _OurHandler)]:
        root.removeHandler(old)
    handler = _OurHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(secrets) if form == "json" else TextFormatter(secrets))
    root.addHandler(handler)
    set_levels(level)
    return handler


def set_levels(level: str) -> None:
    """Log from this level on, except for what is mere noise."""
    logging.getLogger().setLevel(level)
    logging.getLogger("hayase").setLevel(level)
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level)))


def trace_of(record: logging.LogRecord) -> str:
    """The trace of the error that was logged; empty if there is none."""
    if record.exc_text:
        return record.exc_text
    return logging.Formatter().formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _one_line(record: logging.LogRecord) -> str:
    return record.getMessage().replace("\r", " ").replace("\n", " ")
