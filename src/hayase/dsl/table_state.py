"""The state of tables while their topology is built, and the stores of their rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hayase.core.errors import TopologyError
from hayase.dsl.graph import Graph
from hayase.dsl.inference import Known, concrete_serde
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.store_suppliers import ttl_not_possible
from hayase.dsl.views import TableMaterialization
from hayase.serde import JsonSerde
from hayase.state.stores.spec import StoreSpec


@dataclass(frozen=True)
class LateSource:
    """The nodes that refuse late records, and what is known about these: windowed keys, values as they came."""

    nodes: tuple[str, ...]
    key: Known
    value: Known


@dataclass(frozen=True)
class TableState:
    """The state of a table: its node, and what is known of keys, values and stores.

    Attributes:
        graph: of the topology.
        node: the node that sends its updates.
        key: what is known about keys.
        value: what is known about values.
        view: where its rows can be read.
        queryable: name of its store if it was named.
        closes_after_ms: of a windowed table: how long after its end a window can still change.
        late: where its late records come from, if it is a windowed aggregate.
    """

    graph: Graph
    node: str
    key: Known
    value: Known
    view: TableMaterialization
    queryable: str | None
    closes_after_ms: int | None = None
    late: LateSource | None = None


@dataclass(frozen=True)
class GlobalTableState:
    """The state of a global table while the topology is built; `store` holds its rows."""

    graph: Graph
    store: str
    key: Known
    value: Known
    queryable: str | None


def table_spec(options: Materialized[object, object], name: str, key: Known, value: Known) -> StoreSpec:
    """The store of a table that is not windowed: versioned if it is to be.

    Raises:
        TopologyError: `TTL_NOT_POSSIBLE`: it is to be versioned and to forget rows.
    """
    spec = key_value_spec(replace(options, versioned=None), name, key, value)
    if options.versioned is None:
        return spec
    refuse_ttl(options, name, "a versioned store forgets by its history_retention")
    return replace(
        spec,
        kind="versioned_key_value",
        retention_ms=options.versioned.history_ms,
        segment_interval_ms=options.versioned.segment_interval_ms,
        caching=False,
    )


def keeps_store(options: Materialized[object, object]) -> bool:
    """Whether a table that keeps a store only if that has a name is to keep one.

    Raises:
        TopologyError: `TTL_NOT_POSSIBLE`: there is no store that could forget rows.
    """
    if options.name is None:
        refuse_ttl(options, "(no name)", "no store is kept here unless it is named, by Materialized.as_(name)")
    return options.name is not None


def refuse_ttl(options: Materialized[object, object], name: str, reason: str) -> None:
    """Raise TopologyError `TTL_NOT_POSSIBLE` if rows are to be forgotten in a store that cannot."""
    if options.ttl_ms is not None:
        raise ttl_not_possible(name, reason)


def key_value_spec(options: Materialized[object, object], name: str, key: Known, value: Known) -> StoreSpec:
    """The store of a table that has no versions: a global one, or one whose keys are windowed later on.

    Raises:
        TopologyError: `VERSIONED_STORE`: it is to be versioned; `TTL_NOT_POSSIBLE`: it is to forget rows, without a
            changelog.
    """
    if not options.logging:
        refuse_ttl(options, name, "its time is kept with changelogs, so it needs with_logging_enabled")
    if options.versioned is not None:
        raise TopologyError(
            "VERSIONED_STORE",
            f"{name!r} is a versioned store; global tables and what is aggregated in windows or sessions have no "
            "versions, so give Materialized.as_ a name",
        )
    return StoreSpec(
        name,
        "timestamped_key_value",
        options.key_serde or concrete_serde(key, "key", name),
        options.value_serde or concrete_serde(value, "value", name, fallback=JsonSerde()),
        caching=options.caching and options.ttl_ms is None,
        logging=options.logging,
        store_type=options.store_type,
        ttl_ms=options.ttl_ms,
    )
