"""References to secrets, and secrets given in clear that are shipped."""

from __future__ import annotations

import pickle
import shutil
import sys
import time
from pathlib import Path

import pytest

from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError
from hayase.core.secrets import _END_S, Settings, Vault, is_reference, known_secrets, resolve, resolved
from hayase.log.protocol import LogConfig
from hayase.serde.registry import SchemaRegistry

PASSWORD = "swordfish"


def test_a_reference_may_name_a_variable_a_key_of_a_file_or_a_file_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("kafka.password = from the file\n")
    (tmp_path / "password").write_text("from the folder\n")
    assert resolve("a", "${env:PW}", {"PW": "from the environment"}) == "from the environment"
    assert resolve("a", f"${{file:{tmp_path}/secrets.properties:kafka.password}}") == "from the file"
    assert resolve("a", f"${{dir:{tmp_path}:password}}") == "from the folder"
    assert resolve("a", "x ${env:A} y ${env:B} z", {"A": "1", "B": "2"}) == "x 1 y 2 z"
    assert resolve("a", "costs $5 {or more}") == "costs $5 {or more}"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("${env:NOBODY_SET_THIS}", "the process that connects has no such variable"),
        ("${file:/nowhere/at/all:key}", "No such file"),
        ("${dir:/nowhere/at/all:key}", "No such file"),
        ("${dir:/etc:../shadow}", "there is no such key"),
    ],
)
def test_what_a_reference_names_and_is_not_there_is_an_error_that_names_setting_and_reference(
    value: str, words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve("sasl.password", value, {})
    assert caught.value.condition == "SECRET_NOT_FOUND"
    assert words in caught.value.message
    assert value in caught.value.message
    assert caught.value.context["setting"] == "sasl.password"


def test_a_provider_that_nobody_knows_is_refused_when_the_application_is_made() -> None:
    with pytest.raises(ConfigError, match=r"no provider 'vault'.*\$\{env:NAME\}") as caught:
        StreamsConfig({"application.id": "a", "sasl.password": "${vault:kafka:pw}"})
    assert caught.value.condition == "UNKNOWN_PROVIDER"


def test_what_a_reference_names_is_looked_for_only_where_it_is_used() -> None:
    config = StreamsConfig({"application.id": "a", "sasl.password": "${env:NOBODY_SET_THIS}"})
    assert config.consumer_properties["sasl.password"] == "${env:NOBODY_SET_THIS}"
    assert "${env:NOBODY_SET_THIS}" in repr(config)  # where a secret is, is none


def test_secrets_given_in_clear_are_shipped_as_references_that_lead_to_the_driver() -> None:
    given = {
        "config": StreamsConfig(
            {
                "application.id": "a",
                "sasl.username": "ada",
                "sasl.password": PASSWORD,
                "schema.registry.url": f"http://ada:{PASSWORD}@host:1",
                "schema.registry.basic.auth.user.info": f"ada:{PASSWORD}",
            }
        ),
        "log": LogConfig("kafka", "host:1", {"consumer.sasl.password": PASSWORD, "ssl.key.location": "/etc/key"}),
        "registry": SchemaRegistry(f"http://ada:{PASSWORD}@host:1", {"ssl.key.password": PASSWORD}),
    }
    vault = Vault()
    with vault.sealing():
        data = pickle.dumps(given)
    assert PASSWORD.encode() not in data
    found = pickle.loads(data)
    options = found["log"].options
    assert is_reference(options["consumer.sasl.password"])
    assert resolved(options) == {"consumer.sasl.password": PASSWORD, "ssl.key.location": "/etc/key"}
    assert resolved(found["config"].consumer_properties)["sasl.password"] == PASSWORD
    assert resolved(found["config"].schema_registry)["basic.auth.user.info"] == f"ada:{PASSWORD}"
    assert found["registry"].url == "http://host:1"
    vault.close()
    with pytest.raises(ConfigError, match="on the driver's machine only"):
        resolved(options)


def test_references_are_shipped_as_they_are_and_pickling_for_other_ends_keeps_the_value() -> None:
    vault = Vault()
    with vault.sealing():
        shipped = pickle.loads(pickle.dumps(Settings({"sasl.password": "${env:PW}"})))
    vault.close()
    assert shipped == {"sasl.password": "${env:PW}"}
    assert pickle.loads(pickle.dumps(Settings({"sasl.password": PASSWORD}))) == {"sasl.password": PASSWORD}


def test_the_vault_can_be_entered_by_its_user_only_and_leaves_nothing(tmp_path: Path) -> None:
    vault = Vault()
    reference = vault.keep(PASSWORD)
    folder = Path(reference.split(":")[1]).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == ["socket"]
    assert vault.keep(PASSWORD) == reference
    vault.close()
    assert not folder.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts what Linux shows of a thread")
def test_a_vault_is_closed_though_its_socket_was_removed() -> None:
    vault = Vault()
    shutil.rmtree(vault._folder)
    begun = time.monotonic()
    vault.close()
    assert not vault._thread.is_alive()
    assert time.monotonic() - begun < _END_S


def test_a_vault_that_nobody_asks_does_not_wake_up() -> None:
    vault = Vault()
    thread = vault._thread
    status = Path(f"/proc/self/task/{thread.native_id}/status")

    def waits() -> str:
        return next(line for line in status.read_text().splitlines() if line.startswith("voluntary_ctxt_switches"))

    time.sleep(0.2)
    before = waits()
    time.sleep(0.5)
    assert waits() == before
    vault.close()
    assert not thread.is_alive()


def test_settings_are_not_shown_in_clear() -> None:
    log = LogConfig("kafka", "host:1", {"sasl.password": PASSWORD, "sasl.jaas.config": f"x password={PASSWORD};"})
    config = StreamsConfig({"application.id": "a", "schema.registry.url": f"http://ada:{PASSWORD}@host:1"})
    registry = SchemaRegistry(f"http://ada:{PASSWORD}@host:1")
    assert PASSWORD not in f"{log!r} {log} {config!r} {registry!r}"


def test_secrets_that_are_referred_to_are_masked_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAYASE_TEST_PASSWORD", PASSWORD)
    assert known_secrets({"sasl.password": "${env:HAYASE_TEST_PASSWORD}"}) == (PASSWORD,)
    assert known_secrets({"url": "https://ada:open-sesame@host"}) == ("open-sesame",)
    java = "org.apache.kafka.common.security.plain.PlainLoginModule required username='a' password='quoted one';"
    config = StreamsConfig(
        {"application.id": "a", "producer.sasl.jaas.config": java, "producer.sasl.mechanism": "PLAIN"}
    )
    assert "quoted one" in config.secrets
