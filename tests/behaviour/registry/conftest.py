"""Every test of this folder runs on the registry of hayase.testing and on a real one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.behaviour.registry.apicurio import apicurio, has_maven

from hayase.serde.registry import SchemaRegistry
from hayase.testing import SchemaRegistryServer


@pytest.fixture(scope="session")
def in_process_url() -> Iterator[str]:
    """The registry of hayase.testing."""
    with SchemaRegistryServer() as server:
        yield server.url


@pytest.fixture(scope="session")
def apicurio_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Apicurio Registry, started once."""
    if not has_maven():
        pytest.skip("Apicurio Registry is fetched by Maven, and mvn is not on PATH")
    with apicurio(tmp_path_factory.mktemp("apicurio")) as url:
        yield url


@pytest.fixture(params=["in_process", pytest.param("apicurio", marks=pytest.mark.kafka)])
def registry(request: pytest.FixtureRequest) -> SchemaRegistry:
    """A registry that may hold what other tests registered."""
    return SchemaRegistry(request.getfixturevalue(f"{request.param}_url"), {"max.retries": 0})


@pytest.fixture
def topic() -> str:
    """A topic that no other test has."""
    return f"t-{uuid.uuid4().hex[:12]}"
