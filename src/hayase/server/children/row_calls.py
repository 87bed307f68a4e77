"""Expressions that may take long or much memory, computed row by row in child processes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hayase.server.children.late import PAUSE_S, LateWork
from hayase.server.children.pool import Child, ChildEndedError, ChildPool, ChildrenBusyError
from hayase.server.children.values import pack, unpack
from hayase.sql.errors import FunctionError
from hayase.sql.functions.work_limit import at_most as at_most_s

PROGRAMS_KEPT = 64
"""How many expressions a child keeps; then it forgets them all."""
_AT_MOST = 4
_RESULT_BYTES_MAX = 2 << 20
"""EXPLODE makes rows of the items of a result, of a few hundred bytes each."""
Failures = Sequence[Exception]


class RowCalls:
    """Computes expressions in child processes, which are ended when a row takes too long (`RowCall`). Thread-safe.

    Args:
        timeout_s: how long one row may take, of the processor.
        at_most: so many processes there may be; they start with the first calls.
        now_s: a clock that only goes forward.
    """

    def __init__(self, timeout_s: float, at_most: int = _AT_MOST, now_s: Callable[[], float] = time.monotonic) -> None:
        self._timeout_s = timeout_s
        self._late = LateWork(now_s)
        self._children = ChildPool("hayase.server.children.row_worker", at_most, _RESULT_BYTES_MAX, of_processor=True)

    @property
    def ended(self) -> int:
        """Processes that were ended at the limit."""
        return self._children.ended

    def __call__(self, program: bytes, row: Mapping[str, object]) -> tuple[Any, Failures]:
        """See RowCall.

        Raises:
            FunctionError: the expression fails, takes too long, or ends its process.
        """
        digest = hashlib.blake2b(program, digest_size=16).digest()
        if self._late.is_noted(digest):
            raise FunctionError(
                "EXPRESSION_TIMEOUT",
                f"the expression took longer than {self._timeout_s:g} s before, and is not computed again for "
                f"{PAUSE_S:g} s",
            )
        values = dict(row)

        def request(child: Child) -> bytes:
            if digest in child.known:
                return pack([digest, None, values])
            if len(child.known) >= PROGRAMS_KEPT:
                child.known.clear()
            child.known.add(digest)
            return pack([digest, program, values])

        try:
            value, failures, error = self._children.ask(request, _answer, at_most_s(self._timeout_s))
        except TimeoutError as late:
            self._late.note(digest)
            raise FunctionError(
                "EXPRESSION_TIMEOUT",
                f"the expression took longer than {self._timeout_s:g} s for one row and was ended "
                "(hayase.server.function.timeout.ms)",
            ) from late
        except ChildrenBusyError as busy:
            raise FunctionError("EXPRESSIONS_BUSY", "too many expressions are at work; try again later") from busy
        except ChildEndedError as ended:
            raise FunctionError(
                "EXPRESSION_ENDED", f"the expression has ended its process: its result is too large, or {ended}"
            ) from ended
        if error is not None:
            raise error
        return value, failures

    def close(self) -> None:
        """End all processes."""
        self._children.close()


def _answer(data: bytes) -> tuple[Any, Failures, Exception | None]:
    value, failures, error = unpack(data)
    return value, list(map(_error, failures)), None if error is None else _error(error)


def _error(given: Sequence[str]) -> FunctionError:
    condition, message = given
    return FunctionError(str(condition), str(message))
