"""The list of a shared runtime's topologies, from the driver to the planner."""

from __future__ import annotations

import os
from pathlib import Path

from hayase.runtime.wire.topology_list import TopologyList, TopologyStarts


def test_a_start_in_place_of_another_has_a_number_of_its_own(tmp_path: Path) -> None:
    starts, planner = TopologyStarts(tmp_path), TopologyList(tmp_path)
    assert planner.changed() is None
    assert starts.add("shop", {"digest": "a"}, bounded=False) == 1
    assert starts.add("shop", {"digest": "b"}, bounded=True) == 2
    listed = planner.changed()
    assert listed is not None and (listed["shop"].start, listed["shop"].options) == (2, {"digest": "b"})
    assert planner.changed() is None
    starts.remove("shop")
    assert planner.changed() == {}


def test_two_lists_of_the_same_moment_are_told_apart(tmp_path: Path) -> None:
    starts, planner = TopologyStarts(tmp_path), TopologyList(tmp_path)
    starts.add("a", {}, bounded=False)
    (file,) = tmp_path.iterdir()
    os.utime(file, ns=(7, 7))
    assert planner.changed() is not None
    starts.add("b", {}, bounded=False)
    os.utime(file, ns=(7, 7))
    listed = planner.changed()
    assert listed is not None and sorted(listed) == ["a", "b"]
