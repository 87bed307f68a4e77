"""Cases of the golden traces in one topology: every name that would clash gets the case's own prefix."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.golden.build import Interpreter
from tests.golden.cases import Case, Unsupported

from hayase.topology.topology import Topology

_NAMES = frozenset({"store", "topic"})
_LISTS = frozenset({"stores", "topics"})


@dataclass(frozen=True)
class Together:
    """Attributes: `cases` have the names that they have in the topology."""

    topology: Topology
    cases: Sequence[Case]


def alone(case: Case) -> bool:
    """Whether a case cannot share an application.

    Settings of its own, an error that ends it, topics chosen by its records.
    """
    if set(case["config"]) - {"optimize", "store_type", "dsl_store_format"} or case["expected"].get("error"):
        return True
    text = json.dumps(case["topology"])
    chosen = any("topic_expr" in node.get("args", {}) or "pattern" in node.get("args", {}) for node in case["topology"])
    return chosen or '{"var": "topic"}' in text or any("advance_wall_clock_ms" in item for item in case["inputs"])


def by_hand(case: Case) -> bool:
    """Whether its topology is made node by node."""
    return any(node["op"].startswith("papi") for node in case["topology"])


def put_together(cases: Sequence[Case]) -> Together:
    """One topology of many cases; of those that are made by hand, or of those that are not, and all optimized or none.

    Raises:
        Unsupported: one of them needs what is not there yet.
    """
    renamed = [prefixed(case, f"c{number}-") for number, case in enumerate(cases)]
    interpreter = Interpreter()
    for case in renamed:
        interpreter.add(case)
    return Together(interpreter.finish(optimize=bool(cases[0]["config"].get("optimize"))), renamed)


def prefixed(case: Case, prefix: str) -> Case:
    """The case with its topics, stores and names under a prefix."""

    def value(key: str, found: Any) -> Any:
        if key in _NAMES and isinstance(found, str):
            return prefix + found
        if key in _LISTS and isinstance(found, list):
            return [prefix + each for each in found]
        return walked(found)

    def walked(found: Any) -> Any:
        if isinstance(found, dict):
            to = {"to": prefix + found["to"]} if found.get("do") == "forward" and "to" in found else {}
            return {**{key: value(key, each) for key, each in found.items()}, **to}
        return [walked(each) for each in found] if isinstance(found, list) else found

    def node(found: Any) -> Any:
        args = walked(found.get("args", {}))
        if "name" in args:
            args["name"] = prefix + args["name"]
        for name in ("processors",):
            if name in args:
                args[name] = [prefix + each for each in args[name]]
        return {
            **found,
            "id": prefix + found["id"],
            "from": [prefix + each for each in found.get("from", [])],
            "args": args,
        }

    expected = dict(case["expected"])
    expected["outputs"] = [{**each, "topic": prefix + each["topic"]} for each in expected["outputs"]]
    expected["stores"] = {prefix + name: store for name, store in expected.get("stores", {}).items()}
    inputs = [
        {**item, "batch": [{**each, "topic": prefix + each["topic"]} for each in item["batch"]]}
        if "batch" in item
        else {**item, "topic": prefix + item["topic"]}
        for item in case["inputs"]
    ]
    topology = [node(each) for each in case["topology"]]
    if "queries" in case:
        expected = {**expected, "queries": case["expected"]["queries"]}
        case = {**case, "queries": [{**query, "store": prefix + query["store"]} for query in case["queries"]]}
    return {**case, "topology": topology, "inputs": inputs, "expected": expected}


__all__ = ["Together", "Unsupported", "alone", "by_hand", "prefixed", "put_together"]
