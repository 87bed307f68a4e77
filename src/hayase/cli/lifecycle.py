"""Running an application from the command line: until its end, or until it is asked to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

import typer

from hayase.app.app import StreamsApp
from hayase.app.report import ProgressReport
from hayase.app.states import State
from hayase.app.stop_request import Starter, StopRequest, is_of_stopping, run_until_asked
from hayase.app.streams_runtime import StreamsRuntime

_TICK = timedelta(milliseconds=250)


def run_app(
    app: StreamsApp,
    stop: StopRequest,
    *,
    to_end: bool,
    close_timeout: timedelta,
    on_tick: Callable[[ProgressReport], None],
    may_close: Callable[[ProgressReport], bool] = lambda _: True,
) -> bool:
    """Run an application until it ends or is asked to stop; whether it stopped between epochs.

    Args:
        app: not started yet.
        stop: asks for a graceful close.
        to_end: stop at the end of the input as it is now.
        close_timeout: how long the epoch at work may take to finish; what is then left, the next start finishes.
        on_tick: called a few times a second with the progress, and once at the end.
        may_close: once a stop is asked for, asked whether the application is far enough.

    Raises:
        HayaseError: it could not be started, or failed.
    """
    starter = Starter(app.start_to_end if to_end else app.start)
    starter.start()
    clean = True
    said = False
    while not _ended(app, starter):
        report = app.progress()
        on_tick(report)
        if stop.asked and starter.is_alive() and not said:
            say_stop_of_start()
            said = True
        if stop.asked and may_close(report):
            clean = app.close(close_timeout)  # while it is starting this only asks; the loop waits for the end
        app.wait(_TICK)
    starter.join()
    on_tick(app.progress())
    failure = starter.error or app.error
    if failure is not None and not (stop.asked and is_of_stopping(failure)):
        raise failure
    return clean


def say_stop_of_start() -> None:
    """Say that a stop that was asked for while Spark starts comes when it is up."""
    typer.echo("stops as soon as Spark is up; a second Ctrl-C or SIGTERM ends it at once", err=True)


def _ended(app: StreamsApp, starter: Starter) -> bool:
    return app.state in (State.NOT_RUNNING, State.ERROR) or starter.failed


def run_runtime_to_end(
    run: Callable[[], Mapping[str, ProgressReport]], runtime: StreamsRuntime, stop: StopRequest
) -> Mapping[str, ProgressReport]:
    """Run the topologies of a runtime to the end of their input, or until a stop is asked for.

    Args:
        run: starts and waits for the end.
        runtime: that runs.
        stop: the request.

    Raises:
        HayaseError: a topology or the runtime failed.
    """
    reports: dict[str, ProgressReport] = {}
    said = False

    def close() -> None:
        nonlocal said
        if stop.asked and not said and runtime.state in (State.CREATED, State.REBALANCING):
            said = True
            say_stop_of_start()
        runtime.close()

    run_until_asked(lambda: reports.update(run()), runtime.wait, close, stop)
    return reports
