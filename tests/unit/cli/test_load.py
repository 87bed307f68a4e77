"""What `hayase run` and `describe` load."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hayase import StreamsApp, StreamsBuilder, StreamsConfig, Topology
from hayase.app.checkpoint import fix_plan
from hayase.cli.default_id import note_of_earlier_default, with_default_id
from hayase.cli.load import load
from hayase.compiler.build import make_plan, source_topics
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options, configured
from hayase.core.errors import ConfigError
from hayase.storage.open import open_blobs

PROGRAM = """
from __future__ import annotations
from dataclasses import dataclass
from hayase import StreamsApp, StreamsBuilder

@dataclass
class Order:
    id: int

builder = StreamsBuilder()
builder.stream("in").to("out")
topology = builder.build()
application = StreamsApp(topology, {"application.id": "mine"})

def make() -> StreamsBuilder:
    return builder

def broken():
    raise RuntimeError("no luck")

number = 1
if __name__ == "__main__":
    raise SystemExit("must not run")
"""


@pytest.fixture(autouse=True)
def restored_paths(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYTHONPATH", "")
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "shop.py").write_text(PROGRAM)
    return str(tmp_path / "shop.py")


@pytest.mark.parametrize("name", ["topology", "builder", "make"])
def test_a_topology_a_builder_and_a_function_are_all_taken(program: str, name: str) -> None:
    loaded = load(f"{program}:{name}")
    assert isinstance(loaded.target, Topology)
    assert loaded.name == "shop"


def test_an_application_is_taken_with_its_settings(program: str) -> None:
    found = load(f"{program}:application").target
    assert isinstance(found, StreamsApp)
    assert found.config.application_id == "mine"


def test_without_a_name_the_usual_names_are_tried(program: str) -> None:
    assert isinstance(load(program).target, Topology)


def test_a_module_is_loaded_by_its_name(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(program).parent)
    loaded = load("shop:topology")
    assert isinstance(loaded.target, Topology)
    assert loaded.module is None


def test_the_folder_becomes_importable_here_and_in_workers(program: str) -> None:
    load(program)
    assert str(Path(program).parent) in sys.path
    assert str(Path(program).parent) in os.environ["PYTHONPATH"].split(os.pathsep)


def test_a_file_named_like_a_module_of_python_does_not_replace_it(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(PROGRAM)
    loaded = load(str(tmp_path / "json.py"))
    assert isinstance(loaded.target, Topology)
    assert not hasattr(sys.modules["json"], "topology")


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (":missing", "has no 'missing'"),
        (":number", "is int; it must be a Topology"),
        (":broken", "RuntimeError: no luck"),
    ],
)
def test_what_is_no_application_is_refused_with_what_it_is(program: str, ending: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load(program + ending)


def test_a_file_that_fails_is_an_error_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("x = 1\ny = x / 0\n")
    with pytest.raises(ConfigError, match=r"wrong\.py, line 2: ZeroDivisionError"):
        load(str(tmp_path / "wrong.py"))


def test_a_missing_file_and_a_missing_module_say_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        load(str(tmp_path / "nowhere.py"))
    with pytest.raises(ConfigError, match="there is no module 'no_such_module'"):
        load("no_such_module:app")
    for target in ("", ":app"):
        with pytest.raises(ConfigError, match=r"names no program; give FILE\.py"):
            load(target)


def test_a_file_with_a_relative_import_is_to_be_named_as_a_module(tmp_path: Path) -> None:
    (tmp_path / "shop/inner").mkdir(parents=True)
    for folder in ("shop", "shop/inner"):
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "shop/inner/stream.py").write_text("from ..prices import price\n")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/stream.py").write_text("from . import prices\n")
    for file, module in (("shop/inner/stream.py", "shop.inner.stream"), ("plain/stream.py", "plain.stream")):
        with pytest.raises(ConfigError) as raised:
            load(str(tmp_path / file))
        assert raised.value.condition == "APP_NOT_LOADED"
        assert f"{file}, line 1: " in raised.value.message
        assert f"Name the module instead: {module}:topology, started in the folder {tmp_path}" in raised.value.message


def test_a_file_named_relative_to_the_working_directory_fails_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text("\nnumber = 1 / 0\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"^\[APP_NOT_LOADED\] shop\.py, line 2: ZeroDivisionError"):
        load("shop.py")


def test_a_file_without_the_usual_names_is_told_what_in_it_would_do(tmp_path: Path) -> None:
    file = tmp_path / "jobs.py"
    file.write_text("from hayase import StreamsBuilder\nsales = StreamsBuilder()\n")
    with pytest.raises(ConfigError, match=r"none of the names app, topology, builder; .*jobs\.py:sales"):
        load(str(file))


STARTED = """
from hayase import StreamsApp, StreamsBuilder, StreamsRuntime

builder = StreamsBuilder()
builder.stream("in").to("out")
{start}
"""


@pytest.mark.parametrize(
    "start",
    [
        'StreamsApp(builder, {"application.id": "copy"}).run_to_end()',
        'StreamsApp(builder, {"application.id": "copy"}).run()',
        'StreamsApp(builder, {"application.id": "copy"}).start()',
        'StreamsRuntime({"application.id": "copy"}).run()',
    ],
)
def test_a_program_that_starts_when_it_is_loaded_is_told_of_the_main_guard(tmp_path: Path, start: str) -> None:
    (tmp_path / "eager.py").write_text(STARTED.format(start=start))
    with pytest.raises(ConfigError, match=r"eager\.py:6 starts the application.*__main__") as raised:
        load(str(tmp_path / "eager.py"))
    assert raised.value.condition == "NO_MAIN_GUARD"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for package in ("visits", "orders"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
        for module in ("app", "counts"):
            (tmp_path / package / f"{module}.py").write_text(PROGRAM)
    for name in [each for each in sys.modules if each.partition(".")[0] in {"visits", "orders"}]:  # of other tests
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in [each for each in sys.modules if each.partition(".")[0] in {"visits", "orders"}]:
        del sys.modules[name]


def id_of(target: str, folder: Path, **given: str) -> str:
    settings = {"state.dir": str(folder / "state"), "default.key.serde": "string", "default.value.serde": "string"}
    named = {name.replace("_", "."): value for name, value in given.items()}
    return with_default_id(load(target), {**settings, **named}).application_id


def test_the_package_gives_the_id_of_a_module_whose_name_says_nothing(packages: Path) -> None:
    targets = ("visits.app:topology", "orders.app:topology", "visits.counts:topology", "visits/app.py:topology")
    assert [id_of(target, packages) for target in targets] == ["visits", "orders", "counts", "app"]


def keep_plan(folder: Path, builder: StreamsBuilder) -> None:
    """As a run under the id of earlier releases leaves it."""
    serdes = {"default.key.serde": "string", "default.value.serde": "string"}
    config = StreamsConfig({"application.id": "app", "state.dir": str(folder / "state"), **serdes})
    topology = configured(builder.build(), config)
    compiled = compile_subtopologies(topology, compile_options(config))
    plan = make_plan(topology, dict.fromkeys(source_topics(topology), 2), compiled, threads=1)
    fix_plan(open_blobs(config.checkpoint_dir, fsync=False), "app", plan.to_json(), new_names=False)


def test_state_under_the_id_of_earlier_releases_is_not_left_behind_silently(packages: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    keep_plan(packages, builder)
    with pytest.raises(ConfigError, match=r"`-c application\.id=app` goes on with that state") as raised:
        id_of("visits.app:topology", packages)
    assert raised.value.condition == "APPLICATION_ID_CHANGED"
    assert id_of("visits.app:topology", packages, application_id="app") == "app"
    (packages / "state" / "visits").mkdir()
    assert id_of("visits.app:topology", packages) == "visits"


def test_state_of_another_topology_under_that_id_is_a_note_of_the_first_run(packages: Path) -> None:
    other = StreamsBuilder()
    other.stream("elsewhere").to("out")
    keep_plan(packages, other)
    assert id_of("visits.app:topology", packages) == "visits"
    config = StreamsConfig({"application.id": "visits", "state.dir": str(packages / "state")})
    note = note_of_earlier_default(load("visits.app:topology"), config)
    assert note is not None and "was 'app' in earlier releases" in note
    assert note_of_earlier_default(load("visits.counts:topology"), config) is None
    (packages / "state" / "visits").mkdir()
    assert note_of_earlier_default(load("visits.app:topology"), config) is None
