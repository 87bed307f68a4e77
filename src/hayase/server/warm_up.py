"""Importing what plans and processes, once the server answers already."""

from __future__ import annotations

import asyncio
import importlib
import threading

_MODULES = ("hayase.dsl", "hayase.sql.statements.create_as", "hayase.server.queries", "hayase.server.push.print_topic")
_lock = threading.Lock()
_imported = threading.Event()


def import_planning() -> None:
    """Import it, or wait until another thread has; later calls cost nothing.

    Every part of the server that needs it calls this first: the modules of the DSL import each other, and two threads
    that import different ones of them at the same time get modules that are not complete.
    """
    if _imported.is_set():
        return
    with _lock:
        for name in _MODULES:
            importlib.import_module(name)
        _imported.set()


async def planning_imported() -> None:
    """As `import_planning`; the event loop goes on meanwhile."""
    if not _imported.is_set():
        await asyncio.to_thread(import_planning)
