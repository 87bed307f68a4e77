"""What is special about blobs on an S3 store: a network that fails, and stores that do not keep the promise."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable

import pytest
from tests.behaviour.blobs.wire import Wire

from hayase.core.errors import HayaseError
from hayase.core.patience import Patience
from hayase.storage import s3_blobs
from hayase.storage.open import open_blobs, probe_put_if_absent
from hayase.storage.s3_blobs import S3Blobs
from hayase.storage.s3_client import client_for
from hayase.storage.s3_location import S3Location
from hayase.testing.s3_server import S3Server

pytestmark = pytest.mark.s3

PUBLISH = """
import sys
from hayase.storage.open import open_blobs
open_blobs(sys.argv[1]).put_if_absent("large", b"x" * 20_000_000)
"""


def folder() -> str:
    return f"t-{uuid.uuid4().hex}"


def quick(url: str) -> S3Blobs:
    """A store that does not wait between two attempts."""
    return S3Blobs(S3Location.parse(url), sleep=lambda _: None)


def error_of(call: Callable[[], object]) -> HayaseError:
    with pytest.raises(HayaseError) as raised:
        call()
    assert "\n" not in str(raised.value)
    return raised.value


def test_a_writer_whose_answer_was_lost_knows_that_it_has_won(wire: Wire) -> None:
    blobs = quick(wire.url(folder()))
    wire.cut_answers = 2
    assert blobs.put_if_absent("a", b"mine")
    assert wire.cut_answers == 0 and wire.requests["PUT"] == 3
    wire.cut_answers = 1
    assert not blobs.put_if_absent("a", b"mine"), "a blob of the same bytes is another's all the same"
    assert blobs.get("a") == b"mine"


def test_a_blob_whose_bytes_were_cut_off_is_read_again(wire: Wire) -> None:
    blobs = quick(wire.url(folder()))
    data = random.Random(1).randbytes(200_000)
    blobs.put_if_absent("a", data)
    wire.cut_bodies = 1
    assert blobs.get("a") == data
    assert wire.cut_bodies == 0 and wire.requests["GET"] == 2


def test_a_store_that_is_busy_is_asked_again_and_not_for_ever(wire: Wire) -> None:
    pauses: list[float] = []
    blobs = S3Blobs(S3Location.parse(wire.url(folder())), sleep=pauses.append, chance=lambda: 1.0)
    wire.busy = 3
    assert blobs.put_if_absent("a", b"1")
    assert pauses == [0.1, 0.2, 0.4]
    wire.busy = 100
    error = error_of(lambda: blobs.get("b"))
    assert error.condition == "S3_FAILED" and "503" in error.message
    assert wire.busy == 100 - s3_blobs.ATTEMPTS


def test_a_writer_that_is_killed_in_the_middle_of_a_put_leaves_nothing(wire: Wire) -> None:
    url = wire.url(folder())
    wire.hold_after = 1_000_000
    child = subprocess.Popen([sys.executable, "-c", PUBLISH, url])
    assert wire.held.wait(60)
    child.kill()
    child.wait()
    wire.hold_after = None
    blobs = quick(url)
    assert blobs.get("large") is None and blobs.is_empty()
    assert blobs.put_if_absent("large", b"whole") and blobs.get("large") == b"whole"


def test_a_folder_of_more_than_a_page_is_listed_and_deleted_whole(s3_server: S3Server) -> None:
    name = folder()
    inside = s3_server.make_bucket("data") / name / "many"
    inside.mkdir(parents=True)
    for number in range(1_050):
        (inside / f"{number:05d}").touch()
    blobs = open_blobs(s3_server.url("data", name))
    assert blobs.list("many/") == [f"many/{number:05d}" for number in range(1_050)]
    blobs.delete_below("many/")
    assert blobs.list("many/") == [] and blobs.is_empty()


def test_a_store_that_ignores_the_condition_is_refused(s3_server: S3Server) -> None:
    url = s3_server.url("data", folder()) + "&region=ignores-conditions"  # a client of its own
    client_for(S3Location.parse(url)).meta.events.register(
        "before-sign.s3.PutObject", lambda request, **_: request.headers.__delitem__("If-None-Match")
    )
    for exactly_once in (True, False):
        error = error_of(lambda once=exactly_once: probe_put_if_absent(open_blobs(url), exactly_once=once))
        assert error.condition == "PUBLISH_NOT_ATOMIC" and "at_least_once" in error.message


class LooksFirst(S3Blobs):
    """As a store that looks whether there is a blob, and then writes it."""

    publishes_once = True
    together = threading.Barrier(4)

    def exists(self, name: str) -> bool:
        found = super().exists(name)
        if threading.current_thread() is not threading.main_thread():
            self.together.wait()
        return found


def test_a_store_that_looks_first_and_then_writes_is_refused(s3_server: S3Server) -> None:
    blobs = LooksFirst(S3Location.parse(s3_server.url("data", folder()) + "&conditional_put=false"))
    error = error_of(lambda: probe_put_if_absent(blobs))
    assert error.condition == "PUBLISH_NOT_ATOMIC" and "same moment" in error.message


def test_without_conditional_put_one_writer_after_the_other_is_fine_and_exactly_once_is_refused(
    s3_server: S3Server,
) -> None:
    blobs = open_blobs(s3_server.url("data", folder()) + "&conditional_put=false")
    assert blobs.put_if_absent("a", b"1") and not blobs.put_if_absent("a", b"2") and blobs.get("a") == b"1"
    probe_put_if_absent(blobs, exactly_once=False)
    assert error_of(lambda: probe_put_if_absent(blobs)).condition == "PUBLISH_NOT_ATOMIC"


def test_missing_credentials_are_named(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    blobs = open_blobs(s3_server.url("data", folder()) + "&region=no-credentials")
    error = error_of(lambda: blobs.get("a"))
    assert error.condition == "S3_CREDENTIALS_MISSING" and "AWS_ACCESS_KEY_ID" in error.message


def test_wrong_credentials_are_named_and_not_shown(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mistyped")
    blobs = open_blobs(s3_server.url("data", folder()) + "&region=wrong-credentials")
    error = error_of(lambda: blobs.put_if_absent("a", b""))
    assert error.condition == "S3_ACCESS_DENIED" and "mistyped" not in str(error)


def test_a_missing_bucket_is_named(s3_server: S3Server) -> None:
    blobs = open_blobs(s3_server.url("no-such-bucket", "a"))
    for call in (lambda: blobs.put_if_absent("a", b""), lambda: blobs.list(""), lambda: blobs.get("a")):
        error = error_of(call)
        assert error.condition == "S3_BUCKET_MISSING" and "no-such-bucket" in error.message


def test_a_store_that_is_down_is_named_after_a_bounded_time(aws_environment: None) -> None:
    pauses: list[float] = []
    where = S3Location.parse("s3://data/a?endpoint=http://127.0.0.1:9")
    error = error_of(lambda: S3Blobs(where, sleep=pauses.append).get("a"))
    assert error.condition == "S3_UNREACHABLE" and "http://127.0.0.1:9" in error.message
    assert len(pauses) == s3_blobs.ATTEMPTS - 1 and sum(pauses) < 12


def test_a_store_that_is_away_for_five_minutes_is_waited_for_by_those_who_have_the_patience(wire: Wire) -> None:
    now = 0.0
    said: list[str] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        if now > 300:
            wire.busy = 0

    patience = Patience(300.0, said.append, monotonic=lambda: now, sleep=sleep)
    blobs = S3Blobs(S3Location.parse(wire.url(folder())), sleep=sleep, patience=patience)
    wire.busy = 100_000
    assert blobs.put_if_absent("a", b"1")
    assert now > 300
    assert len(said) == 2 and "503" in said[0] and said[1] == ""
    wire.busy = 100_000
    now = -1e9
    error = error_of(lambda: blobs.get("a"))
    assert error.condition == "S3_FAILED"
    assert 300 <= now + 1e9 <= 330


def test_a_blob_that_no_put_can_carry_is_refused(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_blobs, "BLOB_BYTES_MAX", 10)
    error = error_of(lambda: open_blobs(s3_server.url("data", folder())).put_if_absent("a", b"x" * 11))
    assert error.condition == "BLOB_TOO_LARGE" and "max.records.per.epoch" in error.message
