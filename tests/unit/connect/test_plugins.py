"""Plug-ins: found by full and short names, in folders, with a broken one left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from hayase.connect.contracts import SourceConnector
from hayase.connect.plugins import Plugins, PluginType
from hayase.core.errors import ConfigError
from hayase.log.protocol import Log
from hayase.testing.connect import ConnectorTestDriver

PLUGIN = """
from hayase.connect.contracts import SourceConnector, SourceTask, Transformation

class BellSource(SourceConnector):
    def start(self, props): self.props = dict(props)
    def task_class(self): return BellTask
    def task_configs(self, max_tasks): return [self.props]
    def stop(self): pass
    def version(self): return "7"

class BellTask(SourceTask):
    def start(self, props): pass
    def poll(self): return None
    def stop(self): pass

class Shout(Transformation):
    def apply(self, record): return record.new_record(value=str(record.value).upper())
"""


def test_every_built_in_plugin_can_be_loaded() -> None:
    plugins = Plugins(entry_points=False)
    for plugin in plugins.all():
        assert plugins.class_of(plugin).config().keys is not None, plugin.name


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "FileStreamSourceConnector",
        "FileStreamSource",
        "hayase.connect.files.file_stream_source.FileStreamSourceConnector",
    ],
)
def test_a_connector_is_found_by_its_full_and_by_its_short_names(name: str) -> None:
    found = Plugins(entry_points=False).find(name, PluginType.SOURCE)
    assert found.name == "org.apache.kafka.connect.file.FileStreamSourceConnector"


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"available connectors are: .*FileStreamSource"):
        Plugins(entry_points=False).find("Nope", PluginType.SOURCE)


def test_classes_of_a_folder_are_plugins(tmp_path: Path) -> None:
    (tmp_path / "bells.py").write_text(PLUGIN)
    plugins = Plugins([tmp_path], entry_points=False)
    source = plugins.find("BellSource", PluginType.SOURCE)
    assert (source.name, source.version) == ("bells.BellSource", "7")
    assert issubclass(plugins.class_of(source), SourceConnector)
    assert plugins.find("bells.Shout", PluginType.TRANSFORMATION).name == "bells.Shout"


def test_a_file_that_cannot_be_imported_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "bells.py").write_text(PLUGIN)
    (tmp_path / "broken.py").write_text("import there_is_no_such_module\n")
    plugins = Plugins([tmp_path], entry_points=False)
    assert plugins.find("BellSource", PluginType.SOURCE)
    assert "broken.py" in caplog.text


def test_a_class_that_lacks_methods_is_left_out_and_they_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    half = PLUGIN.replace("    def stop(self): pass\n    def version", "    def version")
    (tmp_path / "bells.py").write_text(half)
    with pytest.raises(ConfigError):
        Plugins([tmp_path], entry_points=False).find("BellSource", PluginType.SOURCE)
    assert "bells.BellSource is left out as a plug-in: it lacks stop" in caplog.text


def test_a_class_of_the_test_driver_that_lacks_methods_is_refused_with_their_names() -> None:
    class Half(SourceConnector):
        def stop(self) -> None:
            pass

    with pytest.raises(ConfigError, match="lacks start, task_class, task_configs"):
        ConnectorTestDriver({"connector.class": Half})


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"plugin\.path"):
        Plugins([tmp_path / "nowhere"], entry_points=False)


@pytest.mark.long
def test_a_transform_is_applied_where_its_predicate_holds(log: Log, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    props = {
        "connector.class": "FileStreamSource",
        "file": str(tmp_path / "lines.txt"),
        "topic": "lines",
        "value.converter": "StringConverter",
        "transforms": "route,hide",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": "lines",
        "transforms.route.replacement": "routed",
        "transforms.hide.type": "Filter",
        "transforms.hide.predicate": "other",
        "transforms.hide.negate": "true",
        "predicates": "other",
        "predicates.other.type": "TopicNameMatches",
        "predicates.other.pattern": "routed",
    }
    with ConnectorTestDriver(props, log=log) as connector:
        connector.run_to_end()
        assert [record.value for record in connector.records("routed")] == [b"one", b"two"]


def test_a_predicate_that_is_not_listed_is_an_error_at_its_key() -> None:
    props = {
        "connector.class": "FileStreamSource",
        "topic": "lines",
        "transforms": "hide",
        "transforms.hide.type": "Filter",
        "transforms.hide.predicate": "other",
    }
    with pytest.raises(ConfigError, match=r"transforms\.hide\.predicate"):
        ConnectorTestDriver(props)


@pytest.mark.parametrize("name", ["StringConverter", "JsonConverter", "SimpleHeaderConverter"])
def test_the_short_name_of_a_converter_is_enough_for_headers(name: str) -> None:
    found = Plugins(entry_points=False).find(name, PluginType.HEADER_CONVERTER, PluginType.CONVERTER)
    assert found.name.endswith(f".{name}")
