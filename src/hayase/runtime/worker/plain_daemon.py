"""Workers of PySpark's own daemon, which end without a trace when the JVM has closed the connection.

Spark runs a source's planner in workers of `pyspark.daemon`, whatever `spark.python.daemon.module` says. What such a
worker raises when it ends is printed by the daemon's own function, in the worker: that is where this takes hold, once
the source is imported there.
"""

from __future__ import annotations

import sys
import traceback
from types import ModuleType
from typing import Any

_DAEMON = "pyspark.daemon"


class _QuietTraceback:
    """The module `traceback`, silent about connections that were closed."""

    def print_exc(self, *arguments: Any, **options: Any) -> None:
        """As `traceback.print_exc`."""
        if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
            traceback.print_exc(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)


def hide_errors_after_jvm_exit(main: ModuleType | None = None) -> None:
    """Do not print errors of closed connections in this process, if it is a worker of Spark's own daemon.

    Args:
        main: the module that the process runs; `None`: what it is.
    """
    main = main or sys.modules.get("__main__")
    if getattr(getattr(main, "__spec__", None), "name", None) == _DAEMON:
        vars(main)["traceback"] = _QuietTraceback()
