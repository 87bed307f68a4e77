"""The log of a server, opened before anything else: a new cluster takes a second to be ready for the first command."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import Log

_LOG = logging.getLogger("hayase.server.commands")


def open_early(config: StreamsConfig, command_topic: str) -> Log:
    """Open the log, and have it made ready for commands in threads; nothing waits for these.

    Args:
        config: of the server's runtime.
        command_topic: see CommandLog.

    Raises:
        HayaseError: the log cannot be opened.
    """
    log = open_log(log_config(config))
    prepare_commands(log, command_topic)
    return log


def prepare_commands(log: Log, command_topic: str) -> None:
    """Have a log make what the first command needs: the topic of markers, and what transactions need."""
    for prepare in (log.prepare_transactions, log.prepare_markers):
        threading.Thread(
            target=_prepared, args=(prepare, command_topic), name="hayase-commands-ready", daemon=True
        ).start()


def _prepared(prepare: Callable[[str], None], command_topic: str) -> None:
    try:
        prepare(command_topic)
    except HayaseError as error:  # the first record waits for it then, or says what is wrong
        _LOG.debug("the log is not ready for commands yet: %s", error)
