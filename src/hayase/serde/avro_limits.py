"""Limits of Avro: how deep and how large a schema may be, and what a payload may claim before a decoder believes it.

The decoders are C and Rust. They recurse on the machine's stack, so a value of a recursive schema that is nested deep
enough kills the process; an array of items without bytes (null, an empty record) may claim 2^60 of them in ten bytes; a
record of many such fields behind one byte of a union is as bad; and the time of a decimal grows with the square of its
length. Payloads of schemas that allow one of these are looked through first, for decimals only if they are long. All
others cannot be large without being long, nor take long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hayase.core.objects import JsonObject

AvroType = str | list["AvroType"] | JsonObject
"""A type of a schema: a name, a union, or a definition."""

SCHEMA_DEPTH_MAX = 200
"""How deep the types of a schema may be nested, as text."""
VALUE_DEPTH_MAX = 1000
"""How deep a value of a recursive schema may be nested: records, unions, arrays and maps.

Decoders crash beyond 8,000.
"""
TYPES_MAX = 50_000
"""How many types a schema may have, counted wherever they are mentioned.

A name that is mentioned ten times counts ten times.
"""
SHORT_BYTES = 4096
"""A decimal in a payload of so many bytes takes no time to speak of."""
EMPTY_ITEMS_MAX = 100_000
"""Default of `avro.empty.items.max`: how many values without bytes, such as nulls in an array, one value may have."""

_SKIP, _NUMBER, _BYTES, _UNION, _RECORD, _BLOCKS = range(6)
_EMPTY_VALUES_MAX = 100
"""Values without bytes that are in one value in any case, and need no look."""
_WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_NUMBERS = ("int", "long", "enum")

Check = Callable[[bytes, int, int], None]
"""Looks through the payload in some bytes from a position on, with the largest number of empty items.

Raises ValueError.
"""


def check_depth(definition: object) -> None:
    """Raises ValueError for a schema whose types are nested deeper than SCHEMA_DEPTH_MAX."""
    level = [definition]
    for _ in range(3 * SCHEMA_DEPTH_MAX):  # a type, its fields, a field: JSON has up to three levels for each
        parts = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [part for each in parts for part in each if isinstance(part, dict | list)]
        if not level:
            return
    raise ValueError(f"its types are nested more than {SCHEMA_DEPTH_MAX} deep")


def payload_check(parsed: AvroType, named: Mapping[str, JsonObject]) -> Check | None:
    """What is to look through payloads of a schema before they are decoded; `None`: nothing need.

    Args:
        parsed: the schema as fastavro parsed it.
        named: its named types.
    """
    builder = _Builder(named)
    root = builder.type(parsed)
    builder.measure()
    items = any(each.kind == _BLOCKS and not each.parts[0].least for each in builder.all)
    if items or builder.recursive or any(each.empty > _EMPTY_VALUES_MAX for each in builder.all):
        return lambda data, at, empty_max: _Reading(data, at, empty_max).look_through(root)
    if not any(each.longest for each in builder.all):
        return None

    def check_if_long(data: bytes, at: int, empty_max: int) -> None:
        if len(data) - at > SHORT_BYTES:
            _Reading(data, at, empty_max).look_through(root)

    return check_if_long


def check_size(parsed: AvroType, named: Mapping[str, JsonObject]) -> None:
    """Raises ValueError for a schema of more than TYPES_MAX types, those of a name counted wherever it is mentioned."""
    builder = _Builder(named)
    root = builder.type(parsed)
    builder.measure()
    if root.types > TYPES_MAX:
        raise ValueError(f"it has more than {TYPES_MAX} types, those of a name counted wherever it is mentioned")


class _Type:
    """A type as it lies in bytes.

    Attributes:
        size: of a _SKIP.
        parts: of all that have some.
        least: bytes that a value has at least.
        empty: values without bytes that a value has in any case.
        types: how many it is made of, however often they are named.
        longest: of a decimal's bytes, how many they may be.
    """

    __slots__ = ("empty", "kind", "least", "longest", "parts", "size", "types")

    def __init__(self, kind: int, size: int = 0) -> None:
        self.kind = kind
        self.size = size
        self.parts: list[_Type] = []
        self.least = size if kind == _SKIP else 0 if kind == _RECORD else 1
        self.empty = 1 if kind == _SKIP and not size else 0
        self.types = 1
        self.longest = 0


def _size(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ValueError(f"a fixed type has {given!r} bytes")
    return given


def _decimal_bytes(schema: JsonObject) -> int:
    """How many bytes a decimal may have: what its precision needs, and room for writers that are generous."""
    return max(256, int(schema["precision"]) // 2 + 1)


class _Builder:
    def __init__(self, named: Mapping[str, JsonObject]) -> None:
        self._named = named
        self._known: dict[str, _Type] = {}
        self._open: set[str] = set()
        self.all: list[_Type] = []
        self.recursive = False

    def type(self, schema: AvroType) -> _Type:
        if isinstance(schema, list):
            return self._made(_UNION, [self.type(branch) for branch in schema])
        if isinstance(schema, str):
            return self._plain(schema) if schema not in self._named else self._name(schema)
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.type(kind)
        if "name" in schema and kind in ("record", "error"):
            return self._name(schema["name"])
        if kind == "fixed":
            size = _size(schema["size"])
            if schema.get("logicalType") == "decimal" and size > _decimal_bytes(schema):
                raise ValueError(f"a decimal of {schema['precision']} digits in {size} bytes")
            return self._made(_SKIP, [], size)
        if kind == "array":
            return self._made(_BLOCKS, [self.type(schema["items"])])
        if kind == "map":
            entry = [self._plain("string"), self.type(schema["values"])]
            return self._made(_BLOCKS, [self._made(_RECORD, entry)])
        plain = self._plain(kind)
        if kind == "bytes" and schema.get("logicalType") == "decimal":
            plain.longest = _decimal_bytes(schema)
        return plain

    def _plain(self, kind: str) -> _Type:
        if kind in _WIDTHS:
            return self._made(_SKIP, [], _WIDTHS[kind])
        return self._made(_NUMBER if kind in _NUMBERS else _BYTES, [])

    def _name(self, name: str) -> _Type:
        schema = self._named[name]
        if schema["type"] not in ("record", "error"):
            return self.type(schema) if schema["type"] == "fixed" else self._plain(schema["type"])
        self.recursive |= name in self._open
        if name not in self._known:
            record_type = self._known[name] = self._made(_RECORD, [])
            self._open.add(name)
            record_type.parts = [self.type(field["type"]) for field in schema["fields"]]
            self._open.discard(name)
        return self._known[name]

    def _made(self, kind: int, parts: list[_Type], size: int = 0) -> _Type:
        new_type = _Type(kind, size)
        new_type.parts = parts
        self.all.append(new_type)
        return new_type

    def measure(self) -> None:
        """How many bytes records have at least; a record that holds itself in no union has no value at all."""
        records = [each for each in self.all if each.kind == _RECORD]
        for _ in records:
            before = [each.least for each in records]
            for each in records:
                each.least = min(sum(part.least for part in each.parts), 1 << 62)
            if before == [each.least for each in records]:
                break
        counted: set[int] = set()
        for each in self.all:
            self._count(each, counted)

    def _count(self, counted_type: _Type, counted: set[int]) -> None:
        """Types and empty values; of what holds itself, one round."""
        if id(counted_type) in counted:
            return
        counted.add(id(counted_type))
        for part in counted_type.parts:
            self._count(part, counted)
        counted_type.types = min(1 + sum(part.types for part in counted_type.parts), 1 << 62)
        if counted_type.kind == _RECORD:
            counted_type.empty = min((not counted_type.least) + sum(part.empty for part in counted_type.parts), 1 << 62)


class _Reading:
    """The way through one payload."""

    def __init__(self, data: bytes, at: int, empty_max: int) -> None:
        self._data, self._at, self._empty_max = data, at, empty_max
        self._empty = 0
        self._pending: list[tuple[_Type, int, int]] = []  # type, depth, how often

    def look_through(self, root: _Type) -> None:
        if root.empty > _EMPTY_VALUES_MAX:
            self._count_empty(root, 1)
        self._pending.append((root, 0, 1))
        while self._pending:
            current, depth, times = self._pending.pop()
            if current.kind == _SKIP:
                self._skip(current.size * times)
                continue
            if times > 1:
                self._pending.append((current, depth, times - 1))
            if current.kind == _NUMBER:
                self._number()
            elif current.kind == _BYTES:
                size = self._number()
                if current.longest and size > current.longest:
                    raise ValueError(
                        f"a decimal of {size} bytes, and its precision needs no more than {current.longest}"
                    )
                self._skip(size)
            elif depth >= VALUE_DEPTH_MAX:
                raise ValueError(f"it is nested more than {VALUE_DEPTH_MAX} deep")
            elif current.kind == _RECORD:
                self._pending += [(part, depth + 1, 1) for part in reversed(current.parts)]
            elif current.kind == _UNION:
                self._union(current, depth)
            else:
                self._block(current, depth)

    def _union(self, union: _Type, depth: int) -> None:
        branch = self._number()
        if not 0 <= branch < len(union.parts):
            raise ValueError(f"branch {branch} of a union of {len(union.parts)} types")
        chosen = union.parts[branch]
        if chosen.empty > _EMPTY_VALUES_MAX:  # a few are paid for by the byte of the branch
            self._count_empty(chosen, 1)
        self._pending.append((chosen, depth + 1, 1))

    def _block(self, blocks: _Type, depth: int) -> None:
        count = self._number()
        if not count:
            return
        if count < 0:
            count = -count
            self._number()  # the bytes of the block
        (item,) = blocks.parts
        self._pending.append((blocks, depth, 1))
        if not item.least or item.empty > _EMPTY_VALUES_MAX:
            self._count_empty(item, count)
        if not item.least:
            return
        if count > (len(self._data) - self._at) // item.least:
            raise ValueError(f"{count} items are claimed, and {len(self._data) - self._at} bytes are there")
        self._pending.append((item, depth + 1, count))

    def _count_empty(self, empty_type: _Type, count: int) -> None:
        self._empty += count * empty_type.empty
        if self._empty > self._empty_max:
            raise ValueError(f"more than {self._empty_max} values without bytes (avro.empty.items.max)")

    def _skip(self, size: int) -> None:
        if not 0 <= size <= len(self._data) - self._at:
            raise ValueError(f"{size} bytes are claimed, and {len(self._data) - self._at} are there")
        self._at += size

    def _number(self) -> int:
        number = shift = 0
        while self._at < len(self._data) and shift < 70:
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise ValueError("it ends too early, or a number has more than 64 bits")
