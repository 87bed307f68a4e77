"""Follows the query of a started application to its end, and starts it again where that helps."""

from __future__ import annotations

import logging
import time
from typing import Protocol

from hayase.app.connected_runner import ConnectedRunner
from hayase.app.failure_recovery import Recovery
from hayase.app.report import ProgressReport
from hayase.app.run_status import RunStatus, RunTold
from hayase.app.states import State
from hayase.app.topic_changes import TopicChanges
from hayase.core.errors import HayaseError, LeaseHeldError
from hayase.query.standby import Standbys
from hayase.runtime.driver.query_runner import QueryRunner
from hayase.runtime.driver.topology_runner import TopologyRunner

_LOG = logging.getLogger("hayase.app")

_WAIT_POLL_S = 0.01
_STOP_AT_RESTART_S = 60.0


class Supervised(Protocol):
    """The part of an application that the supervisor uses."""

    @property
    def state(self) -> State:
        """Its state."""
        ...

    def progress(self) -> ProgressReport:
        """The progress of the application."""
        ...

    def lease_lost(self) -> HayaseError | None:
        """The reason why another copy may run now; `None` as long as the lease is held."""
        ...

    def move_if(self, old: State, new: State) -> bool:
        """Change the state if it is `old`; whether it was."""
        ...


class Supervisor:
    """One per started application."""

    def __init__(
        self,
        app: Supervised,
        runner: QueryRunner | TopologyRunner | ConnectedRunner,
        recovery: Recovery,
        metrics_url: str = "",
        standbys: Standbys | None = None,
        changes: TopicChanges | None = None,
    ) -> None:
        self._app = app
        self._runner = runner
        self._recovery = recovery
        self._told = RunTold(runner.run.control)
        self._metrics_url = metrics_url
        self._standbys = standbys
        self._changes = changes

    def until_end(self) -> HayaseError | None:
        """Follow the query, and the ones that replace it; why the last one failed, if it has."""
        try:
            return self._follow_all()
        finally:
            if self._changes is not None:
                self._changes.close()

    def _follow_all(self) -> HayaseError | None:
        error = self._follow()
        while error is not None and self._app.state is not State.PENDING_SHUTDOWN:
            if isinstance(error, LeaseHeldError):
                return error  # the other copy goes on
            if self._changes is not None and self._changes.may_redo(error):
                redone = self._redo(self._changes, error)
                if redone is None:
                    error = self._follow()
                    continue
                error = redone
            delay_s = self._recovery.delay_s(error, self._runner.run.progress.epochs)
            if delay_s is None:
                if self._changes is not None:
                    self._changes.explain(error)
                return error
            if not self._wait(delay_s):
                return None  # closed meanwhile; the next start finishes the epoch
            error = self._restart() or self._follow()
        return error

    def _follow(self) -> HayaseError | None:
        try:
            while self._runner.poll():
                if (lost := self._app.lease_lost()) is not None:
                    self._runner.stop(0)
                    return lost
                if self._changes is not None and self._changes.due() and (error := self._change(self._changes)):
                    return error
                if self._runner.run.control.ready():
                    self._app.move_if(State.REBALANCING, State.RUNNING)
                self._tell()
                if self._standbys is not None:
                    self._standbys.check()
                self._runner.wait()
            return self._runner.error()
        except Exception as failed:  # Spark may be torn down beneath us; the application must still come to an end
            error = self._runner.why_lost(failed)
            self._runner.stop_query()  # a session of the program's may go on
            return error

    def _tell(self) -> None:
        try:
            self._told.say(self._status)
        except OSError as error:  # no room on the disk, for example: only `hayase app status` needs it
            _LOG.debug("the status of the run is unknown: %s", error)

    def _change(self, changes: TopicChanges) -> HayaseError | None:
        self._app.move_if(State.RUNNING, State.REBALANCING)
        try:
            changes.take()
        except HayaseError as error:
            self._runner.stop_query()
            return error
        self._stop_if_closed()
        return None

    def _redo(self, changes: TopicChanges, error: HayaseError) -> HayaseError | None:
        """Have the program that was started do the epoch again at which the one before failed; why it cannot."""
        self._app.move_if(State.RUNNING, State.REBALANCING)
        try:
            changes.redo(error)
            self._stop_if_closed()
        except HayaseError as refused:
            return refused
        except Exception as failed:  # as for a query that is followed
            return self._runner.why_lost(failed)
        return None

    def _status(self) -> RunStatus:
        return RunStatus.of(self._app.progress(), self._recovery.replaced, self._metrics_url)

    def _wait(self, delay_s: float) -> bool:
        self._app.move_if(State.RUNNING, State.REBALANCING)
        deadline = time.monotonic() + delay_s
        while time.monotonic() < deadline and self._app.state is State.REBALANCING:
            time.sleep(_WAIT_POLL_S)
        return self._app.state is State.REBALANCING

    def _restart(self) -> HayaseError | None:
        try:
            self._runner.restart()
            self._stop_if_closed()
        except HayaseError as error:
            return error
        except Exception as failed:  # as above
            return self._runner.why_lost(failed)
        return None

    def _stop_if_closed(self) -> None:
        if self._app.state is State.PENDING_SHUTDOWN:  # close() saw only the query that was replaced
            self._runner.stop(_STOP_AT_RESTART_S)
