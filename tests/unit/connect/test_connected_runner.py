"""The order in which sources, topology and sinks of a program run."""

from hayase.app.connected_runner import ConnectedRunner
from hayase.core.errors import ProcessingError


class Inner:
    run = None

    def __init__(self, steps):
        self.steps, self.polls, self.failure = steps, 0, None

    def start(self):
        self.steps.append("start topology")

    def restart(self):
        self.steps.append("restart topology")
        self.failure = None

    def poll(self):
        self.polls += 1
        return False

    def error(self):
        return self.failure

    def stop(self, timeout_s):
        self.steps.append("stop topology")
        return True

    def stop_query(self):
        self.steps.append("stop query")
        return True


class Connectors:
    def __init__(self, steps):
        self.steps, self.failure, self.sources_end, self.sinks_end = steps, None, False, False

    def start(self, *, sources):
        self.steps.append("start sources" if sources else "start sinks")

    def stop(self, *, sources):
        self.steps.append("stop sources" if sources else "stop sinks")

    def restart_failed(self):
        self.failure = None

    def error(self):
        return self.failure

    def sources_at_end(self):
        return self.sources_end

    def sinks_at_end(self):
        return self.sinks_end


def made(bounded):
    steps = []
    inner, connectors = Inner(steps), Connectors(steps)
    return ConnectedRunner(inner, connectors, bounded=bounded), inner, connectors, steps


def test_a_bounded_run_ends_when_sources_then_the_topology_then_sinks_are_at_their_ends():
    runner, _, connectors, steps = made(bounded=True)
    runner.start()
    assert runner.poll() and steps == ["start sources"]
    connectors.sources_end = True
    assert runner.poll() and steps[1:] == ["stop sources", "start topology", "start sinks"]
    assert runner.poll()
    connectors.sinks_end = True
    assert not runner.poll() and steps[-1] == "stop sinks" and runner.error() is None


def test_a_run_without_an_end_starts_all_at_once_and_stops_them_in_the_order_of_the_records():
    runner, _, _, steps = made(bounded=False)
    runner.start()
    runner.stop(1)
    assert steps == [
        *("start sources", "start topology", "start sinks"),
        *("stop sources", "stop topology", "stop sinks"),
    ]


def test_a_bounded_run_that_is_stopped_while_sources_are_read_starts_no_topology():
    runner, inner, connectors, steps = made(bounded=True)
    runner.start()
    assert runner.stop(1)
    connectors.sources_end = True
    assert not runner.poll() and "start topology" not in steps and inner.polls == 0


def test_a_bounded_run_that_is_tried_again_does_not_read_its_sources_again():
    runner, inner, connectors, steps = made(bounded=True)
    connectors.sources_end = True
    runner.start()
    runner.poll()
    inner.failure = ProcessingError("PROCESSING_FAILED", "it failed")
    assert not runner.poll()
    runner.restart()
    assert steps.count("start sources") == 1 and "restart topology" in steps


def test_a_connector_that_fails_stops_the_topology_and_is_the_error():
    runner, _, connectors, steps = made(bounded=False)
    runner.start()
    connectors.failure = ProcessingError("CONNECTOR_FAILED", "it failed")
    assert not runner.poll()
    assert steps[-1] == "stop query" and runner.error() is connectors.failure
