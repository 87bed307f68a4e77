"""Decoding by several threads: a class that nothing was decoded as before does not end the process."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hayase.core.decoding import decode_json, decode_msgpack

THREADS = 4


def new_type() -> Any:
    """A class of classes: msgspec runs Python while it learns them, so that threads take turns."""
    inner = [
        msgspec.defstruct(f"Inner{number}", [("a", "int | None", None), ("b", "str | None", None)]) for number in (0, 1)
    ]
    return msgspec.defstruct("Outer", [("x", inner[0] | None, None), ("y", inner[1] | None, None), ("z", int, 0)])


def decode_in_threads(decode: Callable[[bytes, Any], Any], data: bytes) -> None:
    sys.setswitchinterval(1e-6)
    for _ in range(300):
        outer, gate = new_type(), threading.Barrier(THREADS)

        def decoded(outer: Any = outer, gate: threading.Barrier = gate) -> None:
            gate.wait()
            decode(data, outer)

        threads = [threading.Thread(target=decoded) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


VALUE = {"x": {"a": 1, "b": "k"}, "y": {"a": 1}, "z": 3}


@pytest.mark.parametrize(
    ("decode", "data"),
    [(decode_json, msgspec.json.encode(VALUE)), (decode_msgpack, msgspec.msgpack.encode(VALUE))],
    ids=["json", "msgpack"],
)
def test_threads_may_be_the_first_to_decode_a_class(decode: Callable[[bytes, Any], Any], data: bytes) -> None:
    child = os.fork()
    if child == 0:  # a fault would end the process
        decode_in_threads(decode, data)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("name", ["decode_json", "decode_msgpack"])
def test_what_does_not_fit_is_refused_as_msgspec_does(name: str) -> None:
    decode, encode = (
        (decode_json, msgspec.json.encode) if name == "decode_json" else (decode_msgpack, msgspec.msgpack.encode)
    )
    with pytest.raises(msgspec.ValidationError):
        decode(encode("text"), int)
