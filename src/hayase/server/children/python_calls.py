"""Calls of Python functions in child processes, each with a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from hayase.server.children.late import PAUSE_S, LateWork
from hayase.server.children.pool import ChildEndedError, ChildPool, ChildrenBusyError
from hayase.server.children.values import pack, unpack
from hayase.sql.errors import FunctionError
from hayase.sql.functions.python_source import PythonFunction

_AT_MOST = 4
_RESULT_BYTES_MAX = 64 << 20


class PythonCalls:
    """Calls functions of CREATE FUNCTION in child processes, which are ended when a call takes too long. Thread-safe.

    A function that took too long is not called again for a while, so that a query over many rows ends.

    Args:
        timeout_s: how long one call may take.
        at_most: so many processes there may be; they start with the first calls.
        now_s: a clock that only goes forward.
    """

    def __init__(self, timeout_s: float, at_most: int = _AT_MOST, now_s: Callable[[], float] = time.monotonic) -> None:
        self._timeout_s = timeout_s
        self._late = LateWork(now_s)
        self._children = ChildPool("hayase.server.children.python_worker", at_most, _RESULT_BYTES_MAX)

    @property
    def ended(self) -> int:
        """Processes that were ended at the limit."""
        return self._children.ended

    def __call__(self, function: PythonFunction, values: Sequence[Any]) -> Any:
        """The result of a call, not checked yet.

        Raises:
            FunctionError: the function raises, takes too long, or ends its process.
        """
        name = function.name
        if self._late.is_noted((name, function.body)):
            raise FunctionError(
                "FUNCTION_TIMEOUT",
                f"{name} took longer than {self._timeout_s:g} s before, and is not called again for {PAUSE_S:g} s",
            )
        request = pack([name, function.parameters, function.body, list(values)])
        try:
            answered, result = self._children.ask(lambda child: request, _answer, self._timeout_s)
        except TimeoutError as error:
            self._late.note((name, function.body))
            raise FunctionError(
                "FUNCTION_TIMEOUT",
                f"{name} took longer than {self._timeout_s:g} s and was ended (hayase.server.function.timeout.ms)",
            ) from error
        except ChildrenBusyError as error:
            raise FunctionError("FUNCTION_BUSY", f"{name}: too many functions are at work; try again later") from error
        except ChildEndedError as error:
            raise FunctionError("FUNCTION_ENDED", f"{name} has ended its process: {error}") from error
        if not answered:
            raise FunctionError("FUNCTION_FAILED", f"{name}: {result}")
        return result

    def close(self) -> None:
        """End all processes."""
        self._children.close()


def _answer(data: bytes) -> tuple[bool, Any]:
    answered, result = unpack(data)
    return bool(answered), result
