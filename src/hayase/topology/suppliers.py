"""What supplies processors of the user, and which stores it brings along."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from hayase.core.errors import TopologyError
from hayase.processor.api import FixedKeyProcessor, Processor, ValueTransformerWithKey
from hayase.state.stores.spec import StoreSpec
from hayase.topology.operators.functions import Supplier


def check_supplier(supplier: object, wanted: type[object]) -> Supplier:
    """The supplier of such objects, if it is one.

    What it makes is looked at only if it is a class: it is called when a task begins.

    Raises:
        TopologyError: `INVALID_PROCESSOR`.
    """
    what = f"a subclass of {wanted.__name__}, or a function without arguments that makes one"
    if isinstance(supplier, Processor | FixedKeyProcessor | ValueTransformerWithKey):
        raise TopologyError(
            "INVALID_PROCESSOR",
            f"{supplier!r} is one processor, and every task needs its own: give {what}, e.g. lambda: "
            f"{type(supplier).__name__}(…)",
        )
    if isinstance(supplier, type) and not issubclass(supplier, wanted):
        raise TopologyError("INVALID_PROCESSOR", f"{supplier.__qualname__} is not {what}")
    if not callable(supplier) or _needs_arguments(supplier):
        raise TopologyError("INVALID_PROCESSOR", f"{supplier!r} is not {what}")
    return supplier


def _needs_arguments(supplier: Callable[..., object]) -> bool:
    try:
        inspect.signature(supplier).bind()
    except TypeError:
        return True
    except ValueError:  # of a built-in: not known
        return False
    return False


def brought_stores(supplier: object) -> tuple[StoreSpec, ...]:
    """The stores that a supplier's `stores()` gives (KIP-401): they are added, and connected with its processors.

    Raises:
        TopologyError: `INVALID_STORE`.
    """
    stores = getattr(supplier, "stores", None)
    specs = tuple(stores()) if callable(stores) else ()
    for spec in specs:
        check_store(spec, "stores()")
    return specs


def check_store(spec: object, what: str) -> StoreSpec:
    """The store, if it is one; raises TopologyError `INVALID_STORE`."""
    if not isinstance(spec, StoreSpec):
        raise TopologyError("INVALID_STORE", f"{what} takes what Stores makes, not {spec!r}")
    return spec
