"""The REST interface, over a real socket: paths, codes and bodies of Kafka Connect."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from tests.certificates import Authority

from hayase.connect.herder import connector_runner
from hayase.connect.worker import ConnectWorker
from hayase.core.errors import ConfigError
from hayase.log.protocol import LogConfig

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    folder = tmp_path_factory.mktemp("worker")
    (folder / "secrets").mkdir()
    (folder / "secrets" / "files.properties").write_text(f"path={folder / 'lines.txt'}\n")
    (folder / "lines.txt").write_text("one\ntwo\n")
    props = {
        "group.id": "w",
        "listeners": "http://127.0.0.1:0",
        "config.providers.file.param.allowed.paths": str(folder / "secrets"),
        "value.converter": "StringConverter",
    }
    with ConnectWorker(LogConfig("embedded", str(folder / "log"), {"fsync": "false"}), props) as running:
        yield running


@pytest.fixture
def client(worker: ConnectWorker) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=worker.urls[0], timeout=30) as opened:
        yield opened
        for name in opened.get("/connectors").json():
            opened.delete(f"/connectors/{name}")


def lines(name: str, **config: object) -> dict[str, object]:
    given: dict[str, object] = {"connector.class": "FileStreamSource", "file": "/nowhere", "topic": "lines"}
    return {"name": name, "config": {**given, **config}}


def wait(found: Callable[[], object], wanted: object) -> None:
    deadline = time.monotonic() + 30
    while (last := found()) != wanted:
        assert time.monotonic() < deadline, last
        time.sleep(0.05)


def states(client: httpx2.Client, name: str) -> tuple[str, list[str]]:
    status = client.get(f"/connectors/{name}/status").json()
    return status["connector"]["state"], [task["state"] for task in status["tasks"]]


def test_the_root_names_version_and_cluster(client: httpx2.Client) -> None:
    assert client.get("/").json().keys() == {"version", "commit", "kafka_cluster_id"}


def test_a_worker_that_answers_is_healthy(client: httpx2.Client) -> None:
    assert client.get("/health").json()["status"] == "healthy"


def test_a_connector_that_is_deleted_while_the_list_is_made_is_left_out(
    client: httpx2.Client, worker: ConnectWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.post("/connectors", json=lines("a"))
    monkeypatch.setattr(worker.herder, "connectors", lambda: ["a", "deleted"])
    answer = client.get("/connectors", params={"expand": ["info", "status"]})
    assert (answer.status_code, [*answer.json()]) == (200, ["a"])
    monkeypatch.undo()


def test_a_connector_is_made_and_runs(client: httpx2.Client) -> None:
    made = client.post("/connectors", json=lines("a"))
    assert (made.status_code, made.headers["location"]) == (201, "/connectors/a")
    assert made.json()["type"] == "source"
    wait(lambda: states(client, "a"), ("RUNNING", ["RUNNING"]))
    assert client.get("/connectors").json() == ["a"]
    assert client.get("/connectors/a/tasks").json()[0]["id"] == {"connector": "a", "task": 0}


@pytest.mark.parametrize("name", ["a/b", "a%2Fb", "ü ?#;+\\", "a//b/"])
def test_a_connector_may_have_any_name_that_is_encoded_in_paths(client: httpx2.Client, name: str) -> None:
    path = client.post("/connectors", json=lines(name)).headers["location"]
    wait(lambda: client.get(f"{path}/status").status_code, 200)
    assert client.get(path).json()["name"] == name
    assert client.delete(path).status_code == 204
    assert client.get("/connectors").json() == []


def test_blanks_around_a_name_do_not_belong_to_it(client: httpx2.Client) -> None:
    made = client.post("/connectors", json={**lines(" a "), "config": lines("x")["config"]})
    assert (made.json()["name"], made.headers["location"]) == ("a", "/connectors/a")
    assert client.get("/connectors/a/config").json()["name"] == "a"


def test_a_connector_of_the_same_name_is_a_conflict(client: httpx2.Client) -> None:
    client.post("/connectors", json=lines("a"))
    again = client.post("/connectors", json=lines("a"))
    assert (again.status_code, again.json()) == (409, {"error_code": 409, "message": "Connector a already exists"})


def test_a_wrong_configuration_is_answered_with_all_errors(client: httpx2.Client) -> None:
    wrong = client.post("/connectors", json=lines("a", **{"tasks.max": 0, "errors.tolerance": "some"}))
    assert wrong.status_code == 400
    assert "Invalid value 0 for configuration tasks.max: Value must be at least 1" in wrong.json()["message"]
    assert "contains the following 2 error(s)" in wrong.json()["message"]
    assert client.get("/connectors").json() == []


def test_an_unknown_class_is_answered_with_those_there_are(client: httpx2.Client) -> None:
    answer = client.post("/connectors", json={"name": "a", "config": {"connector.class": "Nope"}})
    assert answer.status_code == 400
    assert "FileStreamSourceConnector" in answer.json()["message"]


def test_what_does_not_exist_is_not_found(client: httpx2.Client) -> None:
    for path in ("/connectors/a", "/connectors/a/config", "/connectors/a/status", "/connectors/a/tasks", "/nope"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["error_code"]) == (404, 404), path


def test_a_connector_is_paused_resumed_and_stopped(client: httpx2.Client) -> None:
    client.post("/connectors", json=lines("a"))
    wait(lambda: states(client, "a"), ("RUNNING", ["RUNNING"]))
    assert client.put("/connectors/a/pause").status_code == 202
    wait(lambda: states(client, "a"), ("PAUSED", ["PAUSED"]))
    assert client.put("/connectors/a/resume").status_code == 202
    wait(lambda: states(client, "a"), ("RUNNING", ["RUNNING"]))
    assert client.put("/connectors/a/stop").status_code == 204
    wait(lambda: states(client, "a"), ("STOPPED", []))


def test_a_connector_can_begin_stopped(client: httpx2.Client) -> None:
    client.post("/connectors", json={**lines("a"), "initial_state": "STOPPED"})
    wait(lambda: states(client, "a"), ("STOPPED", []))


def test_a_restart_answers_what_is_restarted(client: httpx2.Client) -> None:
    client.post("/connectors", json=lines("a"))
    wait(lambda: states(client, "a"), ("RUNNING", ["RUNNING"]))
    answer = client.post("/connectors/a/restart?includeTasks=true&onlyFailed=false")
    assert answer.status_code == 202
    assert answer.json()["connector"]["state"] == "RESTARTING"
    wait(lambda: states(client, "a"), ("RUNNING", ["RUNNING"]))
    assert client.post("/connectors/a/restart").status_code == 204
    assert client.post("/connectors/a/tasks/0/restart").status_code == 204
    assert client.post("/connectors/a/tasks/7/restart").status_code == 404


def test_a_configuration_is_put_and_patched(client: httpx2.Client) -> None:
    config = lines("a")["config"]
    assert client.put("/connectors/a/config", json=config).status_code == 201
    assert client.put("/connectors/a/config", json={**config, "batch.size": 7}).status_code == 200  # type: ignore[dict-item]
    patched = client.patch("/connectors/a/config", json={"batch.size": "9", "file": "/elsewhere"})
    assert patched.json()["config"]["batch.size"] == "9"
    assert client.patch("/connectors/a/config", json={"batch.size": None}).status_code == 200
    assert "batch.size" not in client.get("/connectors/a/config").json()


def test_a_password_is_hidden_and_kept(worker: ConnectWorker, client: httpx2.Client) -> None:
    client.post("/connectors", json=lines("a", **{"database.password": "open sesame"}))
    shown = client.get("/connectors/a/config").json()
    assert shown["database.password"] == "[hidden]"
    client.put("/connectors/a/config", json={**shown, "batch.size": "5"})
    assert worker.herder.runner("a").stored.props["database.password"] == "open sesame"


def test_a_reference_is_shown_unresolved_and_resolved_for_the_task(
    worker: ConnectWorker, client: httpx2.Client, tmp_path_factory: pytest.TempPathFactory
) -> None:
    allowed = worker.config.props["config.providers.file.param.allowed.paths"]
    reference = f"${{file:{allowed}/files.properties:path}}"
    client.post("/connectors", json=lines("a", file=reference, topic="referred"))
    wait(lambda: client.get("/connectors/a/topics").json(), {"a": {"topics": ["referred"]}})
    assert client.get("/connectors/a").json()["config"]["file"] == reference


@pytest.mark.parametrize(("reload", "read"), [("restart", ["lines", "other"]), ("none", ["lines"])])
def test_a_secret_that_changes_restarts_the_connectors_that_want_it(
    worker: ConnectWorker,
    client: httpx2.Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reload: str,
    read: list[str],
) -> None:
    monkeypatch.setattr(connector_runner, "_LOOK_S", 0.1)
    secrets = Path(worker.config.props["config.providers.file.param.allowed.paths"])
    for topic in ("lines", "other"):
        (tmp_path / topic).write_text("one\n")
    (secrets / "changing.properties").write_text(f"path={tmp_path / 'lines'}\ntopic={reload}-lines\n")
    named = {each: f"${{file:{secrets}/changing.properties:{each}}}" for each in ("path", "topic")}
    more = {"topic": named["topic"], "config.action.reload": reload}
    client.post("/connectors", json=lines("a", file=named["path"], **more))
    wait(lambda: client.get("/connectors/a/topics").json(), {"a": {"topics": [f"{reload}-lines"]}})
    (secrets / "changing.properties").write_text(f"path={tmp_path / 'other'}\ntopic={reload}-other\n")
    if reload == "none":
        time.sleep(1)  # ten looks
    wait(lambda: client.get("/connectors/a/topics").json(), {"a": {"topics": [f"{reload}-{each}" for each in read]}})


def test_a_reference_outside_of_the_allowed_folders_is_refused(client: httpx2.Client) -> None:
    answer = client.post("/connectors", json=lines("a", file="${file:/etc/passwd:root}"))
    assert answer.status_code == 400
    assert "config.providers.file.param.allowed.paths" in answer.json()["message"]


def test_offsets_are_read_set_and_forgotten_while_it_is_stopped(client: httpx2.Client, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n")
    offset = {"partition": {"filename": str(file)}, "offset": {"position": 8}}
    client.post("/connectors", json=lines("moved", file=str(file), topic="offsets"))
    wait(lambda: client.get("/connectors/moved/offsets").json(), {"offsets": [offset]})
    moved = {"offsets": [{**offset, "offset": {"position": 4}}]}
    assert client.patch("/connectors/moved/offsets", json=moved).status_code == 400
    client.put("/connectors/moved/stop")
    wait(lambda: states(client, "moved"), ("STOPPED", []))
    assert "altered successfully" in client.patch("/connectors/moved/offsets", json=moved).json()["message"]
    assert client.get("/connectors/moved/offsets").json() == moved
    assert "reset successfully" in client.delete("/connectors/moved/offsets").json()["message"]
    assert client.get("/connectors/moved/offsets").json() == {"offsets": []}


def test_plugins_are_listed_with_their_guarantee(client: httpx2.Client) -> None:
    found = {each["class"]: each for each in client.get("/connector-plugins").json()}
    assert found["hayase.SqliteSinkConnector"]["delivery"] == "TRANSACTIONAL"
    kinds = {each["type"] for each in client.get("/connector-plugins?connectorsOnly=false").json()}
    assert kinds == {"source", "sink", "converter", "header_converter", "transformation", "predicate"}


def test_a_configuration_is_validated_key_by_key(client: httpx2.Client) -> None:
    answer = client.put(
        "/connector-plugins/FileStreamSource/config/validate", json={"connector.class": "FileStreamSource", "name": "a"}
    ).json()
    errors = {each["value"]["name"]: each["value"]["errors"] for each in answer["configs"]}
    assert errors["topic"] == ['Missing required configuration "topic" which has no default value.']
    assert answer["error_count"] == 1


def test_the_level_of_a_logger_is_set(client: httpx2.Client) -> None:
    assert "hayase.connect.x" in client.put("/admin/loggers/hayase.connect.x", json={"level": "DEBUG"}).json()
    assert client.get("/admin/loggers/hayase.connect.x").json()["level"] == "DEBUG"
    assert client.get("/admin/loggers/not.there").status_code == 404


def test_a_web_page_cannot_ask(client: httpx2.Client) -> None:
    assert client.post("/connectors", content="{}", headers={"content-type": "text/plain"}).status_code == 415
    assert client.get("/", headers={"host": "evil.example"}).status_code == 403
    assert client.post("/connectors/a/restart", headers={"origin": "http://evil.example"}).status_code == 403


def test_a_body_that_is_no_json_is_refused(client: httpx2.Client) -> None:
    json_type = {"content-type": "application/json"}
    assert client.post("/connectors", content="{", headers=json_type).status_code == 400
    assert client.post("/connectors", content="[]", headers=json_type).status_code == 400


def test_a_body_that_is_too_large_is_refused(client: httpx2.Client) -> None:
    assert client.post("/connectors", json={"name": "x" * (1 << 20)}).status_code == 413


def test_a_connector_is_deleted(client: httpx2.Client) -> None:
    client.post("/connectors", json=lines("a"))
    assert client.delete("/connectors/a").status_code == 204
    assert client.delete("/connectors/a").status_code == 404


def test_connectors_are_there_again_after_a_restart_of_the_worker(tmp_path: Path) -> None:
    config = LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false"})
    (tmp_path / "lines.txt").write_text("one\n")
    props = {"listeners": "http://127.0.0.1:0", "value.converter": "StringConverter"}
    with ConnectWorker(config, props) as worker:
        worker.herder.create(
            {"name": "a", "connector.class": "FileStreamSource", "file": str(tmp_path / "lines.txt"), "topic": "lines"}
        )
        wait(lambda: worker.herder.topics("a"), {"a": {"topics": ["lines"]}})
    with ConnectWorker(config, props) as worker:
        wait(lambda: [task["state"] for task in worker.herder.status("a")["tasks"]], ["RUNNING"])  # type: ignore[union-attr, index]
        assert worker.herder.topics("a") == {"a": {"topics": ["lines"]}}


def test_a_user_and_a_password_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "users.properties").write_text("ada=open sesame\n")
    props = {"listeners": "http://127.0.0.1:0", "rest.basic.auth.file": str(tmp_path / "users.properties")}
    with ConnectWorker(LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false"}), props) as worker:
        assert httpx2.get(worker.urls[0] + "/connectors").status_code == 401
        assert httpx2.get(worker.urls[0] + "/connectors", auth=("ada", "wrong")).status_code == 401
        assert httpx2.get(worker.urls[0] + "/connectors", auth=("ada", "open sesame")).status_code == 200


def test_answers_are_encrypted_where_the_listener_says_https(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority", "shop")
    identity = authority.identity("worker")
    log = LogConfig("embedded", str(tmp_path / "log"), {"fsync": "false"})
    props = {"listeners": "https://127.0.0.1:0"}
    with pytest.raises(ConfigError, match=r"ssl\.certificate"):
        ConnectWorker(log, props)
    props |= {"ssl.certificate": str(identity.certificate), "ssl.key": str(identity.key)}
    with ConnectWorker(log, props) as worker:
        assert worker.urls[0].startswith("https://")
        trusted = ssl.create_default_context(cafile=str(authority.file))
        assert httpx2.get(worker.urls[0] + "/connectors", verify=trusted).json() == []
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(worker.urls[0] + "/connectors")


def test_every_method_of_the_client_kafka_connect_py_works_unchanged(worker: ConnectWorker, tmp_path: Path) -> None:
    from kafka_connect import KafkaConnect
    from requests.exceptions import HTTPError

    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    given = lines("py", file=str(tmp_path / "lines.txt"), topic="py-lines")
    other = KafkaConnect(url=worker.urls[0])

    def state() -> tuple[str, list[str]]:
        status = other.get_connector_status("py")
        return status["connector"]["state"], [task["state"] for task in status["tasks"]]

    assert other.get_cluster_info().keys() == {"version", "commit", "kafka_cluster_id"}
    assert "FileStreamSourceConnector" in {each["class"].rpartition(".")[2] for each in other.list_connector_plugins()}
    checked = other.validate_connector_config("FileStreamSource", {**given["config"], "name": "py", "tasks.max": "0"})
    assert checked["error_count"] == 1

    assert other.create_connector(given)["type"] == "source"
    wait(state, ("RUNNING", ["RUNNING"]))
    assert other.get_connector("py")["config"] == other.get_connector_config("py")
    assert other.list_connectors(pattern="p.", state="running") == ["py"]
    assert other.list_connectors(expand="info")["py"]["info"]["name"] == "py"
    wait(lambda: other.list_connector_topics("py"), {"py": {"topics": ["py-lines"]}})
    other.reset_connector_topics("py")
    assert other.list_connector_topics("py") == {"py": {"topics": []}}
    assert [each["id"]["task"] for each in other.list_connector_tasks("py")] == [0]
    assert other.get_connector_task_status("py", 0)["state"] == "RUNNING"
    other.restart_connector_task("py", 0)
    wait(state, ("RUNNING", ["RUNNING"]))

    assert other.update_connector("py", {**given["config"], "tasks.max": "2"})["config"]["tasks.max"] == "2"
    wait(state, ("RUNNING", ["RUNNING"]))
    for end, begin in (
        (other.pause_connector, other.resume_connector),
        (other.stop_connector, other.resume_connector),
    ):
        end("py")
        wait(state, ("PAUSED", ["PAUSED"]) if end == other.pause_connector else ("STOPPED", []))
        begin("py")
        wait(state, ("RUNNING", ["RUNNING"]))
    assert other.restart_connector("py") is None
    assert other.restart_connector("py", include_tasks=True)["name"] == "py"
    wait(state, ("RUNNING", ["RUNNING"]))
    other.restart_all_connectors(pattern="py")
    other.pause_all_connectors(pattern="py")
    wait(state, ("PAUSED", ["PAUSED"]))
    other.resume_all_connectors(state="paused")
    wait(state, ("RUNNING", ["RUNNING"]))
    other.stop_all_connectors(pattern="py")
    wait(state, ("STOPPED", []))
    other.delete_connector("py")
    other.delete_all_connectors(pattern="py")
    for call in (other.get_connector, other.get_connector_config, other.restart_connector, other.delete_connector):
        with pytest.raises(HTTPError):
            call("py")


def test_metrics_are_shown_in_the_format_of_prometheus(client: httpx2.Client) -> None:
    client.post("/connectors", json=lines("metered"))
    wait(lambda: states(client, "metered"), ("RUNNING", ["RUNNING"]))
    text = client.get("/metrics").text
    assert 'kafka_connect_source_record_poll_total{connector="metered",task="0"} 0.0' in text
    assert 'kafka_connect_status{connector="metered",state="RUNNING",task="0"} 1.0' in text
