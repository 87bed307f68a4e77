"""Importing what the first query needs, while the server answers already."""

from __future__ import annotations

import importlib
import threading

_MODULES = ("hayase.dsl", "hayase.sql.statements.create_as", "hayase.server.queries", "hayase.server.push.print_topic")
"""They plan and process; the server imports them only with the first query, which would wait for them."""

_DELAY_S = 1.0
"""The first requests come before them: imports and answers share one lock of the interpreter."""


def import_in_background() -> None:
    """Import them soon, in a thread; returns at once."""
    timer = threading.Timer(_DELAY_S, _import_all)
    timer.daemon = True
    timer.start()


def _import_all() -> None:
    for name in _MODULES:
        importlib.import_module(name)
