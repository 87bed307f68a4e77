"""What raises in the functions of aggregates, sagas and read models: a failure of that one call, not of the process."""

from __future__ import annotations

import dis
from types import TracebackType

from hayase.core.errors import ProcessingError

RAISED = (Exception, SystemExit, KeyboardInterrupt)
"""What a user's function raises that counts as its failure; see `failure_of`."""
_RAISE = dis.opmap["RAISE_VARARGS"]


def failure_of(error: BaseException) -> Exception:
    """The failure that an error in a user's function is: sys.exit would end a process that others are in.

    Raises:
        KeyboardInterrupt: it is one, and no code raised it: a signal has come while the function ran, which is to end
            the process.

    Example:
        >>> failure_of(SystemExit(3)).message
        'the code wanted to end the process: SystemExit(3)'
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, KeyboardInterrupt) and not _was_raised_by_code(error.__traceback__):
        raise error
    failure = ProcessingError("CODE_ENDED_PROCESS", f"the code wanted to end the process: {error!r:.200}")
    failure.__cause__ = error
    return failure


def _was_raised_by_code(trace: TracebackType | None) -> bool:
    """Whether an error comes from a `raise`: the interpreter raises what a signal brings at any other instruction."""
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE
