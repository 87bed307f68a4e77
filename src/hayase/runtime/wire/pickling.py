"""Pickles of programs: functions and classes of the application's own file travel with their code.

PySpark's cloudpickle does most of it. What it does not do is done here, so that values of all kinds that serdes take
survive:

* `dataclasses.MISSING` and its like stay the objects they are, by which the standard library knows fields without a
  default.
* A `msgspec.Struct` is recreated with its fields and settings; they belong to the making of the class and cannot be set
  later.
* Annotations are evaluated before they travel: the names they consist of are not there where the module is not.
* What msgspec keeps in classes for itself stays behind.
* Polars pickles the functions of `map_elements` and `map_batches` by a module named `cloudpickle`, which need not be
  installed: what is here takes its place for as long as a program is pickled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import pickle
import sys
import types
import typing
from collections import ChainMap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
from pyspark import cloudpickle
from pyspark.cloudpickle import cloudpickle as internals

_SENTINELS = {type(getattr(dataclasses, name)): name for name in ("MISSING", "KW_ONLY", "_HAS_DEFAULT_FACTORY")}
_CACHE = "__msgspec_cache__"
_ANNOTATIONS = "__annotations__"
_POST_INIT = "__post_init__"
_CONFIG = (
    *("frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults", "forbid_unknown_fields"),
    *("weakref", "dict", "cache_hash", "tag_field"),
)
_NAME = "cloudpickle"
_failed: list[Any] = []
"""What could not be pickled, innermost first."""


def pickled(program: object) -> bytes:
    """The pickle of a program, with the folders its modules are imported from.

    Raises what a part raises that has no pickle.
    """
    return pickle.dumps((_import_folders(), dumps(program)))


def unpickled(data: bytes) -> Any:
    """The program, in another process.

    Modules that it does not bring along are imported from where they were before.
    """
    folders, program = pickle.loads(data)
    sys.path += [folder for folder in folders if folder not in sys.path]
    return cloudpickle.loads(program)


def dumps(value: object, *_: object, **__: object) -> bytes:
    """The pickle of a part of a program; what Polars calls."""
    with io.BytesIO() as file, _offered():
        try:
            ProgramPickler(file).dump(value)  # type: ignore[no-untyped-call] # PySpark's cloudpickle has no types
        except Exception:
            _failed.append(value)
            raise
        return file.getvalue()


def failed_part(value: object) -> Any:
    """What Polars could not pickle of an expression: the function in it; `None` if that is not what is wrong."""
    _failed.clear()
    try:
        dumps(value)
    except Exception:  # asked for because it cannot be pickled
        return next((part for part in _failed if part is not value), None)
    finally:
        _failed.clear()
    return None


def by_value(module: ModuleType) -> None:
    """Have functions and classes of a module pickled with their code from now on."""
    cloudpickle.register_pickle_by_value(module)


def _import_folders() -> list[str]:
    """Where this process imports from; the program's own folder is the first, if it is a file that was started."""
    return [str(Path(folder).absolute()) for folder in sys.path]


class ProgramPickler(cloudpickle.Pickler):
    """Pickles one program."""

    dispatch_table = ChainMap(
        {kind: lambda sentinel: (getattr, (dataclasses, _SENTINELS[type(sentinel)])) for kind in _SENTINELS},
        cloudpickle.Pickler.dispatch_table,
    )

    def reducer_override(self, obj: object) -> Any:
        """See pickle: how functions and classes are reduced."""
        reduced = super().reducer_override(obj)  # type: ignore[no-untyped-call]
        if reduced is NotImplemented or not isinstance(obj, type) or len(reduced) < 6:
            return reduced
        if isinstance(obj, msgspec.StructMeta):
            return _reduced_struct(obj, reduced[2][0])
        attributes, _ = reduced[2]
        attributes.pop(_CACHE, None)
        _evaluate_annotations(obj, attributes)
        return reduced


class _Late:
    """A function that is part of the making of a class, and may itself need that class."""

    function: Callable[..., Any]

    def __call__(self, *arguments: object) -> Any:
        return self.function(*arguments)


class _Making(NamedTuple):
    """What a Struct is made of; all else can be set later."""

    metaclass: type
    name: str
    bases: tuple[Any, ...]
    namespace: dict[str, Any]
    config: dict[str, Any]
    tracker_id: str


def _reduced_struct(cls: Any, attributes: dict[str, Any]) -> tuple[Any, ...]:
    own = [name for name in cls.__dict__.get(_ANNOTATIONS, {}) if name in cls.__struct_fields__]
    namespace, late = _fields(cls, own)
    if _POST_INIT in attributes:
        namespace[_POST_INIT] = _Late()
        late.append((namespace[_POST_INIT], attributes[_POST_INIT]))
    config = {name: getattr(cls.__struct_config__, name) for name in _CONFIG}
    config["tag"] = False if cls.__struct_config__.tag is None else cls.__struct_config__.tag
    config["kw_only"] = not set(own) & set(cls.__match_args__)
    metaclass, name, bases, _, tracker_id, _ = internals._class_getnewargs(cls)
    making = _Making(metaclass, name, bases, {**namespace, "__module__": cls.__module__}, config, tracker_id)
    given = (_CACHE, "__slots__", "__match_args__", "__module__", *cls.__struct_fields__)
    state = {name: value for name, value in attributes.items() if name not in given}
    _evaluate_annotations(cls, state)
    return _make_struct, (making,), (state, late), None, None, _set_state


def _fields(cls: Any, own: list[str]) -> tuple[dict[str, Any], list[tuple[_Late, Any]]]:
    """The part of a Struct's namespace that makes fields, and the functions in it that are set later."""
    missing = len(cls.__struct_fields__) - len(cls.__struct_defaults__)
    defaults = (msgspec.NODEFAULT,) * missing + cls.__struct_defaults__
    namespace: dict[str, Any] = {_ANNOTATIONS: dict.fromkeys(own, Any)}
    late: list[tuple[_Late, Any]] = []
    for name, written, default in zip(cls.__struct_fields__, cls.__struct_encode_fields__, defaults, strict=True):
        if name not in own:
            continue
        given: dict[str, Any] = {"name": written}
        if hasattr(default, "factory"):
            given["default_factory"] = default.factory
            if not isinstance(default.factory, type) or default.factory.__module__ != "builtins":
                given["default_factory"] = _Late()
                late.append((given["default_factory"], default.factory))
        elif default is not msgspec.NODEFAULT:
            given["default"] = default
        namespace[name] = _Field(given)
    return namespace, late


class _Field(NamedTuple):
    """Arguments of `msgspec.field`, whose results cannot be pickled."""

    arguments: dict[str, Any]


def _make_struct(making: _Making) -> Any:
    namespace = {
        name: msgspec.field(**value.arguments) if isinstance(value, _Field) else value
        for name, value in making.namespace.items()
    }
    arguments = {"metaclass": making.metaclass, **making.config}
    struct_class = types.new_class(making.name, making.bases, arguments, lambda names: names.update(namespace))
    return internals._lookup_class_or_track(making.tracker_id, struct_class)


def _set_state(cls: object, state: tuple[dict[str, Any], list[tuple[_Late, Any]]]) -> Any:
    attributes, late = state
    for name, value in attributes.items():
        setattr(cls, name, value)
    for each, function in late:
        each.function = function
    return cls


def _evaluate_annotations(cls: type, attributes: dict[str, Any]) -> None:
    """Put types in the place of annotations that are texts, or contain some."""
    own = attributes.get(_ANNOTATIONS)
    if not own:
        return
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except Exception:  # names that are there for type checkers only, and anything else that is evaluated
        return
    attributes[_ANNOTATIONS] = {name: hints.get(name, annotation) for name, annotation in own.items()}


@contextlib.contextmanager
def _offered() -> Iterator[None]:
    """Have Polars pickle functions with what is here."""
    installed = sys.modules.get(_NAME)
    offered = ModuleType(_NAME, __doc__)
    vars(offered).update({**vars(installed or cloudpickle), "__name__": _NAME, "dumps": dumps})
    sys.modules[_NAME] = offered
    try:
        yield
    finally:
        if installed is None:
            sys.modules.pop(_NAME, None)
        else:
            sys.modules[_NAME] = installed
