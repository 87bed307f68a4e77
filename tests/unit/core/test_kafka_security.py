"""Security settings of Kafka's clients, under librdkafka's names and those of the Java clients."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError
from hayase.core.kafka_security import translated, usable_settings

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
BODY = "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gun"


def refused(**settings: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        StreamsConfig({"application.id": "a", **{key.replace("_", "."): value for key, value in settings.items()}})
    return caught.value


def test_librdkafkas_own_names_stay_as_they_are() -> None:
    given_settings = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/ca",
        "ssl.certificate.location": "/crt",
        "ssl.key.location": "/key",
        "ssl.key.password": "x",
        "ssl.endpoint.identification.algorithm": "https",
        "enable.ssl.certificate.verification": "true",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ada",
        "sasl.password": "x",
        "linger.ms": "5",
    }
    assert translated(given_settings) == given_settings


def test_a_truststore_in_pem_is_the_file_of_authorities() -> None:
    wanted = {"ssl.ca.location": "/etc/ca.pem"}
    assert translated({"ssl.truststore.location": "/etc/ca.pem"}) == wanted
    assert translated({"ssl.truststore.location": "/etc/ca.pem", "ssl.truststore.type": "pem"}) == wanted
    assert translated({"ssl.truststore.location": "/x", "ssl.truststore.type": "PEM"}) == {"ssl.ca.location": "/x"}


def test_a_keystore_in_pem_is_key_and_certificate_and_one_in_pkcs12_stays_what_it_is() -> None:
    pem = {"ssl.keystore.location": "/client.pem", "ssl.keystore.type": "PEM", "ssl.key.password": "x"}
    assert translated(pem) == {
        "ssl.key.location": "/client.pem",
        "ssl.certificate.location": "/client.pem",
        "ssl.key.password": "x",
    }
    pkcs12 = {"ssl.keystore.location": "/client.p12", "ssl.keystore.password": "x"}
    assert translated({**pkcs12, "ssl.keystore.type": "PKCS12"}) == pkcs12
    assert translated(pkcs12) == pkcs12


def test_pem_in_a_setting_gets_back_the_line_breaks_that_a_properties_file_loses() -> None:
    one_line = f"-----BEGIN CERTIFICATE----- {BODY} -----END CERTIFICATE-----"
    found = translated({"ssl.truststore.certificates": one_line})["ssl.ca.pem"]
    assert found == f"-----BEGIN CERTIFICATE-----\n{BODY[:64]}\n{BODY[64:]}\n-----END CERTIFICATE-----\n"
    assert translated({"ssl.truststore.certificates": found})["ssl.ca.pem"] == found + "\n"
    both = translated({"ssl.keystore.key": one_line, "ssl.keystore.certificate.chain": one_line})
    assert both == {"ssl.key.pem": found, "ssl.certificate.pem": found}


def test_names_need_not_be_checked_in_javas_spelling() -> None:
    assert translated({"ssl.endpoint.identification.algorithm": ""}) == {
        "ssl.endpoint.identification.algorithm": "none"
    }


@pytest.mark.parametrize(
    ("module", "mechanism"), [(PLAIN, "PLAIN"), (SCRAM, "SCRAM-SHA-256"), (SCRAM, "SCRAM-SHA-512")]
)
def test_a_jaas_configuration_is_a_user_and_a_password(module: str, mechanism: str) -> None:
    jaas = f'{module} required\n  username="ada" password="x\\"y;z";'
    assert translated({"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}) == {
        "sasl.mechanism": mechanism,
        "sasl.username": "ada",
        "sasl.password": 'x"y;z',
    }


@given(st.text(min_size=1), st.text(min_size=1))
def test_every_password_survives_javas_quotes(user: str, password: str) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    jaas = f"{PLAIN} required username={quoted(user)} password={quoted(password)};"
    found = translated({"sasl.jaas.config": jaas})
    assert (found["sasl.username"], found["sasl.password"]) == (user, password)


def test_references_are_resolved_in_a_jaas_configuration_and_for_the_whole_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PW", 'with "quotes"')
    inside = usable_settings({"sasl.jaas.config": f'{PLAIN} required username="ada" password="${{env:PW}}";'})
    assert inside["sasl.password"] == 'with "quotes"'
    monkeypatch.setenv("JAAS", f"{PLAIN} required username=ada password=open;")
    assert usable_settings({"sasl.jaas.config": "${env:JAAS}"})["sasl.password"] == "open"
    monkeypatch.setenv("CA", f"-----BEGIN CERTIFICATE----- {BODY} -----END CERTIFICATE-----")
    assert usable_settings({"ssl.truststore.certificates": "${env:CA}"})["ssl.ca.pem"].count("\n") == 4


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("ssl.truststore.location", "/trust.jks", "set ssl.ca.location=ca.pem"),
        ("ssl.truststore.location", "/trust.p12", "type PKCS12 cannot be read"),
        ("ssl.truststore.password", "x", "remove ssl.truststore.password"),
        ("ssl.keystore.location", "/key.jks", "ssl.keystore.type=PKCS12"),
        ("sasl.jaas.config", "nonsense", "must read: MODULE required"),
        ("sasl.jaas.config", f"{PLAIN} required username=a;", "has no password"),
        ("sasl.jaas.config", f"{PLAIN} required username=a password=b; {PLAIN} required;", "one login module"),
        ("sasl.jaas.config", "com.sun.security.auth.module.Krb5LoginModule required x=y;", "sasl.kerberos.keytab"),
        ("sasl.jaas.config", "org.apache.OAuthBearerLoginModule required x=y;", "sasl.oauthbearer.client.id"),
        ("sasl.jaas.config", "org.example.MyModule required x=y;", "MyModule of sasl.jaas.config cannot be"),
        ("security.protocol", "TLS", "allowed is one of PLAINTEXT, SSL"),
    ],
)
def test_what_has_no_counterpart_is_refused_and_what_to_use_is_said(key: str, value: str, words: str) -> None:
    error = refused(**{key: value})
    assert error.condition == "INVALID_SETTING"
    assert words in error.message
    assert error.context["setting"] == key


@pytest.mark.parametrize("password", ["swordfish"])
def test_errors_about_a_login_do_not_show_it(password: str) -> None:
    for jaas in (f"nonsense {password}", f"{PLAIN} required username=a password={password} oops", password):
        assert password not in str(refused(**{"sasl.jaas.config": jaas}))


@pytest.mark.parametrize(
    ("key", "condition", "words"),
    [
        ("ssl.enabled.protocols", "UNSUPPORTED_SETTING", "remove it"),
        ("sasl.login.callback.handler.class", "UNSUPPORTED_SETTING", "sasl.oauthbearer.method=oidc"),
        ("sasl.login.refresh.window.factor", "UNSUPPORTED_SETTING", "remove it"),
        ("ssl.ca.locaton", "UNKNOWN_SETTING", "did you mean 'ssl.ca.location'?"),
        ("sasl.user", "UNKNOWN_SETTING", "did you mean 'sasl.username'?"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "consumer.", "producer.", "admin."])
def test_security_settings_that_are_not_in_the_list_are_refused_for_every_client(
    prefix: str, key: str, condition: str, words: str
) -> None:
    error = refused(**{prefix + key: "x"})
    assert error.condition == condition
    assert words in error.message


def test_two_settings_that_contradict_each_other_are_refused() -> None:
    error = refused(ssl_truststore_location="/a.pem", ssl_ca_location="/b.pem")
    assert "leave one out" in error.message
    scram = refused(sasl_mechanism="PLAIN", **{"sasl.jaas.config": f"{SCRAM} required username=a password=b;"})
    assert "SCRAM-SHA-256 or SCRAM-SHA-512" in scram.message
    assert "SCRAM" in refused(**{"sasl.jaas.config": f"{SCRAM} required username=a password=b;"}).message
