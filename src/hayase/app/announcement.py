"""The line that a program shows before Spark starts, which takes ten seconds and more."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from hayase.compiler.compile import compile_subtopologies
from hayase.core.config import StreamsConfig
from hayase.runtime.wire.app_spec import AppSpec

_LOG = logging.getLogger("hayase.app")


def announce(shipped: AppSpec, config: StreamsConfig) -> None:
    """Print it to the standard error.

    Not where logs are collected (`log.format`), nor where the program asked for errors alone.
    """
    if config.log_format is None and _LOG.isEnabledFor(logging.WARNING):
        forms = [each.form for each in compile_subtopologies(shipped.topology, shipped.options).values()]
        sys.stderr.write(f"{announcement(config.application_id, forms)}\n")
        sys.stderr.flush()


def announcement(application_id: str, forms: Sequence[str]) -> str:
    """The line.

    Example:
        >>> announcement("shop", ["columns", "columns"])
        'application shop, in columns: Spark is starting; Ctrl-C stops it'
        >>> announcement("shop", ["columns", "rows", "rows"])
        'application shop, 1 of 3 sub-topologies in columns, the others in rows: Spark is starting; Ctrl-C stops it'
    """
    columns = forms.count("columns")
    form = f"{columns} of {len(forms)} sub-topologies in columns, the others in rows"
    if columns in (0, len(forms)):
        form = "in columns" if columns else "in rows"
    return f"application {application_id}, {form}: Spark is starting; Ctrl-C stops it"
