"""The error of a step that makes no progress, and its way out of the worker that ended (see `watchdog`)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hayase.core.call_site import is_installed, is_users_file, shown_file
from hayase.core.errors import HayaseError, ProcessingError

Call = tuple[str, int, str]
"""File, line and name of a function."""

_HEADING = re.compile(r"hayase step: bundle (\S+), epoch (\d+), interval ([\d.]+) s")
_TIMER = "Timeout ("
_CALL = re.compile(r'^\s+File "([^"]+)", line (\d+) in (\S+)', re.MULTILINE)


def heading(bundle: str, epoch: int, limit_s: float) -> str:
    """A line before the account of a timer that knows nothing of steps."""
    return f"hayase step: bundle {bundle}, epoch {epoch}, interval {limit_s:g} s\n"


def find_hung(text: str) -> HayaseError | None:
    """The error of a worker that the timer ended, from an account that begins with `heading`.

    `None` if it ended none.
    """
    heading = _HEADING.search(text)
    if heading is None or _TIMER not in (stacks := text[heading.end() :]):
        return None
    calls = [(file, int(line), name) for file, line, name in _CALL.findall(stacks)]
    return hung_error(heading[1], int(heading[2]), float(heading[3]), calls, stopped=True)


def hung_error(
    bundle: str, epoch: int, limit_s: float, calls: Sequence[Call], *, stopped: bool = False, **context: object
) -> HayaseError:
    """The error.

    Args:
        bundle: the bundle.
        epoch: the epoch.
        limit_s: the interval, in seconds.
        calls: where the worker is, innermost first.
        stopped: the process may as well have been stopped for so long.
        context: what else is known.
    """
    perhaps = " (unless the whole process was stopped meanwhile, as by SIGSTOP: then nothing is wrong with it)"
    return ProcessingError(
        "STEP_HUNG",
        f"a worker made no progress for {round(limit_s * 1000)} ms, which is max.poll.interval.ms, so it was ended. "
        f"It hung at {_shown_call(calls)}{perhaps if stopped else ''}. Give calls that wait a timeout, do less per "
        "record, or set max.poll.interval.ms to more than a step needs",
        bundle=bundle,
        epoch=epoch,
        **context,
    )


def _shown_call(calls: Sequence[Call]) -> str:
    """The innermost call of the user's program; else of a package, else the innermost of all."""
    users = [call for call in calls if is_users_file(call[0])]
    own = [call for call in users if not is_installed(call[0])]
    innermost = next(iter(own or users or calls), None)
    if innermost is None:
        return "a place that is not known"
    file, line, name = innermost
    return f"{shown_file(file)}:{line} in {name}"
