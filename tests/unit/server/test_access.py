"""Requests that the server does not serve: by their address, user, size or settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.server.command_servers import client_of, server_in

from hayase.core.errors import ConfigError
from hayase.server.security.users import Role, Users, user_line
from hayase.server.settings import ServerSettings
from hayase.sql.setting_values import Listener

STREAM = "CREATE STREAM s (v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);"


def users_file(folder: Path) -> Path:
    path = folder / "users"
    lines = [user_line(name, role, f"{name}'s") for name, role in (("ann", Role.READ), ("bob", Role.WRITE))]
    path.write_text("# users\n" + "\n".join(lines) + "\n" + user_line("eve", Role.ADMIN, "eve's"))
    path.chmod(0o600)
    return path


@pytest.mark.long
def test_a_password_is_checked_by_its_hash(tmp_path: Path) -> None:
    users = Users(users_file(tmp_path))
    for _ in range(2):
        found = users.check("bob", "bob's")
        assert found is not None
        assert found.role is Role.WRITE
    assert users.check("bob", "ann's") is None
    assert users.check("nope", "bob's") is None


def test_a_users_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = users_file(tmp_path)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        Users(path)


def test_a_line_that_is_no_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("ann:secret")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"users:1 is no user"):
        Users(path)


@pytest.mark.long
def test_without_a_password_a_request_is_not_served(tmp_path: Path) -> None:
    users = users_file(tmp_path)
    with server_in(
        tmp_path,
        authentication_method="BASIC",
        hayase_server_users_file=users,
        authentication_skip_paths="/chc/live",
    ) as context:
        client = client_of(context)
        response = client.get("/info")
        assert (response.status_code, response.json()["error_code"]) == (401, 40100)
        assert response.headers["www-authenticate"] == 'Basic realm="hayase"'
        assert client.get("/info", auth=("ann", "wrong")).status_code == 401
        assert client.get("/info", headers={"authorization": "Basic !"}).status_code == 401
        assert client.get("/info", auth=("ann", "ann's")).status_code == 200
        assert client.get("/chc/live").status_code == 200


@pytest.mark.long
def test_roles_bound_what_a_user_may_do(tmp_path: Path) -> None:
    with server_in(tmp_path, authentication_method="BASIC", hayase_server_users_file=users_file(tmp_path)) as context:
        client = client_of(context)
        ann, bob, eve = ("ann", "ann's"), ("bob", "bob's"), ("eve", "eve's")
        assert client.post("/ksql", json={"ksql": "SHOW STREAMS;"}, auth=ann).status_code == 200
        denied = client.post("/ksql", json={"ksql": STREAM}, auth=ann)
        assert (denied.status_code, denied.json()["error_code"]) == (403, 40300)
        assert client.post("/inserts-stream", content=b'{"target":"s"}\n', auth=ann).status_code == 403
        assert client.post("/ksql", json={"ksql": STREAM}, auth=bob).status_code == 200
        function = "CREATE FUNCTION f(x INT) RETURNS INT LANGUAGE PYTHON AS 'x';"
        assert client.post("/ksql", json={"ksql": function}, auth=bob).status_code == 403
        connector = "CREATE SOURCE CONNECTOR c WITH ('connector.class'='FileStreamSource', 'file'='/etc/passwd');"
        assert client.post("/ksql", json={"ksql": connector}, auth=bob).status_code == 403
        assert client.post("/ksql", json={"ksql": "DROP CONNECTOR c;"}, auth=bob).status_code == 403
        assert client.post("/ksql/terminate", json={}, auth=bob).status_code == 403
        assert client.post("/ksql/terminate", json={}, auth=eve).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8088", "127.0.0.1.evil.example"])
def test_a_foreign_host_is_refused_on_loopback(tmp_path: Path, host: str) -> None:
    with server_in(tmp_path) as context:
        response = client_of(context).get("/info", headers={"host": host})
        assert (response.status_code, response.json()["error_code"]) == (421, 42100)


def test_a_foreign_origin_is_refused_unless_it_is_named(tmp_path: Path) -> None:
    with server_in(tmp_path, access_control_allow_origin="https://good.example") as context:
        client = client_of(context)
        assert client.get("/info", headers={"origin": "https://evil.example"}).status_code == 403
        assert client.get("/info", headers={"origin": "https://good.example"}).status_code == 200
        assert client.get("/info", headers={"origin": "http://127.0.0.1:8088"}).status_code == 200


def test_a_foreign_origin_gets_no_web_socket(tmp_path: Path) -> None:
    from starlette.websockets import WebSocketDisconnect

    with server_in(tmp_path) as context:
        client = client_of(context)
        with (
            pytest.raises(WebSocketDisconnect) as refused,
            client.websocket_connect("/ws/query?request=", headers={"origin": "https://evil.example"}),
        ):
            pass
        assert refused.value.code == 1008


def test_a_body_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with server_in(tmp_path, hayase_server_max_body_bytes=100) as context:
        client = client_of(context)
        text = "SHOW STREAMS;" + " " * 100
        assert client.post("/ksql", json={"ksql": text}).json()["error_code"] == 41300

        def parts() -> object:
            yield b'{"ksql": "'
            yield b" " * 200

        assert client.post("/ksql", content=parts()).status_code == 413  # type: ignore[arg-type]  # a generator


def test_requests_set_only_what_they_may(tmp_path: Path) -> None:
    with server_in(tmp_path, ksql_properties_overrides_denylist="auto.offset.reset") as context:
        client = client_of(context)
        body = {"ksql": "SHOW STREAMS;", "streamsProperties": {"ksql.streams.auto.offset.reset": "earliest"}}
        assert "prohibited" in client.post("/ksql", json=body).json()["message"]
        assert client.post("/ksql", json={"ksql": "SET 'auto.offset.reset'='latest';"}).status_code == 400


def test_the_server_listens_on_loopback_unless_it_is_told_otherwise() -> None:
    assert ServerSettings.of({}).listener == Listener("127.0.0.1", 8088)
    assert ServerSettings.of({"listeners": "http://0.0.0.0:9"}).listener == Listener("0.0.0.0", 9)


@pytest.mark.parametrize(
    "given",
    [
        {"listeners": "ftp://x:1"},
        {"listeners": "http://a:1,http://b:2"},
        {"listeners": "https://127.0.0.1:8088"},
        {"ksql.service.id": "a b"},
        {"ksql.max.push.queries": "0"},
        {"ksql.nope": "1"},
        {"authentication.method": "BASIC"},
        {"authentication.method": "NTLM"},
        {"ksql.hidden.topics": "("},
        {"nope": "1"},
    ],
)
def test_a_wrong_setting_of_the_server_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        ServerSettings.of(given)
