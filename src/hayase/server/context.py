"""What all parts of a server have in common."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from hayase.core.time import SystemClock
from hayase.log.protocol import Log
from hayase.serde.registry import SchemaRegistry
from hayase.server.children.pool import ChildPool
from hayase.server.children.python_calls import PythonCalls
from hayase.server.children.row_calls import RowCalls
from hayase.server.commands.executor import CommandExecutor
from hayase.server.connectors.embedded import EmbeddedConnect
from hayase.server.connectors.protocol import ConnectService
from hayase.server.hosts.protocol import QueryHost
from hayase.server.inserts import RecordInserts
from hayase.server.limits import PullLimits
from hayase.server.local_run.tails import LogTails
from hayase.server.overrides import checked_overrides
from hayase.server.pull.prepared import PreparedLookups
from hayase.server.pull.stores import QueryStores
from hayase.server.push.running import PushQueries
from hayase.server.query_times import QueryTimes
from hayase.server.security.users import Users
from hayase.server.settings import ServerSettings
from hayase.server.topics import LogTopics
from hayase.sql.engine import SqlEngine
from hayase.sql.settings import effective

_LOG = logging.getLogger("hayase.server")
_SILENT = (
    "another server of the same ksql.service.id has taken over its queries, because this one was silent for too long: "
    "was the machine paused, or the log out of reach? Start it again when the other one has ended"
)


@dataclass
class ServerContext:
    """The server: its catalog, log, queries and limits (`QueryServices`).

    Attributes:
        settings: of the server.
        log: of all topics.
        topics: those of the log.
        registry: the schema registry, if there is one.
        engine: with the catalog.
        tails: of the log.
        host: that runs persistent queries.
        commands: statements that change something.
        inserts: records that statements and requests write.
        connect: connectors, here or of a worker elsewhere.
        python_calls: calls of functions whose Python stands in a statement.
        adhoc_children: processes that compute ad-hoc SQL.
        row_calls: computes expressions that may take long or much memory.
        push_queries: those that run.
        pull_limits: how many pull queries there may be.
        times: how long pull queries take, and rows of push queries wait.
        prepared_lookups: pull queries by key that were analyzed before.
        users: with their roles; `None`: every request may do everything.
        held: what the server has while it runs, as the lease; a second one of the same service id is not started.
        started_s: when the server began, by a clock that only goes forward.
    """

    settings: ServerSettings
    log: Log
    topics: LogTopics
    registry: SchemaRegistry | None
    engine: SqlEngine
    tails: LogTails
    host: QueryHost
    commands: CommandExecutor
    inserts: RecordInserts
    connect: ConnectService
    python_calls: PythonCalls
    row_calls: RowCalls
    adhoc_children: ChildPool
    push_queries: PushQueries
    pull_limits: PullLimits
    times: QueryTimes
    users: Users | None = None
    held: ExitStack = field(default_factory=ExitStack)
    prepared_lookups: PreparedLookups = field(default_factory=PreparedLookups)
    started_s: float = field(default_factory=time.monotonic)
    clock: SystemClock = field(default_factory=SystemClock)

    @property
    def stores(self) -> QueryStores:
        """The stores of persistent queries."""
        return self.host

    @property
    def status(self) -> str:
        """RUNNING, or DEGRADED: statements that change something are refused."""
        return "RUNNING" if self.commands.problem is None else "DEGRADED"

    def start_queries(self) -> None:
        """Begin to run persistent queries and connectors. Returns at once."""
        self.host.start()
        if isinstance(self.connect, EmbeddedConnect):
            self.connect.resume(self.log)

    def statement_settings(self, overrides: Mapping[str, object]) -> Mapping[str, object]:
        """See `QueryServices.statement_settings`; raises RequestError for settings that requests may not set."""
        return effective(self.engine.settings, checked_overrides(overrides, self.settings))

    def give_way(self, why: str = _SILENT) -> None:
        """Another server has taken over the log: end queries and connectors, refuse statements that change something.

        Calling it again does nothing more. Waits for the epochs at work.

        Args:
            why: for who asks the server to change something.
        """
        _LOG.error("queries and connectors end here: %s", why)
        self.commands.give_up(why)
        self.host.close()
        self.connect.close()

    def close(self) -> None:
        """End all queries and let go of everything; persistent queries go on at the next start."""
        self.push_queries.close_all()
        self.connect.close()
        self.host.close()
        self.tails.close()
        self.commands.close()
        self.inserts.close()
        self.python_calls.close()
        self.row_calls.close()
        self.adhoc_children.close()
        self.log.close()
        self.held.close()
