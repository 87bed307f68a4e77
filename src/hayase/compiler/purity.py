"""Whether a sub-topology sends the same again when an epoch is replayed, and which definition of it that holds for."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from hayase.kernel.frame.expressions import canonical_text, is_pure_expression
from hayase.serde.json_schema_serde import JsonSchemaSerde
from hayase.serde.json_serde import JsonSerde
from hayase.serde.pickled import PickleSerde
from hayase.serde.protocol import Schema, Serde, inner_serdes
from hayase.serde.python_types import defaults_text, is_plain_type
from hayase.serde.registry_serde import RegistrySerde
from hayase.task.compiled_subtopology import CompiledSink, CompiledSource
from hayase.topology import operators as op
from hayase.topology.nodes import ProcessorNode, SinkNode, SourceNode

_OWN = "hayase."


def is_pure(
    source_nodes: Sequence[SourceNode],
    sources: Sequence[CompiledSource],
    processors: Sequence[ProcessorNode],
    sinks: Sequence[SinkNode],
    sent: Sequence[CompiledSink],
    compacted: frozenset[str],
) -> bool:
    """Whether outputs are a function of the input ranges alone: no code of the application is called on the way.

    Args:
        source_nodes: of the sub-topology.
        sources: the same, with the serdes and extractors in effect.
        processors: of the sub-topology.
        sinks: of the sub-topology.
        sent: the same, with the serdes in effect.
        compacted: topics with compaction: a replay may find fewer records.
    """
    if any(topic in compacted for node in source_nodes for topic in node.topics):
        return False
    if any(source.extractor.function is not None for source in sources):
        return False
    read = [serde for source in sources for serde in (source.key_serde, source.value_serde)]
    written = [serde for sink in sent for serde in (sink.key_serde, sink.value_serde)]
    if not all(map(_is_own, [*read, *written])):
        return False
    if any(calls_python(function) for sink in sinks for function in (sink.extractor, sink.partitioner)):
        return False
    return not any(
        isinstance(node.operator, op.StreamGlobalTableJoin) or calls_python(node.operator) for node in processors
    )


def _is_own(serde: Serde) -> bool:
    """Whether a serde, and each that it is made of, is Hayase's and calls no code of a class of the application."""
    if not type(serde).__module__.startswith(_OWN) or isinstance(serde, PickleSerde):
        return False
    python_type = _python_type(serde)
    return (python_type is None or is_plain_type(python_type)) and all(map(_is_own, inner_serdes(serde)))


def _python_type(serde: Serde) -> Any:
    """The application's type that a serde makes values of; `None` if it has none."""
    return serde.python_type if isinstance(serde, JsonSerde | JsonSchemaSerde) else None


def calls_python(value: object) -> bool:
    """Whether an operator, or anything in it, holds a Python function or an expression that is not pure."""
    match value:
        case op.VectorizedFunction():
            return not value.pure
        case pl.Expr():
            return not is_pure_expression(value)
        case Schema() | None | bool() | int() | float() | str() | bytes() | pl.DataType():
            return False
        case tuple() | list() | frozenset() | set():
            return any(map(calls_python, value))
        case Mapping():
            return any(map(calls_python, value.values()))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return any(calls_python(getattr(value, item.name)) for item in dataclasses.fields(value))
    if isinstance(value, type) and issubclass(value, pl.DataType):
        return False
    return callable(value)


def definition_digest(
    sources: Sequence[CompiledSource], processors: Sequence[ProcessorNode], sent: Sequence[CompiledSink]
) -> str:
    """Digest of what a pure sub-topology does to its records: nodes, expressions, serdes and extractors."""
    digest = hashlib.blake2b(digest_size=16)
    for source in sources:
        extractor = source.extractor
        for part in (source.name, extractor.kind, extractor.on_invalid, extractor.field or ""):
            digest.update(f"{part}\n".encode())
        for serde in (source.key_serde, source.value_serde):
            digest.update(_serde_text(serde).encode())
    for node in processors:
        digest.update(f"{node.name} {node.parents} {type(node.operator).__name__}\n".encode())
        for text in _texts(node.operator):
            digest.update(text.encode() + b"\n")
    for sink in sent:
        for serde in (sink.key_serde, sink.value_serde):
            digest.update(_serde_text(serde).encode())
    return digest.hexdigest()


def _serde_text(serde: Serde) -> str:
    columns, python_type = serde.columns, _python_type(serde)
    text = f"{type(serde).__name__} {columns.schema if columns is not None else ''} {serde.definition}\n"
    if python_type is not None:
        text += f"{defaults_text(python_type)}\n"
    elif isinstance(serde, RegistrySerde) and serde.own is not None:
        text += f"{serde.own.text}\n"  # as it was given: to resolve references, the registry would be asked
    return text + "".join(map(_serde_text, inner_serdes(serde)))


def _texts(value: object) -> Iterator[str]:
    """What a pure operator is made of, as text that is the same in every process."""
    if isinstance(value, op.VectorizedFunction):
        yield value.definition
    elif isinstance(value, pl.Expr):
        yield canonical_text(value)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield str(key)
            yield from _texts(each)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type) and not isinstance(value, Schema):
        for item in dataclasses.fields(value):
            yield item.name
            yield from _texts(getattr(value, item.name))
    else:
        yield str(value)
