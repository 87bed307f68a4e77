"""Log, scenes, and the list of kills at the end of the run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.crash.checks import Undisturbed
from tests.crash.scene import Scene

from hayase.log.protocol import LogConfig

MakeScene = Callable[..., Scene]
KILLS = pytest.StashKey[list[str]]()
_NUMBERS = itertools.count()


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def log_kind(request: pytest.FixtureRequest) -> str:
    """On which log the application runs."""
    return str(request.param)


@pytest.fixture
def make_scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeScene]:
    """Makes scenes; whatever they started is ended with the test."""
    made: list[Scene] = []

    def make(kind: str, seed: int, module: str = "tests.crash.app_under_test", **settings: object) -> Scene:
        number = next(_NUMBERS)
        folder = tmp_path / str(number)
        if kind == "kafka":
            config = LogConfig("kafka", request.getfixturevalue("broker").bootstrap_servers)
        else:
            config = LogConfig("embedded", str(folder / "log"))
        made.append(Scene(f"crash{number}", folder, config, seed, changes=settings, module=module))
        return made[-1]

    yield make
    for scene in made:
        scene.close()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """What the input comes to without any crash."""
    folder = tmp_path_factory.mktemp("undisturbed")
    scene = Scene("undisturbed", folder, LogConfig("embedded", str(folder / "log")), 0)
    try:
        scene.load()
        scene.run()
        return Undisturbed.of(scene)
    finally:
        scene.close()


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[Scene, object], None]:
    """Takes note of a kill, for the summary."""
    kills = request.config.stash.setdefault(KILLS, [])

    def note(scene: Scene, what: object) -> None:
        kills.append(f"seed {scene.seed}, {scene.log_config.kind}: {what}")

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Every kill with its seed."""
    kills = config.stash.get(KILLS, [])
    if kills:
        terminalreporter.section(f"crash suite: {len(kills)} kills")
        for line in kills:
            terminalreporter.write_line(line)
