"""Operations that one of KStream and KTable does not have, and the call that leads to them."""

from __future__ import annotations

from typing import NoReturn

_OF_GROUPS = ("windowed_by", "count", "reduce", "aggregate", "agg", "cogroup")
_OF_STREAMS = (
    *(
        "to",
        "to_spark",
        "to_connector",
        "foreach",
        "peek",
        "print",
        "process",
        "process_values",
        "map",
        "flat_map",
        "flat_map_values",
    ),
    *("select_key", "merge", "split", "through", "repartition", "windowed_by"),
)


def of_groups(kind: str, name: str) -> NoReturn:
    """Raise for an attribute that a stream does not have: a grouped one may have it."""
    hint = f"; group it first: group_by_key().{name}(…) or group_by(…).{name}(…)" if name in _OF_GROUPS else ""
    raise AttributeError(f"{kind!r} object has no attribute {name!r}{hint}", name=name)


def of_streams(kind: str, name: str) -> NoReturn:
    """Raise for an attribute that a table does not have: its stream of updates, or a grouped one, may have it."""
    hint = f"; take its updates as a stream first: to_stream().{name}(…)" if name in _OF_STREAMS else ""
    if name in ("count", "reduce", "aggregate", "agg"):
        hint = f"; group it first: group_by(…).{name}(…)"
    raise AttributeError(f"{kind!r} object has no attribute {name!r}{hint}", name=name)
