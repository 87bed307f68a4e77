"""A shared runtime some of whose remembered programs cannot be loaded: these topologies fail alone."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.spark.place import Place
from tests.unit.app.query_in_process import QueryInProcess, embedded_place, runtime_in

from hayase import Consumed, Serdes, State, StreamsBuilder, Topology
from hayase.app.membership import Member, Membership
from hayase.core.errors import CheckpointError, TopologyError
from hayase.runtime.driver import shared_query
from hayase.storage.posix_blobs import PosixBlobs

OF_ANOTHER_RELEASE = pickle.dumps(([], b"chayase.topology.topology\nNoSuchNode\n."))
WAIT_S = 30


def copying(name: str) -> Topology:
    text = Serdes.string()
    builder = StreamsBuilder()
    builder.stream("numbers", Consumed.with_(text, text)).to(f"out-{name}")
    return builder.build()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(shared_query, "SharedQuery", QueryInProcess)
    with embedded_place(tmp_path, "numbers", "out-good", "out-bad") as made:
        yield made


def checkpoint(place: Place) -> Path:
    config = runtime_in(place).config
    return config.state_dir / config.application_id / "checkpoint"


def remembering_two(place: Place) -> None:
    """A runtime with two topologies has run."""
    with runtime_in(place) as runtime:
        runtime.start()
        runtime.add_topology("good", copying("good"))
        runtime.add_topology("bad", copying("bad"))


def truncate_program(folder: Path) -> str:
    digest = Membership(PosixBlobs(folder)).members["bad"].program
    file = folder / "topology-programs" / digest
    file.write_bytes(file.read_bytes()[:100])
    return "PROGRAM_DAMAGED"


def put_program_of_another_release(folder: Path) -> str:
    membership = Membership(PosixBlobs(folder))
    digest = hashlib.blake2b(OF_ANOTHER_RELEASE, digest_size=16).hexdigest()
    (folder / "topology-programs" / digest).write_bytes(OF_ANOTHER_RELEASE)
    membership.publish({**membership.members, "bad": Member(membership.members["bad"].application_id, digest)})
    return "PROGRAM_NOT_LOADABLE"


def forget_program(folder: Path) -> str:
    (folder / "topology-programs" / Membership(PosixBlobs(folder)).members["bad"].program).unlink()
    return "PROGRAM_NOT_FOUND"


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.long
@pytest.mark.parametrize("spoil", [truncate_program, put_program_of_another_release, forget_program])
def test_a_remembered_program_that_cannot_be_loaded_is_the_error_of_its_topology(
    place: Place, spoil: Callable[[Path], str]
) -> None:
    remembering_two(place)
    condition = spoil(checkpoint(place))
    place.put("numbers", [("a", "1", 1)])
    with runtime_in(place) as runtime:
        runtime.start()
        wait_until(lambda: len(place.partitions("out-good")[0]) == 1)
        bad = runtime.topology("bad")
        assert bad.state is State.ERROR
        assert bad.error is not None and bad.error.condition == condition
        assert "replace it by its program" in str(bad.error)
        with pytest.raises(CheckpointError, match="To restart it does not help"):
            runtime.restart("bad")
        runtime.pause("bad")
        assert runtime.state is State.RUNNING
    with runtime_in(place) as runtime:
        runtime.start()
        assert runtime.topology("bad").state is State.ERROR, "it is still remembered"
        runtime.resume("bad")
        runtime.replace_topology("bad", copying("bad"))
        wait_until(lambda: len(place.partitions("out-bad")[0]) == 1)
    with runtime_in(place) as runtime:
        runtime.start()
        assert runtime.topology("bad").error is None


@pytest.mark.long
def test_a_topology_whose_remembered_program_cannot_be_loaded_can_be_removed(place: Place) -> None:
    remembering_two(place)
    truncate_program(checkpoint(place))
    with runtime_in(place) as runtime:
        runtime.start()
        runtime.remove_topology("bad", delete_state=True)
        with pytest.raises(TopologyError, match="has good"):
            runtime.topology("bad")
    assert Membership(PosixBlobs(checkpoint(place))).members.keys() == {"good"}


@pytest.mark.long
def test_a_program_of_a_file_takes_the_place_of_a_remembered_one_that_cannot_be_loaded(place: Place) -> None:
    remembering_two(place)
    truncate_program(checkpoint(place))
    with runtime_in(place) as runtime:
        runtime.add_topology("bad", copying("bad"))
        runtime.start()
        assert runtime.topology("bad").error is None
