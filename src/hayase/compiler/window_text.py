"""Windows of aggregations in words, which checkpoints keep: rows of two kinds of windows cannot be in one store."""

from __future__ import annotations

from hayase.core.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows


def window_text(windows: Windows | SlidingWindows | SessionWindows) -> str:
    """What divides time, without the grace period; equal for equal windows."""
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


def duration_text(duration_ms: int) -> str:
    """Seconds, if they are whole, else milliseconds."""
    return f"{duration_ms} ms" if duration_ms % 1000 else f"{duration_ms // 1000} s"
