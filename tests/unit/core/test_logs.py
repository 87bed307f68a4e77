"""Log lines: their form, their place, and what is kept out of them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from hayase import StreamsConfig
from hayase.core.logs import JsonFormatter, TextFormatter, configure_logging, log_context, secret_values


@pytest.fixture
def logger() -> Iterator[tuple[logging.Logger, list[logging.LogRecord]]]:
    seen: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record)

    made = logging.getLogger("hayase.tests.logs")
    handler = Keep()
    made.addHandler(handler)
    made.setLevel(logging.DEBUG)
    made.propagate = False
    yield made, seen
    made.removeHandler(handler)
    made.propagate = True


def test_a_json_line_is_one_object_with_the_fields_of_its_place(
    logger: tuple[logging.Logger, list[logging.LogRecord]],
) -> None:
    log, seen = logger
    with log_context(application_id="shop", epoch=3), log_context(bundle="0-1", task="0_1"):
        log.warning("two\nlines", extra={"topic": "in", "partition": 0, "offset": 7})
        line = JsonFormatter().format(seen[0])
    assert "\n" not in line
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert {name: found[name] for name in ("level", "logger", "message")} == {
        "level": "WARNING",
        "logger": "hayase.tests.logs",
        "message": "two\nlines",
    }
    place = {
        "application_id": "shop",
        "epoch": 3,
        "bundle": "0-1",
        "task": "0_1",
        "topic": "in",
        "partition": 0,
        "offset": 7,
    }
    assert place.items() <= found.items()
    assert "node" not in found


def test_a_text_line_says_the_same_for_people(logger: tuple[logging.Logger, list[logging.LogRecord]]) -> None:
    log, seen = logger
    with log_context(application_id="shop"):
        log.info("two\nlines", extra={"offset": 7})
        line = TextFormatter().format(seen[0])
    assert line.partition("Z ")[2] == "INFO hayase.tests.logs [application_id shop, offset 7]: two lines"


def test_the_place_is_forgotten_outside() -> None:
    with log_context(epoch=3):
        pass
    record = logging.makeLogRecord({"msg": "later", "levelname": "INFO", "name": "x"})
    assert "epoch" not in TextFormatter().format(record)


def test_secrets_are_masked_in_messages_and_traces(logger: tuple[logging.Logger, list[logging.LogRecord]]) -> None:
    log, seen = logger
    try:
        raise ValueError("cannot log in with hunter22")
    except ValueError:
        log.exception("failed with %s", "hunter22")
    for formatter in (TextFormatter(["hunter22"]), JsonFormatter(["hunter22"])):
        line = formatter.format(seen[0])
        assert "hunter22" not in line
        assert "***" in line
        assert "ValueError" in line


def test_passwords_of_clients_are_secrets_of_a_configuration_and_not_shown_when_it_is_printed() -> None:
    config = StreamsConfig(
        {
            "application.id": "a",
            "bootstrap.servers": "localhost:9092",
            "sasl.password": "hunter22",
            "producer.sasl.password": "swordfish",
            "sasl.username": "ada",
            "spark.ssl.keyPassword": "open sesame",
        }
    )
    assert set(config.secrets) == {"hunter22", "swordfish", "open sesame"}
    assert not any(secret in repr(config) for secret in config.secrets)
    assert "ada" in repr(config)


def test_very_short_values_are_not_masked_everywhere() -> None:
    assert secret_values({"sasl.password": "a"}) == ()


def test_configuring_again_replaces_and_does_not_repeat() -> None:
    root = logging.getLogger()
    level, ours = root.level, logging.getLogger("hayase").level
    root.removeHandler(configure_logging(form="text", level="INFO", stream=io.StringIO()))  # what another test left
    before = list(root.handlers)
    try:
        first, second = io.StringIO(), io.StringIO()
        configure_logging(form="text", level="INFO", stream=first)
        handler = configure_logging(form="json", level="INFO", stream=second)
        logging.getLogger("hayase.x").info("hello")
        logging.getLogger("hayase.x").debug("not this")
        assert first.getvalue() == ""
        assert [json.loads(line)["message"] for line in second.getvalue().splitlines()] == ["hello"]
        root.removeHandler(handler)
        assert root.handlers == before
    finally:
        root.setLevel(level)
        logging.getLogger("hayase").setLevel(ours)
