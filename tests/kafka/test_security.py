"""TLS and passwords against a real broker."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest
from tests.certificates import Authority
from tests.secured import PASSWORD, USER, Secured

from hayase.cli.main import run_cli
from hayase.core.errors import ConfigError, LogError
from hayase.core.records import TopicPartition
from hayase.log.kafka.log import KafkaLog
from hayase.log.protocol import LogConfig, Marker, OutputBatch

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
_MODULES = "org.apache.kafka.common.security"
NO_RETRY_S = 60.0
"""Far less than the minutes for which an operation tries again, far more than a busy machine needs to be told no."""

PATIENCE_S = 240.0
T = TypeVar("T")


def patiently(call: Callable[[], T]) -> T:
    """The answer, though the broker may be too busy to give it within the time that a request has."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call()
        except LogError as error:
            if error.condition != "BROKER_UNAVAILABLE" or time.monotonic() > deadline:
                raise


def round_trip(address: str, options: Mapping[str, str], name: str) -> list[bytes | None]:
    """Admin, transactional producer and consumer: what is read of an epoch that was written."""
    log = KafkaLog(LogConfig("kafka", address, options))
    if not patiently(lambda: log.describe([name])):
        with contextlib.suppress(LogError):  # made after all, though the answer was late
            log.create_topic(name, 1)
    writer, reader = log.writer(), log.reader()
    marker = Marker("L", 0, "d")
    patiently(lambda: writer.publish_epoch(name, "0", marker, [OutputBatch(name, [b"k"], [b"v"], [1])]))
    partition = TopicPartition(name, 0)
    deadline = time.monotonic() + PATIENCE_S
    while not (end := log.end_offsets([partition])[partition]) and time.monotonic() < deadline:
        time.sleep(0.01)
    found = patiently(lambda: [value for batch in reader.fetch(partition, 0, end) for value in batch.values])
    assert patiently(lambda: log.markers(name)) == {"0": marker}
    for each in (writer, reader, log):
        each.close()
    return found


def refusal(address: str, options: Mapping[str, str]) -> LogError:
    """The error of a client that is not let in, which comes soon."""
    log = KafkaLog(LogConfig("kafka", address, options))
    began = time.monotonic()
    with pytest.raises(LogError) as caught:
        log.topics()
    assert time.monotonic() - began < NO_RETRY_S
    assert "\n" not in str(caught.value)
    return caught.value


def test_tls_with_the_brokers_authority(secured: Secured) -> None:
    options = {"security.protocol": "SSL", "ssl.ca.location": str(secured.authority.file)}
    assert round_trip(secured.address("TLS"), options, "tls") == [b"v"]


@pytest.mark.parametrize("form", ["pem", "pkcs12", "inline", "librdkafka"])
def test_mutual_tls_under_the_names_of_the_java_clients(secured: Secured, form: str) -> None:
    client, authority = secured.client, secured.authority.file
    options = {
        "pem": {"ssl.truststore.location": str(authority), "ssl.keystore.location": str(client.both)},
        "pkcs12": {
            "ssl.truststore.location": str(authority),
            "ssl.truststore.type": "PEM",
            "ssl.keystore.location": str(client.pkcs12),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.password": client.password,
        },
        "inline": {
            "ssl.truststore.certificates": authority.read_text().replace("\n", " "),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": client.key.read_text().replace("\n", " "),
            "ssl.keystore.certificate.chain": client.certificate.read_text().replace("\n", " "),
        },
        "librdkafka": {
            "ssl.ca.location": str(authority),
            "ssl.key.location": str(client.key),
            "ssl.certificate.location": str(client.certificate),
        },
    }[form]
    log = KafkaLog(LogConfig("kafka", secured.address("MUTUAL"), {"security.protocol": "SSL", **options}))
    assert isinstance(log.topics(), list)
    log.close()


def test_a_user_with_a_password_over_tls(secured: Secured) -> None:
    options = secured.password_settings("SCRAM-SHA-512")
    assert round_trip(secured.address("SASL"), options, "sasl") == [b"v"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_lets_the_user_in(secured: Secured, mechanism: str) -> None:
    log = KafkaLog(LogConfig("kafka", secured.address("SASL"), secured.password_settings(mechanism)))
    assert isinstance(log.topics(), list)
    log.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_jaas_configuration_without_tls(secured: Secured, mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAYASE_TEST_PASSWORD", PASSWORD)
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    jaas = f'{_MODULES}.{module} required username="{USER}" password="${{env:HAYASE_TEST_PASSWORD}}";'
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    log = KafkaLog(LogConfig("kafka", secured.address("OPEN"), options))
    assert isinstance(log.topics(), list)
    log.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_an_error_in_one_line_and_not_tried_for_ever(secured: Secured, mechanism: str) -> None:
    error = refusal(secured.address("SASL"), secured.password_settings(mechanism, "not-the-password"))
    assert error.condition == "AUTHENTICATION_FAILED"
    assert "sasl.password" in error.message
    assert "not-the-password" not in str(error)


def test_a_broker_that_nobody_vouches_for_is_an_error_that_names_the_setting(secured: Secured, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger", "Somebody Else")
    for options in ({}, {"ssl.ca.location": str(stranger.file)}):
        error = refusal(secured.address("TLS"), {"security.protocol": "SSL", **options})
        assert error.condition == "TLS_FAILED"
        assert "ssl.ca.location" in error.message


def test_a_client_without_the_certificate_that_is_asked_for_is_refused(secured: Secured, tmp_path: Path) -> None:
    trust = {"security.protocol": "SSL", "ssl.ca.location": str(secured.authority.file)}
    stranger = Authority(tmp_path / "stranger", "Somebody Else").identity("stranger")
    for options in ({}, {"ssl.keystore.location": str(stranger.both)}):
        error = refusal(secured.address("MUTUAL"), {**trust, **options})
        assert error.condition == "TLS_FAILED"
        assert "ssl.certificate.location" in error.message


def test_a_wrong_password_of_a_keystore_is_an_error_that_does_not_show_it(secured: Secured) -> None:
    options = {
        "security.protocol": "SSL",
        "ssl.keystore.location": str(secured.client.pkcs12),
        "ssl.keystore.password": "not-the-password",
    }
    with pytest.raises(ConfigError) as caught:
        KafkaLog(LogConfig("kafka", secured.address("MUTUAL"), options)).topics()
    assert caught.value.condition == "INVALID_CLIENT_SETTING"
    assert "not-the-password" not in str(caught.value)


def test_producers_and_consumers_with_a_wrong_password_of_their_own_say_so(secured: Secured) -> None:
    wrong = {"consumer.sasl.password": "wrong-one", "producer.sasl.password": "wrong-two"}
    log = KafkaLog(LogConfig("kafka", secured.address("SASL"), {**secured.password_settings("PLAIN"), **wrong}))
    with pytest.raises(LogError) as caught:
        log.writer().append([OutputBatch("t", [b"k"], [b"v"], [1])])
    assert caught.value.condition == "AUTHENTICATION_FAILED"
    with pytest.raises(LogError) as caught:
        list(log.reader().fetch(TopicPartition("t", 0), 0, 1))
    assert caught.value.condition == "AUTHENTICATION_FAILED"
    log.close()


def test_the_command_line_reaches_it_with_a_properties_file(
    secured: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAYASE_TEST_PASSWORD", PASSWORD)
    file = tmp_path / "client.properties"
    file.write_text(
        f"bootstrap.servers={secured.address('SASL')}\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f"ssl.truststore.location={secured.authority.file}\n"
        f'sasl.jaas.config={_MODULES}.scram.ScramLoginModule required \\\n  username="{USER}" \\\n'
        '  password="${env:HAYASE_TEST_PASSWORD}";\n'
    )
    where = ["--command-config", str(file)]
    made = [
        "topics",
        "create",
        "by-command",
        "-c",
        "cleanup.policy=compact",
        "-c",
        "min.compaction.lag.ms=60000",
        *where,
    ]
    assert run_cli(made) == 0
    assert run_cli(["topics", "alter", "by-command", "-c", "retention.ms=1000", *where]) == 0
    assert run_cli(["topics", "describe", "by-command", *where]) == 0
    assert run_cli(["topics", "list", *where]) == 0
    out = capsys.readouterr().out
    assert "  cleanup.policy=compact\n  min.compaction.lag.ms=60000\n  retention.ms=1000" in out
    assert "\nby-command\n" in out
    monkeypatch.setenv("HAYASE_TEST_PASSWORD", "not-the-password")
    assert run_cli(["topics", "list", *where]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: the Kafka cluster does not let the client in") and error.count("\n") == 1
    assert "not-the-password" not in error
