"""Programs of earlier releases, whose objects lack fields."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.unit.runtime.planner_scene import Scene

from hayase import Consumed, Materialized, Serdes, StreamsBuilder, TimeWindows, Topology
from hayase.core.secrets import Vault
from hayase.runtime.wire.app_spec import programs
from hayase.runtime.wire.pickling import pickled, unpickled
from hayase.runtime.wire.whole_objects import check_whole
from hayase.storage.posix_blobs import PosixBlobs
from hayase.topology.operators.aggregates import StreamAggregate


class OfBefore:
    """Pickled as the value was by a release whose class did not have the last field yet."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        cls = type(self._value)
        return object.__new__, (cls,), self._value.__getstate__()[:-1]


def counting() -> Topology:
    text = Serdes.string()
    builder = StreamsBuilder()
    numbers = builder.stream("in", Consumed.with_(text, text))
    numbers.map_values(lambda value: value).group_by_key().count(Materialized.as_("counts"))
    return builder.build()


def test_what_this_release_has_made_is_whole() -> None:
    check_whole(unpickled(pickled(counting())))


def test_an_operator_that_lacks_a_field_is_named() -> None:
    topology = counting()
    operators = [getattr(node, "operator", None) for node in topology.nodes]
    aggregate = next(each for each in operators if isinstance(each, StreamAggregate))
    (loaded,) = pickle.loads(pickle.dumps([OfBefore(aggregate)]))
    with pytest.raises(AttributeError, match="StreamAggregate has no cogrouped: another release"):
        check_whole({"nodes": [(loaded,)]})


def test_objects_within_dataclasses_are_looked_at() -> None:
    within = pickle.loads(pickle.dumps(OfBefore(TimeWindows(1, 1, 0))))
    topology = dataclasses.replace(counting(), repartitions={"x": within})
    with pytest.raises(AttributeError, match="TimeWindows has no grace_ms"):
        check_whole(topology)


def test_a_program_that_is_not_whole_is_one_that_cannot_be_loaded(tmp_path: Path) -> None:
    app = Scene(tmp_path / "scene").app
    blobs, vault = PosixBlobs(tmp_path / "c", fsync=False), Vault()
    app.publish(blobs, vault)
    windows: Any = OfBefore(TimeWindows(1, 1, 0))
    dataclasses.replace(app, topology=dataclasses.replace(app.topology, repartitions={"x": windows})).publish(
        blobs, vault
    )
    vault.close()
    assert len(blobs.list("programs/")) == 2
    (loaded,) = programs(blobs)
    assert loaded.topology.repartitions == app.topology.repartitions
