"""Loading what a user names as `FILE:app` or `package.module:app`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from hayase.app.app import StreamsApp
from hayase.app.main_guard import loading
from hayase.core.errors import ConfigError, HayaseError
from hayase.dsl.builder import StreamsBuilder
from hayase.topology.topology import Topology

_NAMES = ("app", "topology", "builder")
"""What is looked for in a file of which no name is given."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was named.

    Attributes:
        module: where it is from, if it is a file: then its functions are not importable by workers.
        target: a topology, or an application with settings of its own.
        name: of the file or module, without folders: a default for `application.id`.
        package: of the module, with dots; empty if it is in none, or a file.
    """

    module: ModuleType | None
    target: Topology | StreamsApp
    name: str
    package: str = ""

    @property
    def topology(self) -> Topology:
        """The topology in either case."""
        return self.target.topology if isinstance(self.target, StreamsApp) else self.target


def load(target: str) -> Loaded:
    """Load `FILE:NAME`; without `:NAME` it is `app`, else `topology`, else `builder`, whichever there is.

    The file is executed as a module: what stands under `if __name__ == "__main__"` does not run, and an application
    that is started outside of it is refused. Its folder becomes importable, here and in Spark's workers.

    Raises:
        ConfigError: there is no such file or name, or it is something else.
    """
    place, name = _split(target)
    if not place:
        raise ConfigError("APP_NOT_FOUND", f"{target!r} names no program; give FILE.py, FILE.py:NAME or MODULE:NAME")
    is_file = place.endswith(".py")
    module = load_file(Path(place)) if is_file else _load_module(place)
    if not name:
        name = next((each for each in _NAMES if hasattr(module, each)), "")
    if not name:
        raise ConfigError(
            "APP_NOT_FOUND",
            f"{place} has none of the names {', '.join(_NAMES)}; name what runs: "
            f"{_would_do(module, place) or f'{place}:NAME'}",
        )
    if not hasattr(module, name):
        raise ConfigError(
            "APP_NOT_FOUND",
            f"{place} has no {name!r}; name a Topology, StreamsBuilder, StreamsApp or a function that returns one: "
            f"{_would_do(module, place) or f'{place}:NAME'}",
        )
    resolved = _resolve(getattr(module, name), f"{place}:{name}")
    if is_file:
        return Loaded(module, resolved, Path(place).stem)
    package, _, module_name = place.rpartition(".")
    return Loaded(None, resolved, module_name, package)


def module_of(loaded: Loaded) -> ModuleType:
    """The module of what was named, whether it is a file or importable."""
    return loaded.module or sys.modules[".".join(filter(None, [loaded.package, loaded.name]))]


def _would_do(module: ModuleType, place: str) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Topology | StreamsBuilder | StreamsApp)]
    return " or ".join(f"{place}:{name}" for name in names)


def load_file(path: Path) -> ModuleType:
    """Execute a Python file as a module; raises ConfigError with the line where it fails."""
    if not path.is_file():
        raise ConfigError("APP_NOT_FOUND", f"there is no file {str(path)!r}")
    _make_importable(path.absolute().parent)
    name = path.stem if path.stem not in sys.modules else f"hayase_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError("APP_NOT_LOADED", f"{path} is no Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        with loading(str(path)):
            spec.loader.exec_module(module)
    except HayaseError:
        raise
    except Exception as error:  # a user's file may raise anything
        trace = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno for frame in reversed(trace) if frame.filename == spec.origin), None)
        where = f"{path}, line {line}" if line else str(path)
        if isinstance(error, ImportError) and "relative import" in str(error):
            raise _relative_import(path, where) from error
        raise ConfigError("APP_NOT_LOADED", f"{where}: {type(error).__name__}: {error}") from error
    return module


def _relative_import(path: Path, where: str) -> ConfigError:
    """The error of a file that is a module of a package; it names the module, from the folder above the package."""
    root = path.absolute().parent
    parts = [root.name, path.stem]
    while (root / "__init__.py").exists() and (root.parent / "__init__.py").exists():
        root = root.parent
        parts.insert(0, root.name)
    module, here = ".".join(parts), root.parent
    there = "" if here == Path.cwd() else f", started in the folder {here}"
    return ConfigError(
        "APP_NOT_LOADED",
        f"{where}: a file that is named by its path is no part of a package, so it has no relative imports. Name the "
        f"module instead: {module}:topology{there}",
    )


def _split(target: str) -> tuple[str, str]:
    place, colon, name = target.rpartition(":")
    return (place, name) if colon else (target, "")


def _load_module(name: str) -> ModuleType:
    _make_importable(Path.cwd())
    try:
        with loading(name):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            "APP_NOT_FOUND",
            f"there is no module {error.name!r}; name a file (app.py:app) or a module (package.module:app)",
        ) from error
    except HayaseError:
        raise
    except Exception as error:  # a user's module may raise anything
        raise ConfigError("APP_NOT_LOADED", f"{name}: {type(error).__name__}: {error}") from error


def _make_importable(folder: Path) -> None:
    """For this process, and for the workers, which inherit the environment."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(folder) not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, known)])


def _resolve(target: object, what: str) -> Topology | StreamsApp:
    if callable(target) and not isinstance(target, type):
        try:
            with loading(what):
                target = target()
        except HayaseError:
            raise
        except Exception as error:  # a user's function may raise anything
            raise ConfigError("APP_NOT_LOADED", f"{what}(): {type(error).__name__}: {error}") from error
    if isinstance(target, StreamsBuilder):
        return target.build()
    if isinstance(target, Topology | StreamsApp):
        return target
    raise ConfigError(
        "APP_NOT_FOUND",
        f"{what} is {type(target).__name__}; it must be a Topology, a StreamsBuilder, a StreamsApp or a function that "
        "returns one",
    )
