"""The functions of the user, as operators call them, by Kafka Streams' names.

What is left open is of any type: `KeyValueMapper` takes any key and value. The DSL says more where it takes a function.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from hayase.core.type_variables import KR, VO, VR, K, T, V

Predicate = Callable[[K, V], bool] | pl.Expr
"""`(key, value) -> bool`, or an expression; null counts as false."""

KeyValueMapper = Callable[[K, V], VR]
"""`(key, value) -> result`."""

PairMapper = Callable[[K, V], tuple[KR, VR]]
"""`(key, value) -> (key, value)`."""

ForeachAction = Callable[[K, V], None]
"""`(key, value)`, called for its side effect."""

ValueJoiner = Callable[[K, V, VO], VR]
"""`(key, left, right) -> result`."""

Initializer = Callable[[], VR]
"""`() -> aggregate`."""

Aggregator = Callable[[K, V, VR], VR]
"""`(key, value, aggregate) -> aggregate`."""

Merger = Callable[[K, VR, VR], VR]
"""`(key, left, right) -> aggregate`."""

Reducer = Callable[[V, V], V]
"""`(aggregate, value) -> aggregate`."""

Supplier = Callable[[], T]
"""Makes an object of the user for each task."""
