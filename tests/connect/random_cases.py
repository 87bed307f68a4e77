"""Random records for transforms and predicates, and random values for converters: cases as JSON."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

KAFKA = "org.apache.kafka.connect."
DEBEZIUM = "io.debezium.transforms."
Case = dict[str, Any]
Config = Mapping[str, str]
Chance = random.Random

_LOGICAL: Mapping[str, tuple[str, dict[str, Any], Callable[[Chance], Any]]] = {
    "Decimal": ("bytes", {"parameters": {"scale": "2"}}, lambda chance: _bytes(chance, 3)),
    "Date": ("int32", {}, lambda chance: chance.randint(-100_000, 100_000)),
    "Time": ("int32", {}, lambda chance: chance.randrange(86_400_000)),
    "Timestamp": ("int64", {}, lambda chance: chance.randint(-(10**12), 10**13)),
}
_FIELDS = ("id", "name", "at", "n", "flag", "deep")


def _bytes(chance: Chance, length: int) -> str:
    return base64.b64encode(chance.randbytes(length)).decode()


def _text(chance: Chance) -> str:
    return chance.choice(("", "7", "-3", "1.5", "true", "False", "a", "ä€", "2024-01-02 03:04:05", "x" * 20, "300"))


def _primitive(chance: Chance, kind: str) -> Any:
    match kind:
        case "string":
            return _text(chance)
        case "boolean":
            return chance.random() < 0.5
        case "bytes":
            return _bytes(chance, chance.randrange(5))
        case "float" | "double":
            return chance.choice((0.0, 1.5, -2.75, 1e10, -3.0, 0.1 if kind == "double" else 0.5))
    bits = int(kind.removeprefix("int"))
    bound = 1 << bits - 1
    return chance.choice((0, 1, -1, 7, bound - 1, -bound, chance.randrange(-bound, bound)))


_PRIMITIVES = ("int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes")


def _typed(chance: Chance, depth: int) -> tuple[dict[str, Any], Any]:
    """A schema and a value of it."""
    kind = chance.random()
    if depth and kind < 0.1:
        items, _ = _typed(chance, 0)
        values = [_value_of(chance, items) for _ in range(chance.randrange(3))]
        return {"type": "array", "items": items, "optional": False}, values
    if depth and kind < 0.25:
        return _struct(chance, depth - 1)
    if kind < 0.4:
        name = chance.choice(list(_LOGICAL))
        base, more, make = _LOGICAL[name]
        schema = {"type": base, "optional": False, "name": f"{KAFKA}data.{name}", "version": 1, **more}
        return schema, make(chance)
    schema = {"type": chance.choice(_PRIMITIVES), "optional": False}
    return schema, _primitive(chance, schema["type"])


def _value_of(chance: Chance, schema: Mapping[str, Any]) -> Any:
    name = str(schema.get("name", "")).rpartition(".")[2]
    return _LOGICAL[name][2](chance) if name in _LOGICAL else _primitive(chance, schema["type"])


def _struct(chance: Chance, depth: int) -> tuple[dict[str, Any], Any]:
    fields, values = [], {}
    for name in chance.sample(_FIELDS, chance.randint(1, 4)):
        schema, value = _typed(chance, depth)
        if chance.random() < 0.4:
            schema = {**schema, "optional": True}
            value = None if chance.random() < 0.4 else value
        if schema["type"] in _PRIMITIVES and chance.random() < 0.15:
            schema = {**schema, "default": _value_of(chance, schema)}
        fields.append({**schema, "field": name})
        values[name] = value
    made = {"type": "struct", "fields": fields, "optional": False}
    if chance.random() < 0.5:
        made |= {"name": "shop.Row", "version": 2}
    return made, values


def _plain(chance: Chance, depth: int) -> Any:
    """A value without a schema."""
    kind = chance.random()
    if depth and kind < 0.15:
        return [_plain(chance, 0) for _ in range(chance.randrange(3))]
    if depth and kind < 0.3:
        return {name: _plain(chance, depth - 1) for name in chance.sample(_FIELDS, chance.randint(1, 3))}
    return chance.choice((None, 7, -300, 1.5, True, _text(chance), 1 << 40))


def data(chance: Chance) -> dict[str, Any] | None:
    """A value with its schema, or without one, or none."""
    kind = chance.random()
    if kind < 0.06:
        return None
    if kind < 0.3:
        names = chance.sample(_FIELDS, chance.randint(1, 4))
        return {"schema": None, "payload": {name: _plain(chance, 2) for name in names}}
    if kind < 0.85:
        schema, value = _struct(chance, 2)
    else:
        schema, value = _typed(chance, 1)
    return {"schema": schema, "payload": value}


def _record(chance: Chance) -> dict[str, Any]:
    headers = [[chance.choice("abc"), _header(chance)] for _ in range(chance.randrange(3))]
    return {
        "topic": chance.choice(("orders", "shop.users", "a-1")),
        "key": data(chance),
        "value": data(chance),
        "timestamp": chance.choice((None, 0, 1_706_933_106_789)),
        "headers": headers,
    }


def _header(chance: Chance) -> dict[str, Any]:
    schema, value = _typed(chance, 0)
    return {"schema": schema, "payload": value}


def _fields(chance: Chance, most: int = 2) -> str:
    return ",".join(chance.sample(_FIELDS, chance.randint(1, most)))


def _cast(chance: Chance) -> Config:
    kinds = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
    if chance.random() < 0.25:
        return {"spec": chance.choice(kinds)}
    names = chance.sample(_FIELDS, chance.randint(1, 3))
    return {"spec": ",".join(f"{name}:{chance.choice(kinds)}" for name in names)}


def _insert(chance: Chance) -> Config:
    parts = {
        "topic.field": "topic",
        "partition.field": "partition?",
        "offset.field": "offset!",
        "timestamp.field": "ts",
    }
    config = {key: parts[key] for key in chance.sample(list(parts), chance.randint(0, 3))}
    return config | ({"static.field": "site", "static.value": "x"} if chance.random() < 0.5 else {})


def _header_from(chance: Chance) -> Config:
    names = chance.sample(_FIELDS, chance.randint(1, 2))
    headers = ",".join(f"h-{name}" for name in names)
    return {"fields": ",".join(names), "headers": headers, "operation": chance.choice(("copy", "move"))}


def _mask(chance: Chance) -> Config:
    return {"fields": _fields(chance)} | chance.choice(({}, {}, {"replacement": "7"}, {"replacement": "***"}))


def _replace(chance: Chance) -> Config:
    choices = ({"include": _fields(chance, 3)}, {"exclude": _fields(chance)}, {"renames": "id:key,name:title"})
    return chance.choice(choices) | ({"exclude": "n"} if chance.random() < 0.2 else {})


def _metadata(chance: Chance) -> Config:
    return chance.choice(
        ({"schema.name": "new.Name"}, {"schema.version": "9"}, {"schema.name": "N", "schema.version": "1"})
    )


def _converted(chance: Chance) -> Config:
    config = {"target.type": chance.choice(("string", "unix", "Date", "Time", "Timestamp"))}
    config["format"] = "yyyy-MM-dd HH:mm:ss"
    config["unix.precision"] = chance.choice(("seconds", "milliseconds", "microseconds", "nanoseconds"))
    return config | ({"field": chance.choice(_FIELDS)} if chance.random() < 0.8 else {})


def _extract(chance: Chance) -> Config:
    if chance.random() < 0.3:
        return {"field": chance.choice(("deep.id", "deep.name", "n.deep")), "field.syntax.version": "V2"}
    return {"field": chance.choice(_FIELDS)}


def _of_both(name: str, config: Callable[[Chance], Config]) -> dict[str, Callable[[Chance], Config]]:
    return {f"{KAFKA}transforms.{name}${side}": config for side in ("Key", "Value")}


TRANSFORMS: Mapping[str, Callable[[Chance], Config]] = {
    **_of_both("Cast", _cast),
    **_of_both("ExtractField", _extract),
    **_of_both("Flatten", lambda chance: {"delimiter": chance.choice((".", "_"))}),
    **_of_both("HeaderFrom", _header_from),
    **_of_both("HoistField", lambda _: {"field": "all"}),
    **_of_both("InsertField", _insert),
    **_of_both("MaskField", _mask),
    **_of_both("ReplaceField", _replace),
    **_of_both("SetSchemaMetadata", _metadata),
    **_of_both("TimestampConverter", _converted),
    f"{KAFKA}transforms.DropHeaders": lambda chance: {"headers": chance.choice(("a", "a,b"))},
    f"{KAFKA}transforms.Filter": lambda _: {},
    f"{KAFKA}transforms.InsertHeader": lambda chance: {"header": "h", "value.literal": _text(chance)},
    f"{KAFKA}transforms.RegexRouter": lambda chance: {
        "regex": chance.choice(("(.*)\\.(.*)", "or(.*)", "x")), "replacement": chance.choice(("$1", "new-$1", "y")),
    },
    f"{KAFKA}transforms.TimestampRouter": lambda chance: {
        "topic.format": chance.choice(("${topic}-${timestamp}", "t-${timestamp}")),
        "timestamp.format": chance.choice(("yyyyMMdd", "yyyy-MM-dd'T'HH")),
    },
    f"{KAFKA}transforms.ValueToKey": lambda chance: {"fields": _fields(chance)},
}  # fmt: skip
PREDICATES: Mapping[str, Callable[[Chance], Config]] = {
    f"{KAFKA}transforms.predicates.HasHeaderKey": lambda chance: {"name": chance.choice("abc")},
    f"{KAFKA}transforms.predicates.RecordIsTombstone": lambda _: {},
    f"{KAFKA}transforms.predicates.TopicNameMatches": lambda chance: {
        "pattern": chance.choice(("orders", "o.*", ".*1"))
    },
}
_SINGLE = {
    "Double": "double", "Float": "float", "Integer": "int32", "Long": "int64", "Short": "int16", "Boolean": "boolean",
    "ByteArray": "bytes",
}  # fmt: skip
"""Types of the converters of single values."""
CONVERTERS: Mapping[str, Callable[[Chance], Config]] = {
    f"{KAFKA}json.JsonConverter": lambda chance: {
        "schemas.enable": chance.choice(("true", "false")),
        "decimal.format": chance.choice(("BASE64", "NUMERIC")),
        "replace.null.with.default": chance.choice(("true", "false")),
    },
    f"{KAFKA}storage.StringConverter": lambda _: {},
    f"{KAFKA}storage.SimpleHeaderConverter": lambda _: {},
    **{f"{KAFKA}converters.{name}Converter": lambda _: {} for name in _SINGLE},
}
_ROW = {
    "type": "struct", "optional": True, "name": "shop.public.users.Value",
    "fields": [
        {"type": "int32", "optional": False, "field": "id"}, {"type": "string", "optional": True, "field": "name"},
    ],
}  # fmt: skip
_SOURCE = {
    "type": "struct", "optional": False, "name": "io.debezium.connector.postgresql.Source", "version": 1,
    "field": "source",
    "fields": [
        {"type": "string", "optional": False, "field": "connector"},
        {"type": "int64", "optional": False, "field": "ts_ms"},
        {"type": "string", "optional": False, "field": "db"}, {"type": "string", "optional": False, "field": "table"},
        {"type": "int64", "optional": True, "field": "lsn"},
    ],
}  # fmt: skip
_ENVELOPE = {
    "type": "struct", "optional": False, "name": "shop.public.users.Envelope", "version": 2,
    "fields": [
        {**_ROW, "field": "before"}, {**_ROW, "field": "after"}, _SOURCE,
        {"type": "string", "optional": False, "field": "op"}, {"type": "int64", "optional": True, "field": "ts_ms"},
    ],
}  # fmt: skip
_ID = {
    "type": "struct", "optional": False, "name": "shop.public.users.Key",
    "fields": [{"type": "int32", "optional": False, "field": "id"}],
}  # fmt: skip


def _row(chance: Chance) -> dict[str, Any]:
    return {"id": chance.randrange(5), "name": chance.choice((None, "Ada", ""))}


def _event(chance: Chance) -> dict[str, Any]:
    op = chance.choice("crudt")
    payload = {
        "before": _row(chance) if op in "ud" else None, "after": _row(chance) if op in "cru" else None, "op": op,
        "source": {"connector": "postgresql", "ts_ms": 1_706_933_106_789, "db": "shop", "table": "users", "lsn": 17},
        "ts_ms": chance.choice((None, 1_706_933_107_000)),
    }  # fmt: skip
    value = None if chance.random() < 0.1 else {"schema": _ENVELOPE, "payload": payload}
    return {**_record(chance), "key": {"schema": _ID, "payload": {"id": 1}}, "value": value}


def _new_state(chance: Chance) -> Config:
    config: dict[str, str] = {}
    kinds = ("tombstone", "rewrite", "rewrite-with-tombstone", "drop", "delete-to-tombstone")
    if chance.random() < 0.6:
        config["delete.tombstone.handling.mode"] = chance.choice(kinds)
    if chance.random() < 0.5:
        config["add.fields"] = chance.choice(("op", "op,table,lsn", "source.ts_ms:at", "op:kind,db"))
    if chance.random() < 0.3:
        config["add.headers"] = chance.choice(("db", "op,table"))
    if chance.random() < 0.2:
        config["route.by.field"] = "name"
    if chance.random() < 0.2:
        config["drop.fields.header.name"] = "dropped"
    return config


_DROPPED = {
    "type": "struct", "optional": True, "name": "shop.public.users.Value",
    "fields": [
        {"type": "int32", "optional": False, "field": "id"}, {"type": "string", "optional": True, "field": "name"},
        {"type": "string", "optional": True, "field": "note", "default": "none"},
    ],
}  # fmt: skip
_DROPPED_ENVELOPE = {
    **_ENVELOPE,
    "fields": [{**_DROPPED, "field": name} for name in ("before", "after")] + _ENVELOPE["fields"][2:],  # type: ignore[operator]
}
_DROPPED_KEY = {**_ID, "fields": [*_ID["fields"], {"type": "string", "optional": True, "field": "name"}]}  # type: ignore[misc]


def _dropping(chance: Chance) -> Config:
    config = {**_new_state(chance), "drop.fields.header.name": "dropped"}
    config.pop("route.by.field", None)
    for name in ("drop.fields.from.key", "drop.fields.keep.schema.compatible"):
        if chance.random() < 0.7:
            config[name] = chance.choice(("true", "false"))
    return config


def _dropping_event(chance: Chance) -> dict[str, Any]:
    """An event with a header that names fields of its row, of its key, and such as the transform adds."""
    event = _event(chance)
    if event["value"] is not None:
        row = {"id": 1, "name": chance.choice((None, "Ada")), "note": chance.choice((None, "new"))}
        payload = event["value"]["payload"]
        payload |= {part: row for part in ("before", "after") if payload[part] is not None}
        event["value"] = {"schema": _DROPPED_ENVELOPE, "payload": payload}
    names = chance.sample(("id", "name", "note", "__op", "__deleted", "other"), chance.randrange(4))
    texts = {"type": "array", "items": {"type": "string", "optional": False}, "optional": True}
    header = {"schema": texts, "payload": chance.choice((names, names, names, None))}
    if chance.random() < 0.9:
        event["headers"].append(["dropped", header])
    return {**event, "key": {"schema": _DROPPED_KEY, "payload": {"id": 1, "name": chance.choice((None, "Ada"))}}}


_NESTED = '{"a": [{"d": 1.5, "e": "x"}], "b": {"c": {"f": true}}, "g": 12345678901}'

_PAYLOADS = (None, "", '{"a": 1}', "[1, 2]", "text", '{"b": {"c": null}}', _NESTED)


def _outbox_row(chance: Chance) -> dict[str, Any]:
    string = {"type": "string", "optional": True}
    fields = [
        {"type": "string", "optional": False, "field": "id"}, {**string, "field": "aggregatetype"},
        {**string, "field": "aggregateid"}, {**string, "field": "type"}, {**string, "field": "payload"},
        {"type": "int32", "optional": True, "field": "version"}, {**string, "field": "tracing"},
    ]  # fmt: skip
    row = {
        "id": f"e{chance.randrange(9)}", "aggregatetype": chance.choice(("order", "user")), "aggregateid": "17",
        "type": "Placed", "payload": chance.choice(_PAYLOADS),
        "version": chance.choice((None, 3)), "tracing": chance.choice((None, "t1")),
    }  # fmt: skip
    schema = {"type": "struct", "optional": True, "name": "shop.public.outbox.Value", "fields": fields}
    members = [{**schema, "field": name} for name in ("before", "after")]
    members += [_SOURCE, *({**each} for each in _ENVELOPE["fields"][3:])]  # type: ignore[index]
    envelope = {**_ENVELOPE, "name": "shop.public.outbox.Envelope", "fields": members}
    event = _event(chance)
    op = chance.choice("ccccrud")
    payload = {
        "before": row if op in "ud" else None, "after": row if op != "d" else None, "op": op, "ts_ms": 5,
        "source": {"connector": "postgresql", "ts_ms": 1, "db": "shop", "table": "outbox", "lsn": 17},
    }  # fmt: skip
    return {**event, "value": {"schema": envelope, "payload": payload} if event["value"] is not None else None}


def _router(chance: Chance) -> Config:
    config: dict[str, str] = {}
    if chance.random() < 0.3:
        config["table.fields.additional.placement"] = chance.choice(
            ("version:header", "version:envelope", "tracing:header:trace,version:envelope:v", "type:header:eventType")
        )
    if chance.random() < 0.3:
        config["table.expand.json.payload"] = "true"
    if chance.random() < 0.2:
        config["route.by.field"] = "type"
    if chance.random() < 0.2:
        config["route.topic.replacement"] = "events-${routedByValue}"
    if chance.random() < 0.2:
        config["route.tombstone.on.empty.payload"] = "true"
    if chance.random() < 0.2:
        config["table.op.invalid.behavior"] = chance.choice(("warn", "error", "fatal"))
    if chance.random() < 0.2:
        config["table.field.event.schema.version"] = "version"
    return config


def _cases_of(
    kind: str, classes: Mapping[str, Callable[[Chance], Config]], count: int, chance: Chance
) -> Iterator[Case]:
    for name, config in classes.items():
        for _ in range(count):
            yield {"kind": kind, "class": name, "config": config(chance), "source": False, "record": _record(chance)}


def _converter_cases(chance: Chance, count: int) -> Iterator[Case]:
    texts = (
        b"",
        b"null",
        b"7",
        b"-1.5",
        b'"a"',
        b'{"a": [1, 2.5, null]}',
        b"[1]",
        b"{",
        b"\xff",
        b"true",
        b"1,2",
        b"[a,b]",
    )
    for name, config in CONVERTERS.items():
        for _ in range(count):
            schema, value = _typed(chance, 1)
            own = _SINGLE.get(name.removeprefix(f"{KAFKA}converters.").removesuffix("Converter"))
            if own is not None and chance.random() < 0.6:
                schema, value = {"type": own, "optional": False}, _primitive(chance, own)
            given = chance.choice((data(chance), {"schema": schema, "payload": value}))
            yield {"kind": "write", "class": name, "config": config(chance), "data": given}
            written = chance.choice((*texts, chance.randbytes(chance.choice((1, 2, 4, 8))), None, _enveloped(chance)))
            encoded = None if written is None else base64.b64encode(written).decode()
            yield {"kind": "read", "class": name, "config": config(chance), "bytes": encoded}


def _enveloped(chance: Chance) -> bytes:
    return json.dumps(data(chance), ensure_ascii=False).encode()


def random_cases(seed: int = 20) -> list[Case]:
    """All cases; the same for the same seed."""
    chance = random.Random(seed)
    cases = [
        *_cases_of("transform", TRANSFORMS, 40, chance),
        *_cases_of("predicate", PREDICATES, 12, chance),
        *_converter_cases(chance, 40),
    ]
    for name, config, record in (
        (f"{DEBEZIUM}ExtractNewRecordState", _new_state, _event),
        (f"{DEBEZIUM}outbox.EventRouter", _router, _outbox_row),
        (f"{DEBEZIUM}ExtractNewRecordState", _dropping, _dropping_event),
    ):
        for _ in range(80):
            case: Case = {"kind": "transform", "class": name, "config": config(chance), "source": True}
            cases.append({**case, "record": record(chance)})
    return cases
