"""The main guard: a program that a command loads must not start its application while it is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hayase.core.call_site import users_line
from hayase.core.errors import ConfigError

_loading: list[str] = []


@contextmanager
def loading(program: str) -> Iterator[None]:
    """While entered, a command executes that file or module to find its topology."""
    _loading.append(program)
    try:
        yield
    finally:
        _loading.pop()


def check_not_loading() -> None:
    """Refuse to start while a command loads the program.

    Raises:
        ConfigError: `NO_MAIN_GUARD`, with the line of the call.
    """
    if not _loading:
        return
    line = users_line()
    raise ConfigError(
        "NO_MAIN_GUARD",
        f"{line or _loading[-1]} starts the application while a command loads {_loading[-1]} to find its topology. Put "
        'what runs under `if __name__ == "__main__":`; building the topology stays above it',
    )
