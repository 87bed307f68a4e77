"""Running processors of the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any

from hayase.core.call_site import users_line
from hayase.core.errors import HayaseError, ProcessingError, TopologyError, UnknownStoreError
from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record, RecordMetadata
from hayase.core.secrets import resolved
from hayase.core.windows import to_ms
from hayase.kernel.node.row_node import LivingProcessor, RowContext, RowNode
from hayase.processor.api import (
    Cancellable,
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    FixedKeyRecord,
    ProcessingContext,
    Processor,
    ProcessorContext,
    PunctuationType,
    Punctuator,
)
from hayase.processor.metrics import StreamsMetrics
from hayase.processor.signatures import check_takes
from hayase.serde.faults import said
from hayase.state.stores.views import ReadOnlyView, WritableView, open_read_only_view, open_view, with_interface
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import Process

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ProcessRows(RowNode):
    """Process in row form, the only one."""

    def __init__(self, node: ProcessorNode, operator: Process, ctx: RowContext) -> None:
        super().__init__(ctx)

        def make() -> tuple[Any, _Context | _FixedKeyContext]:
            processor = operator.supplier()
            if isinstance(processor, FixedKeyProcessor):
                return processor, _FixedKeyContext(ctx, node.stores)
            if isinstance(processor, Processor) and not operator.fixed_key:
                return processor, _Context(ctx, node.stores)
            wanted = "FixedKeyProcessor" if operator.fixed_key else "Processor"
            raise TopologyError(
                "INVALID_PROCESSOR",
                f"the supplier of this node gave {processor!r}; it must make a {wanted}",
                node=ctx.name,
            )

        self._processor = living_processor(ctx, make)
        self._fixed_key = isinstance(self._processor, FixedKeyProcessor)

    def process(self, record: Record) -> None:
        """Hand one record to the processor."""
        if self._fixed_key:
            fixed = FixedKeyRecord(record.key, record.value, record.timestamp_ms, record.headers)
            self._processor.process(fixed)
        else:
            self._processor.process(record)


_PROCESS = ("process", ("record",))


def living_processor(
    ctx: RowContext, make: Callable[[], tuple[Any, _Shared]], called: tuple[str, tuple[str, ...]] = _PROCESS
) -> Any:
    """The processor of a node: in the task's first epoch in this process a new one, whose `init` is called.

    Args:
        ctx: of the node.
        make: makes it, and its context.
        called: the method that is called with records, and its arguments.

    Raises:
        TopologyError: `INVALID_FUNCTION`: one of its methods cannot be called so.
        ProcessingError: `PROCESSOR_FAILED`.
    """
    living = ctx.env.processors.get(ctx.name)
    if isinstance(living, _LivingProcessor):
        living.context.renew(ctx)
        return living.processor
    with user_code("init", ctx):
        processor, context = make()
        for method, arguments in (("init", ("context",)), called):
            what = f"{method} of {type(processor).__name__}"
            check_takes(getattr(processor, method), arguments, what, node=ctx.name)
        ctx.env.processors[ctx.name] = _LivingProcessor(ctx.name, processor, context)
        processor.init(context)
    context.initialized = True
    return processor


class _LivingProcessor(LivingProcessor):
    def __init__(self, name: str, processor: Any, context: _Shared) -> None:
        super().__init__(name)
        self.processor = processor
        self.context = context

    def close(self) -> None:
        with user_code("close", self.context.end()):
            self.processor.close()


@contextmanager
def user_code(what: str, ctx: RowContext) -> Iterator[None]:
    """Around what is called without a record that could be dropped: what fails in it ends the application.

    Raises:
        ProcessingError: `PROCESSOR_FAILED`.
    """
    try:
        yield
    except HayaseError:
        raise
    except (Exception, SystemExit) as error:  # sys.exit would end a process that others are in
        raise ProcessingError(
            "PROCESSOR_FAILED",
            f"{what} of the processor failed: {said(error)}; fix it, the epoch is run again then",
            node=ctx.name,
            task=ctx.env.task_id,
        ) from error


class _Shared:
    """Of all kinds of context; what the methods promise is said in `hayase.processor.api.ProcessingContext`."""

    initialized = False
    """Whether `init` is over: what is scheduled later is not kept."""

    def __init__(self, ctx: RowContext, stores: tuple[str, ...]) -> None:
        self._stores = stores
        self._views: dict[str, WritableView | ReadOnlyView] = {}
        self._opened: dict[str, object] = {}
        self._ended = False
        self.renew(ctx)

    def renew(self, ctx: RowContext) -> None:
        """Start of an epoch. Stores that the processor has stay the objects they are, over the state of this epoch."""
        self._ctx = ctx
        self._env = ctx.env
        self._children: Mapping[str, int] = {child.name: at for at, child in enumerate(ctx.children)}
        for name, view in self._views.items():
            vars(view).update(vars(self._view(name)))

    def end(self) -> RowContext:
        """The processor is about to be closed: there is no epoch that stores and records could belong to.

        Returns the context of the last epoch, for errors.
        """
        self._ended = True
        for view in self._views.values():
            vars(view).clear()
            view.__class__ = _closed(type(view))
        return self._ctx

    @property
    def application_id(self) -> str:
        return self._env.application_id

    def app_configs(self) -> Mapping[str, object]:
        return MappingProxyType(resolved(self._env.app_configs))

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, object]:
        configs = self._env.app_configs
        return MappingProxyType(
            resolved({key.removeprefix(prefix): configs[key] for key in configs if key.startswith(prefix)})
        )

    @property
    def task_id(self) -> str:
        return self._env.task_id

    def metrics(self) -> StreamsMetrics:
        return StreamsMetrics(lambda: self._env.metrics, self._ctx.name)

    def get_state_store(self, name: str) -> Any:
        store = self._opened.get(name)
        if store is None:
            store = self._opened[name] = self._open(name)
        return store

    def _open(self, name: str) -> Any:
        self._refuse_after_end("stores are used")
        view = self._views[name] = self._view(name)
        return with_interface(self._env.store_spec(name), view)

    def _view(self, name: str) -> WritableView | ReadOnlyView:
        env, node = self._env, self._ctx.name
        if name in self._stores:
            spec = env.store_spec(name)
            return open_view(spec, env.byte_store(name), partial(env.metrics.add, DROPPED_RECORDS, node))
        if env.is_global(name):
            spec = env.store_spec(name)
            return open_read_only_view(spec, env.byte_store(name))
        raise UnknownStoreError(
            "STORE_NOT_CONNECTED",
            f"this processor has no store {name!r}; it is connected with {sorted(self._stores)}. Name the store where "
            "the processor is added, or connect the two by connect_processor_and_state_stores",
            node=node,
            line=users_line(),
        )

    def schedule(
        self,
        interval: timedelta,
        type: PunctuationType,  # noqa: A002 - Kafka Streams' name
        callback: Punctuator,
        start_time: datetime | None = None,
    ) -> Cancellable:
        self._refuse_after_end("punctuations are scheduled")
        check_takes(callback, ("now_ms",), "a punctuator", node=self._ctx.name)
        interval_ms = to_ms("interval", interval, minimum_ms=1)
        start_ms = None if start_time is None else _start_ms(start_time, self._ctx.name)
        return self._env.punctuations.schedule(
            self._ctx.name, type, callback, interval_ms, start_ms, keep=not self.initialized
        )

    def record_metadata(self) -> RecordMetadata | None:
        return self._env.metadata()

    def current_stream_time_ms(self) -> int:
        return self._env.stream_time_ms

    def current_system_time_ms(self) -> int:
        return self._env.wall_clock_ms

    def _refuse_after_end(self, what: str) -> None:
        if self._ended:
            raise ProcessingError(
                "PROCESSOR_CLOSED",
                f"{what} in close(), which is called outside of epochs: nothing of it would be kept. Do it in "
                "process, or in a punctuation",
                node=self._ctx.name,
            )

    def _forward(self, record: Record, child_name: str | None) -> None:
        self._refuse_after_end("records are forwarded")
        if not self.initialized:
            raise ProcessingError(
                "PROCESSOR_FAILED",
                "a record is forwarded in init(), before the first record of the epoch: do it in process, or in a "
                "punctuation",
                node=self._ctx.name,
            )
        if child_name is None:
            self._ctx.forward(record)
            return
        child = self._children.get(child_name)
        if child is None:
            raise TopologyError(
                "UNKNOWN_CHILD",
                f"there is no child {child_name!r} to forward to; the children are {sorted(self._children)}",
                node=self._ctx.name,
            )
        self._ctx.forward_to(child, record)


def _closed(kind: Any) -> Any:
    """The class of a store whose processor is closed."""

    def refuse(_: object, name: str) -> Any:
        raise ProcessingError(
            "PROCESSOR_CLOSED",
            f"a store is used ({name}) in close(), or after it: close is called outside of epochs, and nothing would "
            "be kept. Do it in process, or in a punctuation",
        )

    return type(kind.__name__, (kind,), {"__getattribute__": refuse})


class _Context(_Shared, ProcessorContext[Any, Any]):
    def forward(self, record: Record, child_name: str | None = None) -> None:
        if not isinstance(record, Record):
            raise TopologyError(
                "INVALID_RECORD",
                f"forward takes a Record, not {type(record).__name__}; make one with record.with_value(…) or "
                "Record(key, value, timestamp_ms)",
                node=self._ctx.name,
            )
        if child_name is not None and self.initialized and not self._ended:
            child = self._children.get(child_name)
            if child is not None:  # the usual case, without further calls: processors may send much
                self._ctx.forward_to(child, record)
                return
        self._forward(record, child_name)


class _FixedKeyContext(_Shared, FixedKeyProcessorContext[Any, Any]):
    def forward(self, record: FixedKeyRecord[object, object], child_name: str | None = None) -> None:
        if not isinstance(record, FixedKeyRecord):
            raise TopologyError(
                "INVALID_RECORD",
                "a fixed-key processor forwards the record it was given, changed by its with_… methods, not "
                f"{type(record).__name__}; to change keys use process",
                node=self._ctx.name,
            )
        self._forward(Record(record.key, record.value, record.timestamp_ms, record.headers), child_name)


class TransformContext(_Shared, ProcessingContext):
    """Of a transformer of values: nothing can be forwarded, a row has one result."""


def _start_ms(start_time: datetime, node: str) -> int:
    if start_time.tzinfo is None:
        raise TopologyError("NAIVE_TIME", f"start_time needs a time zone: {start_time!r}", node=node)
    return (start_time - _EPOCH) // timedelta(milliseconds=1)  # whole numbers: a float loses a millisecond
