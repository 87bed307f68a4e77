"""Where topologies of a shared runtime begin: slots get equally many bundles, which stay where they are."""

from __future__ import annotations

from collections import Counter

from hayase import Consumed, Grouped, Serdes, StreamsBuilder, count
from hayase.compiler.build import make_plan
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options
from hayase.core.config import StreamsConfig
from hayase.runtime.driver.slot_loads import SlotLoads
from hayase.runtime.wire.app_spec import slot_of_bundles
from hayase.task.plan import Plan


def plan_of(partitions: int, *, levels: int = 1) -> Plan:
    """The plan of a topology with a bundle for each partition and level."""
    builder = StreamsBuilder()
    text = Serdes.string()
    stream = builder.stream("in", Consumed.with_(text, text))
    by_value = Grouped.with_(text, text)
    (stream.group_by_key() if levels == 1 else stream.group_by(lambda key, value: value, by_value)).agg(n=count())
    topology, options = builder.build(), compile_options(StreamsConfig({"application.id": "app"}))
    compiled = compile_subtopologies(topology, options)
    return make_plan(topology, {"in": partitions}, compiled, threads=1, bundles_per_subtopology=partitions)


def test_of_fifty_topologies_of_one_bundle_each_slot_gets_its_share() -> None:
    loads = SlotLoads(4)
    firsts = Counter(loads.first_slot(f"shop-{number}", plan_of(1)) for number in range(50))
    assert sorted(firsts.values()) == [12, 12, 13, 13]


def test_a_topology_of_several_bundles_leaves_the_next_ones_the_slots_that_have_fewer() -> None:
    loads, plan = SlotLoads(4), plan_of(3, levels=2)
    first = loads.first_slot("large", plan)
    free = {0, 1, 2, 3} - set(slot_of_bundles(plan, first, 4).values())
    assert {loads.first_slot(f"small-{number}", plan_of(1)) for number in range(2)} == free


def test_a_topology_that_is_started_again_keeps_its_slots_and_one_that_is_gone_leaves_them() -> None:
    loads = SlotLoads(2)
    assert [loads.first_slot(name, plan_of(1)) for name in ("a", "b", "c")] == [0, 1, 0]
    loads.remove("b")
    assert loads.first_slot("a", plan_of(1)) == 0, "though the other slot is empty"
    assert loads.first_slot("d", plan_of(1)) == 1
    assert loads.first_slot("d", plan_of(3)) == 1, "though its plan is another one"
    assert loads.first_slot("e", plan_of(1)) == 1, "the other one has a bundle each of a, c and d"
