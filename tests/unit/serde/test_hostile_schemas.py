"""Schemas of a registry that is hostile or broken, and payloads that claim more than they have."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, SchemaRegistryError, SerializationError
from hayase.serde.avro_serde import AvroSerde
from hayase.serde.protobuf_schema import compiled
from hayase.serde.protobuf_serde import ProtobufSerde
from hayase.serde.registry import Refusals, RegistrySchema, SchemaReference, SchemaRegistry
from hayase.testing import SchemaRegistryServer

LINKED = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
TREE = {"type": "record", "name": "T", "fields": [{"name": "children", "type": {"type": "array", "items": "T"}}]}
NULLS: dict[str, Any] = {"type": "array", "items": "null"}
EMPTY: dict[str, Any] = {"type": "array", "items": {"type": "record", "name": "Nothing", "fields": []}}
FIXED_0 = {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}
HUGE = b"\x80" * 8 + b"\x80\x01"  # 2^62 as an Avro long


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer() as running:
        yield running


@pytest.fixture
def registry(server: SchemaRegistryServer) -> SchemaRegistry:
    return SchemaRegistry(server.url, {"max.retries": 0})


def record(registry: SchemaRegistry, schema: Any, payload: bytes, kind: Any = "AVRO", references: Any = ()) -> bytes:
    """A record by a schema that is registered as it is."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    number = registry.register("hostile", RegistrySchema(text, kind, tuple(references)))
    return b"\0" + number.to_bytes(4, "big") + payload


# Files


@pytest.mark.parametrize(
    "name",
    [
        "/tmp/absolute.proto",
        "../outside.proto",
        "in/../../outside.proto",
        "-I/tmp",
        "--descriptor_set_out=pwned",
        "a//b.proto",
        "./a.proto",
        "a\\..\\b.proto",
        "a\0b.proto",
        "",
        "a/",
        "x" * 5000,
        "__schema__.proto",
    ],
)
def test_a_name_of_an_imported_schema_is_never_a_path_or_an_option(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(Path("/tmp").glob("*.proto"))
    schema = RegistrySchema('syntax = "proto3"; message A {}', "PROTOBUF", (SchemaReference(name, "s", 1),))
    with pytest.raises(ConfigError) as caught:
        compiled(schema, lambda _: RegistrySchema('syntax = "proto3"; message B {}', "PROTOBUF"))
    assert caught.value.condition == "INVALID_SCHEMA"
    assert list(tmp_path.iterdir()) == []
    assert set(Path("/tmp").glob("*.proto")) == before


def test_protoc_sees_one_file_whose_name_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    original = Path.write_text
    monkeypatch.setattr(Path, "write_text", lambda self, *a, **k: (written.append(self), original(self, *a, **k))[1])
    one = RegistrySchema('syntax = "proto3"; package p; message B { int32 n = 1; }', "PROTOBUF")
    two = RegistrySchema(
        'syntax = "proto3"; import "deep/down/b.proto"; message A { p.B b = 1; }',
        "PROTOBUF",
        (SchemaReference("deep/down/b.proto", "s", 1),),
    )
    found = compiled(two, lambda _: one)
    assert found.imports()["__schema__.proto"] == ("deep/down/b.proto",)
    assert {path.name for path in written} == {"__schema__.proto"}
    assert all(path.parent.parent.parent == Path(tempfile.gettempdir()) for path in written)


@pytest.mark.parametrize(
    "text", ['import "/etc/hostname"; message A {}', 'import "../../../etc/hostname"; message A {}']
)
def test_an_import_reads_no_file_of_the_machine(text: str) -> None:
    with pytest.raises(ConfigError, match=r"not found|virtual path") as caught:
        compiled(RegistrySchema(f'syntax = "proto3"; {text}', "PROTOBUF"), lambda _: pytest.fail("asked"))
    assert caught.value.condition == "INVALID_SCHEMA"


def test_protobuf_schemas_that_import_each_other_in_a_circle_are_refused() -> None:
    schema = RegistrySchema('syntax = "proto3"; message A {}', "PROTOBUF", (SchemaReference("a.proto", "a", 1),))
    with pytest.raises(ConfigError, match="circle"):
        compiled(schema, lambda _: schema)


def test_a_chain_of_imports_without_end_is_refused() -> None:
    numbers = iter(range(10**6))

    def fetch(_: SchemaReference) -> RegistrySchema:
        return RegistrySchema('syntax = "proto3";', "PROTOBUF", (SchemaReference(f"{next(numbers)}.proto", "a", 1),))

    with pytest.raises(ConfigError, match="too deep"):
        compiled(fetch(SchemaReference("", "", 1)), fetch)


def test_a_proto_file_of_white_space_is_looked_through_at_once() -> None:
    with pytest.raises(ConfigError):
        compiled(RegistrySchema("\n" * 300_000 + "!", "PROTOBUF"), lambda _: pytest.fail("asked"))


# Schemas that are none


@pytest.mark.parametrize(
    "schema",
    [
        '{"type":"array","items":' * 900 + '"int"' + "}" * 900,
        {"type": "bytes", "logicalType": "decimal"},
        {"type": "fixed", "name": "f", "size": -5},
        {"type": "record", "name": "x", "fields": [5]},
        {"type": "array"},
        "5",
    ],
    ids=["too deep", "no precision", "negative size", "odd fields", "no items", "a number"],
)
def test_a_record_by_a_schema_that_is_none_is_a_fault_of_the_record(registry: SchemaRegistry, schema: Any) -> None:
    data = record(registry, schema, b"\0\0")
    with pytest.raises(SerializationError) as caught:
        AvroSerde(None, registry).deserialize(data)
    assert caught.value.condition == "UNUSABLE_SCHEMA"
    codec = AvroSerde("long", registry).columns
    assert codec is not None
    assert [row for row, _ in codec.decode_list([data, None]).bad] == [0]


def test_a_proto_file_that_is_none_is_compiled_once_not_for_each_record(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Any] = []
    original = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: (runs.append(a), original(*a, **k))[1])
    data = record(registry, "this is no { schema", b"\0", "PROTOBUF")
    for _ in range(3):
        with pytest.raises(SerializationError) as caught:
            ProtobufSerde(None, registry).deserialize(data)
        assert caught.value.condition == "UNUSABLE_SCHEMA"
    assert len(runs) == 1


def doubling(levels: int) -> Any:
    schema: Any = {"type": "record", "name": "R0", "fields": [{"name": "v", "type": "int"}]}
    for level in range(1, levels):
        both = [{"name": "a", "type": schema}, {"name": "b", "type": f"R{level - 1}"}]
        schema = {"type": "record", "name": f"R{level}", "fields": both}
    return schema


@pytest.mark.long
def test_a_schema_whose_names_double_at_each_level_has_no_columns_or_is_refused_and_takes_no_time(
    registry: SchemaRegistry,
) -> None:
    assert AvroSerde(doubling(14), registry).columns is None
    with pytest.raises(ConfigError, match="more than 50000 types"):
        AvroSerde(doubling(30), registry)
    text = 'syntax = "proto3"; message R0 { int32 v = 1; }' + "".join(
        f" message R{level} {{ R{level - 1} a = 1; R{level - 1} b = 2; }}" for level in range(1, 30)
    )
    assert ProtobufSerde(text, registry, message="R29").columns is None


def test_avro_schemas_that_refer_to_each_other_without_end_are_refused(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(10**6))

    def version(self: SchemaRegistry, subject: str, number: int) -> Any:
        from hayase.serde.registry import RegisteredSchema

        found = RegistrySchema('"int"', "AVRO", (SchemaReference(f"n{next(numbers)}", "s", 1),))
        return RegisteredSchema(1, subject, 1, found)

    data = record(registry, '"int"', b"\0", references=[SchemaReference("a", "s", 1)])
    monkeypatch.setattr(SchemaRegistry, "version", version)
    with pytest.raises(SerializationError, match="refers to more than"):
        AvroSerde(None, registry).deserialize(data)
    assert next(numbers) < 1000


# Payloads that claim much


@pytest.mark.parametrize("schema", [NULLS, EMPTY, FIXED_0], ids=["null", "empty record", "fixed of 0 bytes"])
@pytest.mark.parametrize("read_as", [None, {"type": "array", "items": ["null", "int"]}], ids=["as written", "resolved"])
def test_ten_bytes_that_claim_a_huge_array_of_nothing_are_refused(
    registry: SchemaRegistry, schema: Any, read_as: Any
) -> None:
    data = record(registry, schema, HUGE + b"\0")
    with pytest.raises(SerializationError, match=r"values without bytes"):
        AvroSerde(read_as, registry).deserialize(data)


def test_a_huge_array_of_nothing_in_a_field_that_is_skipped_is_refused(registry: SchemaRegistry) -> None:
    def schema(*fields: Any) -> Any:
        return {"type": "record", "name": "R", "fields": [{"name": f"f{n}", "type": t} for n, t in enumerate(fields)]}

    data = record(registry, schema("int", NULLS), b"\x02" + HUGE + b"\0")
    with pytest.raises(SerializationError, match=r"values without bytes"):
        AvroSerde(schema("int"), registry).deserialize(data)


def test_how_many_items_without_bytes_are_read_is_a_setting(registry: SchemaRegistry) -> None:
    data = record(registry, NULLS, b"\xa0\x1f\0")  # 2,000
    assert AvroSerde(None, registry).deserialize(data) == [None] * 2000
    config = StreamsConfig({"application.id": "a", "avro.empty.items.max": "1999"})
    serde = AvroSerde(None, registry).for_topic("t", "value", config.schema_registry)
    with pytest.raises(SerializationError, match=r"more than 1999 values"):
        serde.deserialize(data)
    assert serde.empty_items_max == 1999
    with pytest.raises(ConfigError):
        serde.for_topic("t", "value", {"avro.empty.items.max": "many"})


DEEP: dict[str, Callable[[int], tuple[Any, bytes]]] = {
    "linked list": lambda n: (LINKED, b"\x02" * n + b"\0"),
    "tree": lambda n: (TREE, b"\x02" * n + b"\0" * (n + 1)),
    "itself": lambda n: ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, b"\0"),
}


@pytest.mark.long
@pytest.mark.parametrize("shape", DEEP)
def test_a_value_nested_deeper_than_the_decoders_stack_is_refused_not_a_crash(shape: str) -> None:
    program = f"""
from tests.unit.serde.test_hostile_schemas import *
with SchemaRegistryServer() as server:
    registry = SchemaRegistry(server.url)
    schema, payload = DEEP[{shape!r}](100_000)
    try:
        AvroSerde(None, registry).deserialize(record(registry, schema, payload))
    except SerializationError as error:
        print(error.condition, "nested more than" in str(error))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "VALUE_NOT_DESERIALIZABLE True\n"), done.stderr


def test_a_list_of_some_hundred_links_is_read(registry: SchemaRegistry) -> None:
    found = AvroSerde(None, registry).deserialize(record(registry, LINKED, b"\x02" * 400 + b"\0"))
    length = 0
    while found is not None:
        found, length = found["next"], length + 1
    assert length == 401


# The registry is asked once in a while


def test_an_unknown_id_is_asked_for_once_in_a_while_not_per_record(
    server: SchemaRegistryServer, registry: SchemaRegistry
) -> None:
    serde = AvroSerde("long", registry)
    assert serde.columns is not None
    data = b"\0\0\0\x03\xe7\x02"
    for _ in range(50):
        with pytest.raises(SerializationError) as caught:
            serde.deserialize(data)
        assert caught.value.condition == "UNKNOWN_SCHEMA_ID"
        assert len(serde.columns.decode_list([data] * 3).bad) == 3
    assert server.requests == ["GET /schemas/ids/999"]


def test_a_schema_whose_reference_is_missing_is_asked_for_once_in_a_while(
    server: SchemaRegistryServer, registry: SchemaRegistry
) -> None:
    data = record(registry, LINKED, b"\0", references=[SchemaReference("gone", "gone", 1)])
    server.requests.clear()
    for _ in range(20):
        with pytest.raises(SerializationError):
            AvroSerde(None, registry).deserialize(data)
    assert server.requests == ["GET /schemas/ids/1", "GET /subjects/gone/versions/1"]


def test_what_was_refused_is_tried_again_after_a_time_that_doubles() -> None:
    now = [0.0]
    refusals = Refusals(lambda: now[0])
    error = SerializationError("UNKNOWN_SCHEMA_ID", "no such id")

    def asked() -> bool:
        try:
            refusals.check(7)
        except SerializationError:
            return False
        refusals.add(7, error)
        return True

    times = []
    for second in range(1000):
        now[0] = float(second)
        if asked():
            times.append(second)
    assert times == [0, 5, 15, 35, 75, 155, 315, 615, 915]
    refusals.forget(7)
    assert asked()


def test_a_flood_of_unknown_ids_does_not_fill_the_memory() -> None:
    refusals = Refusals()
    for number in range(20_000):
        refusals.add(number, SerializationError("UNKNOWN_SCHEMA_ID", ""))
    assert len(refusals) == 10_000


def swelling(depth: int) -> dict[str, Any]:
    """A record of null fields that is mentioned eleven times in each of `depth` records around it."""
    made: dict[str, Any] = {"type": "record", "name": "r0", "fields": [{"name": "x", "type": "null"}]}
    for level in range(1, depth):
        again = [{"name": f"b{number}", "type": f"r{level - 1}"} for number in range(10)]
        made = {"type": "record", "name": f"r{level}", "fields": [{"name": "a", "type": made}, *again]}
    return made


def with_field(schema: Any) -> dict[str, Any]:
    return {"type": "record", "name": "top", "fields": [{"name": "n", "type": "int"}, {"name": "v", "type": schema}]}


def test_a_schema_whose_records_are_mentioned_again_and_again_is_refused_at_once_and_the_refusal_is_remembered(
    registry: SchemaRegistry,
) -> None:
    data = record(registry, with_field(swelling(9)), b"\x02")
    serde = AvroSerde(None, registry).for_topic("t", "value", {})
    for _ in range(1000):
        with pytest.raises(SerializationError) as caught:
            serde.deserialize(data)
        assert caught.value.condition == "UNUSABLE_SCHEMA" and "types" in str(caught.value)


def test_values_without_bytes_behind_one_byte_of_a_union_are_counted(registry: SchemaRegistry) -> None:
    union = {"type": "array", "items": ["null", swelling(4)]}
    serde = AvroSerde(None, registry).for_topic("t", "value", {})
    few = record(registry, with_field(union), b"\x02" + b"\x04" + b"\x02\x00" + b"\x00")
    assert serde.deserialize(few)["v"][1] is None
    many = record(registry, with_field(union), b"\x02" + b"\x80\x08" + b"\x02" * 512 + b"\x00")
    with pytest.raises(SerializationError, match="values without bytes"):
        serde.deserialize(many)


def test_nulls_of_a_union_are_paid_for_by_their_bytes(registry: SchemaRegistry) -> None:
    schema = {"type": "array", "items": ["null", with_field(LINKED)]}
    data = record(registry, schema, b"\xc0\x9a\x0c" + b"\x00" * 100_000 + b"\x00")
    assert len(AvroSerde(None, registry).for_topic("t", "value", {}).deserialize(data)) == 100_000


@pytest.mark.parametrize("digits", [10, 38])
def test_a_decimal_is_not_decoded_that_is_longer_than_its_precision_allows(
    registry: SchemaRegistry, digits: int
) -> None:
    price = {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": 2}
    serde = AvroSerde(None, registry).for_topic("t", "value", {})
    claimed = b"\x80\xea\x30"  # 400,000 bytes
    data = record(registry, with_field(price), b"\x02" + claimed + b"\x7f" * 400_000)
    assert len(data) == 5 + 1 + 3 + 400_000
    with pytest.raises(SerializationError, match="a decimal of 400000 bytes"):
        serde.deserialize(data)
    fixed = {"type": "fixed", "name": "F", "size": 400_000, "logicalType": "decimal", "precision": digits, "scale": 2}
    with pytest.raises(ConfigError, match="a decimal of"):
        AvroSerde(with_field(fixed), registry)


class Answers:
    """A registry that gives one answer after the other, the last one forever.

    Each a list of parts with a pause between.
    """

    def __init__(self, *answers: bytes, parts: int = 1, pause_s: float = 0.0, timeout_s: float = 30.0) -> None:
        self._timeout_s = timeout_s
        waiting = list(answers)

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None: ...

            def do_GET(self) -> None:
                content = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                step = -(-len(content) // parts)
                with contextlib.suppress(OSError):
                    for start in range(0, len(content), step):
                        self.wfile.write(content[start : start + step])
                        time.sleep(pause_s)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> SchemaRegistry:
        port = self._server.server_address[1]
        return SchemaRegistry(f"http://127.0.0.1:{port}", {"max.retries": 0, "timeout": self._timeout_s})

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


TEXT_SCHEMA = json.dumps({"schema": json.dumps("string")}).encode()


@pytest.mark.long
@pytest.mark.parametrize(
    "first", [b'{"message": "starting"}', b'{"schema": 7}', b'{"schema": "x", "schemaType": "XML"}']
)
def test_an_answer_without_a_schema_is_no_fault_of_the_record_and_is_not_kept(first: bytes) -> None:
    with Answers(first, TEXT_SCHEMA) as registry:
        serde = AvroSerde(None, registry).for_topic("t", "value", {})
        data = b"\0" + (7).to_bytes(4, "big") + b"\x04hi"
        with pytest.raises(SchemaRegistryError, match="without a schema"):
            serde.deserialize(data)
        assert serde.deserialize(data) == "hi"


@pytest.mark.long
def test_an_answer_that_comes_byte_by_byte_or_is_huge_is_given_up() -> None:
    with (
        Answers(TEXT_SCHEMA, parts=100, pause_s=0.1, timeout_s=0.5) as registry,
        pytest.raises(SchemaRegistryError, match="took more"),
    ):
        registry.schema(7)
    huge = b'{"schema": "' + b" " * (17 << 20) + b'"}'
    with Answers(huge) as registry, pytest.raises(SchemaRegistryError, match="more than 16777216 bytes"):
        registry.schema(7)
