"""Windows in words, which checkpoints keep, so that a changed program is compared with them."""

from __future__ import annotations

from hayase.core.join_windows import JoinWindows
from hayase.core.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows


def window_text(windows: Windows | SlidingWindows | SessionWindows) -> str:
    """What divides time in an aggregation, without the grace period; equal for equal windows.

    Rows of two kinds of windows cannot be in one store.
    """
    match windows:
        case TimeWindows() if windows.advance_ms == windows.size_ms:
            return f"tumbling windows of {duration_text(windows.size_ms)}"
        case TimeWindows():
            return f"hopping windows of {duration_text(windows.size_ms)} every {duration_text(windows.advance_ms)}"
        case UnlimitedWindows():
            return f"one window from {duration_text(windows.start_ms)} on"
        case SlidingWindows():
            return f"sliding windows of {duration_text(windows.difference_ms)}"
        case SessionWindows():
            return f"sessions with a gap of {duration_text(windows.gap_ms)}"
        case _:  # of the program; what else it goes by does not show
            return f"{type(windows).__name__} of up to {duration_text(windows.size_ms)}"


def join_window_text(windows: JoinWindows) -> str:
    """How far apart records of a join may be, and the grace period."""
    before, after, grace = map(duration_text, (windows.before_ms, windows.after_ms, windows.grace_ms))
    return f"{before} before to {after} after, grace {grace}"


def duration_text(duration_ms: int) -> str:
    """Seconds, if they are whole, else milliseconds."""
    return f"{duration_ms} ms" if duration_ms % 1000 else f"{duration_ms // 1000} s"
