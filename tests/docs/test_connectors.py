"""docs/connectors says what the connectors say of themselves, and its examples are accepted."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from hayase.connect.config.config_def import NO_DEFAULT, ConfigKey
from hayase.connect.config.connector_config import sink_config, source_config
from hayase.connect.config.references import ReferencePolicy
from hayase.connect.config.types import config_text
from hayase.connect.config.worker_config import WorkerConfig, worker_config_def
from hayase.connect.connector_validation import ConnectorValidator
from hayase.connect.herder.herder import Herder
from hayase.connect.plugins import Plugins
from hayase.connect.postgres.config import CONFIG
from hayase.connect.postgres.debezium_keys import REFUSED
from hayase.connect.rest.server import rest_app

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "connectors"
PAGES = runpy.run_path(str(ROOT / "scripts" / "connectors_page.py"))["pages"]()


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_script_writes(name: str) -> None:
    found = (FOLDER / name).read_text("utf-8")
    assert found == PAGES[name], "keys have changed: run python scripts/connectors_page.py"


@pytest.mark.parametrize("name", [name for name in PAGES if "postgres" not in name and name != "common-keys.md"])
def test_the_example_is_accepted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBHOOK_SECRET", "open sesame")
    monkeypatch.setenv("TOKEN", "open sesame")
    (example,) = re.findall(r"```json\n(.*?)```", PAGES[name], re.DOTALL)
    connector = json.loads(example)
    validator = ConnectorValidator(Plugins(entry_points=False), ReferencePolicy(env_pattern=re.compile(".*")))
    infos = validator.validate({"name": connector["name"], **connector["config"]})
    assert infos.errors() == []


def test_every_connector_has_its_line_in_the_overview() -> None:
    overview = (FOLDER / "README.md").read_text("utf-8")
    assert [name for name in PAGES if f"({name})" not in overview] == []


@pytest.mark.long
def test_the_page_of_compatibility_has_every_endpoint_of_the_worker() -> None:
    page = (FOLDER / "compatibility.md").read_text("utf-8")
    config = WorkerConfig({"listeners": "http://127.0.0.1:0"})
    guard = rest_app(create_autospec(Herder, instance=True), config, dict)
    endpoints = [f"{method} {route.path}" for route in guard._app.routes for method in route.methods - {"HEAD"}]
    assert sorted(re.findall(r"^\| `([A-Z]+ /.*?)` \|", page, re.MULTILINE)) == sorted(endpoints)


def test_the_connector_of_the_overview_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (FOLDER / "README.md").read_text("utf-8"), re.DOTALL)
    exec("\n".join(blocks), {"__name__": "overview"})  # the assertion is in the page


def test_every_key_of_kafka_connect_and_debezium_has_the_same_default_here_or_its_line_on_the_page() -> None:
    page = (ROOT / "docs" / "from-kafka-connect.md").read_text("utf-8")
    named = [re.escape(name).replace("…", ".+").replace("N", r"\d+") for name in re.findall(r"`([^`\n]+)`", page)]
    recorded = json.loads((ROOT / "tests" / "connect" / "recorded_keys.json").read_text("utf-8"))
    ours = {"worker": worker_config_def(), "source": source_config(), "sink": sink_config(), "postgres": CONFIG}
    silent = [
        f"{kind}: {name}"
        for kind, keys in recorded.items()
        for name, default in keys.items()
        if not same_default(ours[kind].keys.get(name), default)
        and not any(re.fullmatch(pattern, name.replace("(d+)", "1").replace("([^.]+)", "1")) for pattern in named)
    ]
    assert silent == []


def same_default(key: ConfigKey | None, default: str) -> bool:
    if key is None:
        return False
    if key.default is NO_DEFAULT:  # Debezium checks those of its keys later
        return default in ("required", "")
    return (config_text(key.default, key.type) or "") == default.strip("[]")


def test_every_key_that_is_refused_has_its_line_on_the_page_with_what_to_do() -> None:
    page = (ROOT / "docs" / "from-kafka-connect.md").read_text("utf-8")
    assert [instead for _, instead in REFUSED.values() if f"` | {instead} |" not in page] == []
