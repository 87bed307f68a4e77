"""Servers that tests of several folders share. Each is started by the first test that asks for it."""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from tests.budget import examples

from hayase.testing.kafka_broker import PATIENT, KafkaBroker
from hayase.testing.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

if TYPE_CHECKING:  # makes certificates, which most runs do not need
    from tests.secured import Secured

# Shared and slow machines are no failure; a failing example is printed so that it can be run again.
settings.register_profile("hayase", deadline=None, print_blob=True, max_examples=examples(100))
settings.load_profile("hayase")
os.environ.setdefault("HAYASE_CLASS_ARCHIVE", "off")  # no JVM beside the tests


collect_ignore_glob = ["unit/server/clients/jetblack/*"]  # a program for an environment of its own


@pytest.fixture(autouse=True)
def form_of_small_epochs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests on Spark have few records, which run in rows: in every second test, by its name, they run in columns."""
    if request.node.get_closest_marker("spark") is None or zlib.crc32(request.node.nodeid.encode()) % 2:
        return
    from hayase.app import prepare

    made = prepare.compile_options
    monkeypatch.setattr(
        prepare, "compile_options", lambda *given: dataclasses.replace(made(*given), small_in_rows=False)
    )


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """A running Kafka broker, shared by the session: tests use topics and application ids of their own."""
    with KafkaBroker(start_timeout_s=300, extra_config=PATIENT) as running:
        yield running


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A running Kafka broker that asks for TLS and passwords, shared by the session."""
    from tests.secured import secured_broker

    with secured_broker(tmp_path_factory.mktemp("secured")) as running:
        yield running


@pytest.fixture(scope="session")
def aws_environment() -> Iterator[None]:
    """Credentials for the S3 server, nothing of this machine's own, and no look for a role on the network."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_CONFIG_FILE", "/dev/null")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        yield


@pytest.fixture(scope="session")
def s3_server(aws_environment: None) -> Iterator[S3Server]:
    """A running S3 server with the bucket `data`, shared by the session: tests use folders of their own."""
    with S3Server() as running:
        running.make_bucket("data")
        yield running


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--slow` for `make test-slow`."""
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `--slow` those tests are skipped, however they were chosen."""
    if not config.getoption("--slow"):
        for item in items:
            if item.get_closest_marker("slow") is not None:
                item.add_marker(pytest.mark.skip(reason="slow: pass --slow, or make test-slow"))
