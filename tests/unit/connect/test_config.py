"""Definitions of configurations, references to secrets, and configurations of connectors as a whole."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hayase.connect.config.client_overrides import ClientOverrides
from hayase.connect.config.config_def import ConfigDef, TypedConfig
from hayase.connect.config.references import ReferencePolicy
from hayase.connect.config.types import ConfigType, Password, config_text
from hayase.connect.config.validators import at_least, between, list_of, non_empty_without_control_characters, one_of
from hayase.connect.config.worker_config import WorkerConfig
from hayase.connect.connector_validation import ConnectorValidator, masked, unmasked
from hayase.connect.contracts import ConnectorTransactionBoundaries, ExactlyOnceSupport, Props
from hayase.connect.exceptions import ConnectError
from hayase.connect.files.file_stream_source import FileStreamSourceConnector
from hayase.connect.plugins import Plugins
from hayase.core.errors import ConfigError

LINES = {"name": "lines", "connector.class": "FileStreamSource", "topic": "lines", "file": "/lines.txt"}
SINK = {"name": "out", "connector.class": "FileStreamSink", "file": "/lines.txt"}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, "TRUE", True),
        (ConfigType.INT, " 7 ", 7),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.DOUBLE, "0.5", 0.5),
        (ConfigType.LIST, "a, b,c", ["a", "b", "c"]),
        (ConfigType.LIST, "", []),
        (ConfigType.PASSWORD, "x", Password("x")),
    ],
)
def test_text_becomes_a_value_of_the_type(kind: ConfigType, text: str, value: object) -> None:
    assert ConfigDef().define("key", kind).parse({"key": text}) == {"key": value}


@pytest.mark.parametrize(
    ("kind", "text", "error"),
    [
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.SHORT, "1.5", "Not a number of type SHORT"),
        (ConfigType.DOUBLE, "x", "Not a number of type DOUBLE"),
    ],
)
def test_text_that_is_none_of_the_type_is_refused(kind: ConfigType, text: str, error: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value {re.escape(text)} for configuration key: {error}"):
        ConfigDef().define("key", kind).parse({"key": text})


@pytest.mark.parametrize(
    ("validator", "value", "error"),
    [
        (at_least(1), 0, "Value must be at least 1"),
        (between(0, 9), 10, "Value must be no more than 9"),
        (one_of("a", "b"), "c", "String must be one of: a, b"),
        (one_of("a", "b", ignore_case=True), "c", "String must be one of (case insensitive): A, B"),
        (list_of("a"), ["a", "c"], "String must be one of: a"),
        (non_empty_without_control_characters, "a\nb", "had the following ASCII chars: 10"),
    ],
)
def test_a_validator_says_what_is_allowed(validator: object, value: object, error: str) -> None:
    assert callable(validator)
    with pytest.raises(ConfigError, match=re.escape(error)):
        validator("key", value)


def test_all_errors_are_found_and_not_just_the_first() -> None:
    definition = ConfigDef().define("a", ConfigType.INT).define("b", ConfigType.INT, 1).define("c", ConfigType.STRING)
    errors = {value.name: value.errors for value in definition.validate({"a": "x", "b": "2"})}
    assert [len(each) for each in errors.values()] == [1, 0, 1]


def test_a_key_is_defined_once() -> None:
    with pytest.raises(ConfigError, match="defined twice"):
        ConfigDef().define("a", ConfigType.INT).define("a", ConfigType.INT)


def test_a_password_is_never_shown() -> None:
    config = TypedConfig(ConfigDef().define("key", ConfigType.PASSWORD), {"key": "open sesame"})
    assert config.password("key") == "open sesame"
    assert repr(config["key"]) == config_text(config["key"], ConfigType.PASSWORD) == "[hidden]"


def test_recommended_values_depend_on_other_keys() -> None:
    class Tables:
        def valid_values(self, name: str, parsed: Mapping[str, object]) -> Sequence[object]:
            return ["users"] if parsed["database"] == "shop" else ["events"]

        def visible(self, name: str, parsed: Mapping[str, object]) -> bool:
            return True

    definition = ConfigDef().define("database", ConfigType.STRING).define(
        "table", ConfigType.STRING, recommender=Tables()
    )  # fmt: skip
    _, table = definition.validate({"database": "log", "table": "users"})
    assert table.recommended_values == ["events"]
    assert len(table.errors) == 1


def test_references_are_resolved_where_they_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "db.properties").write_text("password=open sesame\n")
    (tmp_path / "token").write_text("abc\n")
    monkeypatch.setenv("SHOP_USER", "ada")
    policy = ReferencePolicy.from_worker(
        {
            "config.providers.file.param.allowed.paths": str(tmp_path),
            "config.providers.dir.param.allowed.paths": str(tmp_path),
            "config.providers.env.param.allowlist.pattern": "SHOP_.*",
        }
    )
    props = {
        "password": f"${{file:{tmp_path}/db.properties:password}}",
        "token": f"${{dir:{tmp_path}:token}}",
        "user": "${env:SHOP_USER}",
    }
    assert policy.resolved(props) == {"password": "open sesame", "token": "abc", "user": "ada"}


@pytest.mark.parametrize(
    "reference",
    ["${file:/etc/passwd:root}", "${dir:/etc:hostname}", "${env:HOME}", "${driver:/run/socket:0}", "${vault:a:b}"],
)
def test_references_are_refused_where_they_are_not(tmp_path: Path, reference: str) -> None:
    policy = ReferencePolicy(file_roots=(tmp_path,), dir_roots=(tmp_path,), env_pattern=re.compile("SHOP_.*"))
    with pytest.raises(ConfigError):
        policy.resolved({"key": reference})


def test_a_path_that_leads_out_of_the_allowed_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "other.properties").write_text("a=b\n")
    (tmp_path / "secrets" / "link.properties").symlink_to(tmp_path / "other.properties")
    policy = ReferencePolicy(file_roots=(tmp_path / "secrets",))
    for path in ("../other.properties", "link.properties"):
        with pytest.raises(ConfigError, match="may not read"):
            policy.resolved({"key": f"${{file:{tmp_path}/secrets/{path}:a}}"})


def errors(props: Mapping[str, str], **changes: str) -> dict[str, list[str]]:
    given = {**props, **{key.replace("_", "."): value for key, value in changes.items()}}
    infos = ConnectorValidator(Plugins(entry_points=False), ReferencePolicy(), durable=False).validate(given)
    return {value.name: value.errors for value in infos.values if value.errors}


def test_a_right_configuration_has_no_errors() -> None:
    assert errors(LINES) == {}


def test_a_sink_needs_topics_or_their_pattern_and_not_both() -> None:
    assert set(errors(SINK)) == {"topics", "topics.regex"}
    assert set(errors(SINK, topics="a", topics_regex="b.*")) == {"topics", "topics.regex"}
    assert errors(SINK, topics="a") == {}


def test_a_sink_does_not_read_its_own_dead_letters() -> None:
    assert "DLQ topic 'a'" in errors(SINK, topics="a,b", errors_deadletterqueue_topic_name="a")["topics"][0]


def test_errors_of_transforms_and_converters_are_at_their_keys() -> None:
    wrong = {"transforms_x_type": "Nope", "value_converter": "Nope"}
    assert set(errors(LINES, transforms="x", **wrong)) == {"transforms.x.type", "value.converter"}


def test_exactly_once_is_refused_on_a_log_that_is_not_durable() -> None:
    assert "fsync" in errors(LINES, exactly_once_support="required")["exactly.once.support"][0]


class UnsureSource(FileStreamSourceConnector):
    """Cannot say what it supports."""

    def exactly_once_support(self, props: Props) -> ExactlyOnceSupport:
        raise KeyError("support")

    def can_define_transaction_boundaries(self, props: Props) -> ConnectorTransactionBoundaries:
        raise ConnectError("NOT_REACHABLE", "the source cannot be asked")


def test_what_a_connector_raises_when_asked_for_its_guarantees_is_an_error_at_the_key_of_the_question() -> None:
    plugins = Plugins(entry_points=False)
    props = {**LINES, "connector.class": plugins.add_class(UnsureSource)}
    asked = {"exactly.once.support": "required", "transaction.boundary": "connector"}
    infos = ConnectorValidator(plugins, ReferencePolicy()).validate({**props, **asked})
    assert {value.name: value.errors for value in infos.values if value.errors} == {
        "exactly.once.support": ["An unexpected error occurred during validation: KeyError: 'support'"],
        "transaction.boundary": ["the source cannot be asked"],
    }


POLICY, ALLOWED = "connector.client.config.override.policy", "connector.client.config.allowlist"
OVERRIDES = {"consumer.override.fetch.wait.max.ms": "9", "consumer.override.sasl.mechanism": "PLAIN"}


@pytest.mark.parametrize(
    ("worker", "refused"),
    [
        ({}, set()),
        ({POLICY: "None"}, {*OVERRIDES}),
        ({POLICY: "Principal"}, {"consumer.override.fetch.wait.max.ms"}),
        ({POLICY: "Allowlist", ALLOWED: "fetch.wait.max.ms"}, {"consumer.override.sasl.mechanism"}),
    ],
)
def test_overrides_that_the_worker_does_not_allow_are_errors_at_their_keys(
    worker: dict[str, str], refused: set[str]
) -> None:
    overrides, props = ClientOverrides(WorkerConfig(worker)), {**SINK, "topics": "a", **OVERRIDES}
    infos = ConnectorValidator(Plugins(entry_points=False), ReferencePolicy(), overrides=overrides).validate(props)
    assert {value.name for value in infos.values if value.errors} == refused
    if refused:
        with pytest.raises(ConfigError, match=r"which does not allow consumer\.override"):
            overrides.options(props, "sink")
    else:
        assert overrides.options(props, "sink") == {
            "consumer.fetch.wait.max.ms": "9",
            "consumer.sasl.mechanism": "PLAIN",
        }


def test_overrides_that_the_worker_acts_on_are_no_settings_of_the_client() -> None:
    overrides = ClientOverrides(WorkerConfig({}))
    given = {
        "auto.offset.reset": "latest", "max.poll.records": "5", "group.id": "shop", "isolation.level": "read_committed",
    }  # fmt: skip
    assert overrides.options({f"consumer.override.{key}": value for key, value in given.items()}, "sink") == {}
    assert overrides.options({"producer.override.linger.ms": "1"}, "source") == {"producer.linger.ms": "1"}


@pytest.mark.parametrize("records", ["many", "-1", "1.5", ""])
def test_a_number_of_records_that_is_none_is_an_error_at_its_key(records: str) -> None:
    found = errors({**SINK, "topics": "a", "consumer.override.max.poll.records": records})
    assert set(found) == {"consumer.override.max.poll.records"}


def test_passwords_are_hidden_and_references_are_shown() -> None:
    definition = ConfigDef().define("secret", ConfigType.PASSWORD)
    stored = {"secret": "a", "api.token": "b", "file": "c", "database.password": "${env:PW}"}
    shown = masked(stored, definition)
    assert shown == {"secret": "[hidden]", "api.token": "[hidden]", "file": "c", "database.password": "${env:PW}"}
    assert unmasked({**shown, "file": "d"}, stored) == {**stored, "file": "d"}
