"""A shared runtime before Spark: settings, names, and what its checkpoint remembers."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from hayase import Consumed, Serdes, State, StreamsBuilder, Topology
from hayase.app.membership import Member, Membership
from hayase.app.runtime_settings import topology_config
from hayase.app.streams_runtime import StreamsRuntime
from hayase.core.errors import CheckpointError, ConfigError, StreamsStoppedError, TopologyError
from hayase.storage.posix_blobs import PosixBlobs


def copy(source: str = "in", sink: str = "out") -> Topology:
    builder = StreamsBuilder()
    builder.stream(source, Consumed.with_(Serdes.string(), Serdes.string())).to(sink)
    return builder.build()


def settings(tmp_path: Path, **more: object) -> dict[str, object]:
    where = {"state.dir": str(tmp_path / "state"), "log.dir": str(tmp_path / "log")}
    return {"application.id": "shop", **where, **{key.replace("_", "."): value for key, value in more.items()}}


def test_a_setting_of_a_topology_is_refused_by_the_runtime(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="add_topology") as raised:
        StreamsRuntime(settings(tmp_path, commit_interval_ms=100))
    assert raised.value.condition == "SETTING_OF_TOPOLOGY"


def test_a_setting_of_the_runtime_is_refused_by_a_topology(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="StreamsRuntime") as raised:
        StreamsRuntime(settings(tmp_path)).add_topology("a", copy(), {"state.dir": "elsewhere"})
    assert raised.value.condition == "SETTING_OF_RUNTIME"


def test_the_application_id_of_a_topology_can_be_read_in_one_way_only(tmp_path: Path) -> None:
    assert topology_config(settings(tmp_path), "a", {}, None).application_id == "shop-a"
    with pytest.raises(ConfigError, match="no '-'"):
        StreamsRuntime(settings(tmp_path)).add_topology("a-b", copy())


def test_each_topology_has_a_checkpoint_of_its_own_inside_of_the_runtimes(tmp_path: Path) -> None:
    config = topology_config(settings(tmp_path, checkpoint_dir="/data/c"), "a", {}, None)
    assert config.checkpoint_dir == "/data/c/shop-a"


def test_a_name_or_an_application_id_is_taken_once(tmp_path: Path) -> None:
    runtime = StreamsRuntime(settings(tmp_path))
    runtime.add_topology("a", copy())
    with pytest.raises(TopologyError, match="remove it first"):
        runtime.add_topology("a", copy())
    with pytest.raises(TopologyError, match="shop-a"):
        runtime.add_topology("b", copy(), application_id="shop-a")


def test_an_unknown_topology_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    runtime = StreamsRuntime(settings(tmp_path))
    runtime.add_topology("a", copy())
    for use in (runtime.topology, runtime.pause, runtime.resume, runtime.restart, runtime.remove_topology):
        with pytest.raises(TopologyError, match="'b'; it has a"):
            use("b")


def test_a_topology_is_replaced_before_the_start_of_the_runtime(tmp_path: Path) -> None:
    runtime = StreamsRuntime(settings(tmp_path))
    before = runtime.add_topology("a", copy(), {"commit.interval.ms": 7})
    now = runtime.replace_topology("a", copy("more"))
    assert runtime.topology("a") is now is not before
    assert now.config.commit_interval_ms == 7, "settings stay unless others are given"
    assert runtime.replace_topology("a", copy(), {}).config.commit_interval_ms != 7
    with pytest.raises(TopologyError, match="'b'; it has a"):
        runtime.replace_topology("b", copy())


def test_a_topology_that_cannot_go_on_with_the_state_leaves_the_old_one(tmp_path: Path) -> None:
    runtime = StreamsRuntime(settings(tmp_path))
    before = runtime.add_topology("a", copy())
    lock = threading.Lock()
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(Serdes.string(), Serdes.string())).filter(lambda key, value: lock.locked())
    with pytest.raises(ConfigError, match="cannot be sent to Spark's workers"):
        runtime.replace_topology("a", builder.build())
    assert runtime.topology("a") is before


def test_what_cannot_be_the_name_of_a_topology_is_refused(tmp_path: Path) -> None:
    names: list[Any] = ["", "a b", "a/b", ".", "..", "ü", 5, None]
    for name in names:
        with pytest.raises(ConfigError, match="is no name of a topology") as raised:
            StreamsRuntime(settings(tmp_path)).add_topology(name, copy())
        assert raised.value.condition == "INVALID_NAME"


def test_a_setting_that_there_is_not_is_no_setting_of_the_runtime(tmp_path: Path) -> None:
    keys: list[Any] = ["commit.intervall.ms", 5]
    for key in keys:
        for use in (lambda given: StreamsRuntime(settings(tmp_path)).add_topology("a", copy(), given), StreamsRuntime):
            with pytest.raises(ConfigError) as raised:
                use({**settings(tmp_path), key: 1} if use is StreamsRuntime else {key: 1})
            assert raised.value.condition == "UNKNOWN_SETTING"


def test_a_builder_is_built_and_what_is_no_topology_is_refused(tmp_path: Path) -> None:
    runtime = StreamsRuntime(settings(tmp_path))
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(Serdes.string(), Serdes.string())).to("out")
    runtime.add_topology("a", builder)
    assert runtime.replace_topology("a", builder).topology.describe() == copy().describe()
    nothing: Any = None
    for use in (runtime.add_topology, runtime.replace_topology):
        with pytest.raises(TopologyError, match="give a Topology or a StreamsBuilder"):
            use("a", nothing)


def test_the_runtimes_own_application_id_is_not_for_a_topology(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="the runtime's own") as raised:
        StreamsRuntime(settings(tmp_path)).add_topology("a", copy(), application_id="shop")
    assert raised.value.condition == "TOPOLOGY_EXISTS"


def test_a_topology_with_a_frame_of_spark_at_an_end_is_refused(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(Serdes.string(), Serdes.string())).to_spark("rows", print)
    with pytest.raises(ConfigError, match="run it as a StreamsApp of its own") as raised:
        StreamsRuntime(settings(tmp_path)).add_topology("a", builder)
    assert raised.value.condition == "NOT_IN_SHARED_RUNTIME"


def test_an_order_of_topologies_names_those_that_there_are(tmp_path: Path) -> None:
    runtime = StreamsRuntime(settings(tmp_path))
    runtime.add_topology("a", copy())
    for order in ({"a": ["b"]}, {"b": ["a"]}):
        with pytest.raises(TopologyError, match="'b'; it has a"):
            runtime.run_to_end(after=order)
    assert runtime.state is State.CREATED


def test_a_closed_runtime_takes_nothing_any_more(tmp_path: Path) -> None:
    runtime = StreamsRuntime(settings(tmp_path))
    runtime.add_topology("a", copy())
    assert runtime.close() and runtime.close() and runtime.wait()
    for use in (
        lambda: runtime.add_topology("b", copy()),
        lambda: runtime.remove_topology("a"),
        lambda: runtime.pause("a"),
        lambda: runtime.resume("a"),
        lambda: runtime.restart("a"),
        lambda: runtime.replace_topology("a", copy()),
        runtime.start,
        runtime.run,
        runtime.run_to_end,
    ):
        with pytest.raises(StreamsStoppedError) as raised:
            use()
        assert raised.value.condition in ("NOT_RUNNING", "ALREADY_STARTED")
    assert runtime.topology("a").state is State.NOT_RUNNING, "what it was like can still be seen"


def test_a_topology_is_started_by_its_runtime_alone(tmp_path: Path) -> None:
    app = StreamsRuntime(settings(tmp_path)).add_topology("a", copy())
    for use in (app.start, app.start_to_end, app.run, app.run_to_end):
        with pytest.raises(StreamsStoppedError, match="run_to_end of the StreamsRuntime") as raised:
            use()
        assert raised.value.condition == "STARTED_BY_RUNTIME"


def test_the_membership_is_remembered_with_programs_and_wanted_states(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path)
    membership = Membership(blobs)
    program = membership.keep_program(copy(), {"commit.interval.ms": 7})
    membership.publish({"a": Member("shop-a", program, paused=True)})
    again = Membership(blobs)
    assert again.members == {"a": Member("shop-a", program, paused=True)}
    topology, given = again.program(program)
    assert (topology.describe(), given) == (copy().describe(), {"commit.interval.ms": 7})


def test_programs_that_no_topology_has_any_more_are_deleted_at_a_start(tmp_path: Path) -> None:
    membership = Membership(PosixBlobs(tmp_path))
    first = membership.keep_program(copy(), {})
    membership.publish({"a": Member("shop-a", first)})
    second = membership.keep_program(copy("other"), {})
    membership.publish({"a": Member("shop-a", second)})
    again = Membership(PosixBlobs(tmp_path))
    again.forget_programs()
    with pytest.raises(CheckpointError, match="add the topology again"):
        again.program(first)
    again.program(second)


def test_a_program_that_is_kept_for_a_request_outlasts_changes_of_other_topologies(tmp_path: Path) -> None:
    membership = Membership(PosixBlobs(tmp_path))
    of_request = Membership(PosixBlobs(tmp_path)).keep_program(copy("other"), {})
    membership.publish({"a": Member("shop-a", membership.keep_program(copy(), {}))})
    membership.program(of_request)


def test_a_list_that_is_replaced_while_another_process_reads_it_is_read_again(tmp_path: Path) -> None:
    runtime = Membership(PosixBlobs(tmp_path))
    runtime.publish({"a": Member("shop-a", "x")})

    class Changing(PosixBlobs):
        """A store whose list is replaced between two calls of its reader."""

        changes = 1

        def get(self, name: str) -> bytes | None:
            if self.changes:
                self.changes -= 1
                runtime.publish({"b": Member("shop-b", "y")})
            return super().get(name)

    assert Membership(Changing(tmp_path)).members == {"b": Member("shop-b", "y")}


def test_two_runtimes_cannot_both_change_the_membership(tmp_path: Path) -> None:
    one, other = Membership(PosixBlobs(tmp_path)), Membership(PosixBlobs(tmp_path))
    one.publish({"a": Member("shop-a", "x")})
    with pytest.raises(CheckpointError, match="another copy"):
        other.publish({"b": Member("shop-b", "y")})


def test_a_damaged_membership_or_program_is_named(tmp_path: Path) -> None:
    blobs = PosixBlobs(tmp_path)
    membership = Membership(blobs)
    program = membership.keep_program(copy(), {})
    membership.publish({"a": Member("shop-a", program)})
    file = tmp_path / "topology-programs" / program
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(CheckpointError, match="damaged"):
        Membership(blobs).program(program)
    (tmp_path / "topologies" / "000000000001").write_bytes(b"{")
    with pytest.raises(CheckpointError, match="topologies/000000000001"):
        Membership(blobs)


def test_programs_without_the_list_of_their_topologies_are_no_runtime_that_begins(tmp_path: Path) -> None:
    membership = Membership(PosixBlobs(tmp_path))
    membership.begin()
    membership.publish({"a": Member("shop-a", membership.keep_program(copy(), {}))})
    shutil.rmtree(tmp_path / "topologies")
    with pytest.raises(CheckpointError, match="restore topologies/ from a copy") as raised:
        Membership(PosixBlobs(tmp_path)).begin()
    assert raised.value.condition == "TOPOLOGIES_LOST"
    shutil.rmtree(tmp_path / "topology-programs")
    Membership(PosixBlobs(tmp_path)).begin()


def test_a_runtime_that_is_killed_between_its_first_program_and_list_starts_again(tmp_path: Path) -> None:
    membership = Membership(PosixBlobs(tmp_path))
    membership.begin()
    membership.keep_program(copy(), {})
    again = Membership(PosixBlobs(tmp_path))
    again.begin()
    assert again.members == {}


def test_a_file_that_is_no_list_is_not_read_as_one(tmp_path: Path) -> None:
    membership = Membership(PosixBlobs(tmp_path))
    membership.publish({"a": Member("shop-a", "x")})
    (tmp_path / "topologies" / "copy~").write_text("of an editor")
    again = Membership(PosixBlobs(tmp_path))
    assert again.members.keys() == {"a"}
    again.publish({"b": Member("shop-b", "y")})
    assert (tmp_path / "topologies" / "copy~").exists()
