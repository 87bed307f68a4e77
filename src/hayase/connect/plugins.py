"""Plug-ins: which connectors, transforms, predicates and converters there are, and which class a name means."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from hayase.connect import converters, transforms
from hayase.connect.contracts import (
    Converter,
    HeaderConverter,
    Predicate,
    SinkConnector,
    SourceConnector,
    Transformation,
    Versioned,
)
from hayase.core.errors import ConfigError

_LOG = logging.getLogger(__name__)
ENTRY_POINTS = "hayase.connect"
T = TypeVar("T", bound=Versioned)


class PluginType(StrEnum):
    """Kinds of plug-ins; the text is what the REST interface says."""

    SOURCE = "source"
    SINK = "sink"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"


_CLASSES: Mapping[PluginType, type[Versioned]] = {
    PluginType.SOURCE: SourceConnector,
    PluginType.SINK: SinkConnector,
    PluginType.CONVERTER: Converter,
    PluginType.HEADER_CONVERTER: HeaderConverter,
    PluginType.TRANSFORMATION: Transformation,
    PluginType.PREDICATE: Predicate,
}
CONNECTOR_TYPES = (PluginType.SOURCE, PluginType.SINK)
_WORDS: Mapping[PluginType, str] = {
    PluginType.SOURCE: "Connector",
    PluginType.SINK: "Connector",
    PluginType.CONVERTER: "Converter",
    PluginType.HEADER_CONVERTER: "HeaderConverter",
    PluginType.TRANSFORMATION: "Transformation",
    PluginType.PREDICATE: "Predicate",
}

_FILE = "org.apache.kafka.connect.file."
_HERE = "hayase.connect."
SOURCES: Mapping[str, str] = {
    "io.debezium.connector.postgresql.PostgresConnector": f"{_HERE}postgres.connector:PostgresConnector",
    f"{_FILE}FileStreamSourceConnector": f"{_HERE}files.file_stream_source:FileStreamSourceConnector",
    "hayase.FileSourceConnector": f"{_HERE}files.file_source:FileSourceConnector",
    "hayase.DatagenSourceConnector": f"{_HERE}datagen.datagen_source:DatagenSourceConnector",
    "hayase.WebhookSourceConnector": f"{_HERE}http.webhook_source:WebhookSourceConnector",
    "hayase.CommandSourceConnector": "hayase.patterns.command_source:CommandSourceConnector",
}
"""Built-in source connectors: the name in configurations, and where the class is."""
SINKS: Mapping[str, str] = {
    f"{_FILE}FileStreamSinkConnector": f"{_HERE}files.file_stream_sink:FileStreamSinkConnector",
    "hayase.FileSinkConnector": f"{_HERE}files.file_sink:FileSinkConnector",
    "hayase.HttpSinkConnector": f"{_HERE}http.http_sink:HttpSinkConnector",
    "hayase.PostgresSinkConnector": f"{_HERE}sql.postgres_sink:PostgresSinkConnector",
    "hayase.SqliteSinkConnector": f"{_HERE}sql.sqlite_sink:SqliteSinkConnector",
}
"""Built-in sink connectors."""
_EXTRAS: Mapping[str, tuple[str, str]] = {
    f"{_HERE}postgres.": ("psycopg", "postgres"),
    f"{_HERE}sql.postgres_sink": ("psycopg", "postgres"),
    f"{_HERE}http.webhook_source": ("starlette", "server"),
    "hayase.patterns.command_source": ("starlette", "server"),
}
"""Modules of built-in connectors that need a package which the core does not: the package, and the extra with it."""
_HEADER_CONVERTERS = (
    "org.apache.kafka.connect.json.JsonConverter",
    "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    "org.apache.kafka.connect.storage.StringConverter",
)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plug-in that was found.

    Attributes:
        name: in configurations.
        kind: what it is.
        target: `module:Class`.
        version: of it.
    """

    name: str
    kind: PluginType
    target: str
    version: str

    @property
    def aliases(self) -> tuple[str, ...]:
        """Short names: the last part, and that without the word for its kind."""
        simple = self.name.rpartition(".")[2]
        return simple, simple.removesuffix(_WORDS[self.kind])

    def load(self) -> type[Versioned]:
        """The class.

        Raises:
            ConfigError: `PACKAGE_MISSING`: a package that it needs is not installed.
        """
        module, _, name = self.target.partition(":")
        for prefix, (package, extra) in _EXTRAS.items():
            if module.startswith(prefix) and importlib.util.find_spec(package) is None:
                raise ConfigError(
                    "PACKAGE_MISSING",
                    f"{self.name} needs the package {package}, which is not installed: pip install 'hayase[{extra}]'",
                )
        loaded = getattr(importlib.import_module(module), name)
        assert isinstance(loaded, type) and issubclass(loaded, Versioned), self.target
        return loaded


class Plugins:
    """The plug-ins of a worker: built in, installed with an entry point, and files of `plugin.path`.

    A file that cannot be imported is logged and left out.

    Args:
        plugin_path: folders of Python files and packages.
        entry_points: whether those of installed packages (group `hayase.connect`) are taken.
    """

    def __init__(self, plugin_path: Sequence[Path] = (), *, entry_points: bool = True) -> None:
        self._plugins: dict[tuple[PluginType, str], Plugin] = {}
        self._classes: dict[str, type[Versioned]] = {}
        for plugin in _built_in():
            self._add(plugin)
        if entry_points:
            for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
                self._add_installed(entry)
        for folder in plugin_path:
            for module in _modules_of(folder):
                self._add_classes(module)

    def all(self) -> list[Plugin]:
        """All, by kind and name."""
        return sorted(self._plugins.values(), key=lambda plugin: (list(PluginType).index(plugin.kind), plugin.name))

    def of_type(self, *types: PluginType) -> list[Plugin]:
        """Those of some kinds, by name."""
        return [plugin for plugin in self.all() if plugin.kind in types]

    def find(self, name: str, *types: PluginType) -> Plugin:
        """The plug-in that a name in a configuration means: its full name, or a short one.

        Raises:
            ConfigError: `UNKNOWN_CLASS`, with all there are; `AMBIGUOUS_CLASS`, with those that the name could mean.
        """
        for kind in types:
            if (kind, name) in self._plugins:
                return self._plugins[kind, name]
        known = self.of_type(*types)
        found = {  # a class may be of two kinds, such as converters of values and of headers
            plugin.target: plugin
            for plugin in reversed(known)
            if name in plugin.aliases or name == plugin.target.replace(":", ".")
        }
        if len(found) == 1:
            return next(iter(found.values()))
        word = _WORDS[types[0]]
        if found:
            raise ConfigError(
                "AMBIGUOUS_CLASS",
                f"More than one {word} matches alias {name}. Please use full name and package of the class; found: "
                + ", ".join(sorted(plugin.name for plugin in found.values())),
            )
        raise ConfigError(
            "UNKNOWN_CLASS",
            f"Failed to find any class that implements {word} and which name matches {name}, available "
            f"{word.lower()}s are: " + ", ".join(plugin.name for plugin in known),
        )

    def load(self, name: str, expected: type[T], *types: PluginType) -> type[T]:
        """The class that a name means; raises as `find`."""
        cls = self.class_of(self.find(name, *types))
        assert issubclass(cls, expected)
        return cls

    def class_of(self, plugin: Plugin) -> type[Versioned]:
        """The class of a plug-in."""
        return self._classes.get(plugin.target) or plugin.load()

    def add_class(self, cls: type[object]) -> str:
        """Take a class that is not to be found by name; the name that it has in configurations.

        Raises:
            ConfigError: `UNKNOWN_CLASS`: it is no plug-in.
        """
        if not self._add_class(cls):
            missing = missing_methods(cls)
            raise ConfigError(
                "UNKNOWN_CLASS",
                f"{cls!r} lacks {missing}"
                if missing
                else f"{cls!r} is no connector, transform, predicate or converter",
            )
        return _name_of(cls)

    def _add(self, plugin: Plugin) -> None:
        self._plugins[plugin.kind, plugin.name] = plugin

    def _add_installed(self, entry: importlib.metadata.EntryPoint) -> None:
        try:
            cls = entry.load()
        except Exception:  # a package of another maker must not end the worker
            _LOG.exception("the plug-in %s cannot be imported and is left out", entry.value)
            return
        if inspect.ismodule(cls):
            self._add_classes(cls)
        else:
            self._add_class(cls)

    def _add_classes(self, module: ModuleType) -> None:
        for cls in vars(module).values():
            if inspect.isclass(cls) and cls.__module__.partition(".")[0] == module.__name__.partition(".")[0]:
                is_base = bool(cls.__subclasses__())
                if not self._add_class(cls) and not is_base and (missing := missing_methods(cls)):
                    _LOG.warning("%s is left out as a plug-in: it lacks %s", _name_of(cls), missing)

    def _add_class(self, cls: type[object]) -> bool:
        added = False
        for kind, base in _CLASSES.items():
            if issubclass(cls, base) and not inspect.isabstract(cls) and issubclass(cls, Versioned):
                target = f"{cls.__module__}:{cls.__qualname__}"
                self._classes[target] = cls
                self._add(Plugin(_name_of(cls), kind, target, version_of(cls)))
                added = True
        return added


_PREFIX = "hayase_plugin_"


def _name_of(cls: type[object]) -> str:
    return f"{cls.__module__.removeprefix(_PREFIX)}.{cls.__qualname__}"


def _built_in() -> Iterator[Plugin]:
    version = importlib.metadata.version("hayase")
    kinds = dict.fromkeys(SOURCES, PluginType.SOURCE) | dict.fromkeys(SINKS, PluginType.SINK)
    for name, target in {**SOURCES, **SINKS}.items():
        yield Plugin(name, kinds[name], target, version)
    for name, target in converters.ALIASES.items():
        if not name.endswith("HeaderConverter"):
            yield Plugin(name, PluginType.CONVERTER, target, version)
        if name in _HEADER_CONVERTERS:
            yield Plugin(name, PluginType.HEADER_CONVERTER, target, version)
    for name, target in transforms.ALIASES.items():
        kind = PluginType.PREDICATE if ".predicates." in name else PluginType.TRANSFORMATION
        yield Plugin(name, kind, target, version)


def missing_methods(cls: type[object]) -> str:
    """The methods that a plug-in has to have and lacks; nothing for other classes."""
    if not any(issubclass(cls, base) for base in _CLASSES.values()):
        return ""
    return ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))


def version_of(cls: type[Versioned]) -> str:
    """The version of a plug-in."""
    try:
        return cls.version(cls.__new__(cls))  # a plug-in that is only listed is not made
    except Exception:  # the version is for people
        return "undefined"


def _modules_of(folder: Path) -> Iterator[ModuleType]:
    if not folder.is_dir():
        raise ConfigError("INVALID_SETTING", f"plugin.path names {folder}, which is no folder", setting="plugin.path")
    for path in sorted(folder.iterdir()):
        file = path / "__init__.py" if path.is_dir() else path
        if file.suffix == ".py" and file.is_file() and not path.name.startswith((".", "_")):
            module = _imported(path.stem, file, [str(path)] if path.is_dir() else None)
            if module is not None:
                yield module


def _imported(stem: str, file: Path, search: list[str] | None) -> ModuleType | None:
    name = _PREFIX + stem
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=search)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception:  # one broken file must not end the worker
        del sys.modules[name]
        _LOG.exception("the plug-in file %s cannot be imported and is left out", file)
        return None
    return module
