"""Random tables of PostgreSQL with random changes: what two captures of one database are compared on."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

PREFIX = "shop"
LAST_TABLE = "last_of_all"
"""A row of it shows how far a capture has come."""
_TYPES_SQL = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s fine')",
    "CREATE DOMAIN amount AS numeric(12,3)",
    "CREATE DOMAIN short_name AS varchar(20)",
    "CREATE TYPE pair AS (a int, b text)",
)
_MODES = {
    "decimal.handling.mode": ("precise", "double", "string"),
    "time.precision.mode": ("adaptive", "adaptive_time_microseconds", "connect"),
    "binary.handling.mode": ("bytes", "base64", "base64-url-safe", "hex"),
    "interval.handling.mode": ("numeric", "string"),
    "include.unknown.datatypes": ("false", "true"),
    "tombstones.on.delete": ("true", "true", "false"),
    "skipped.operations": ("t", "none"),
}


@dataclass(slots=True)
class Workload:
    """Tables, and changes to them.

    Attributes:
        config: keys that both captures get.
        before: statements that make the tables, with rows that are there at the start.
        after: statements while the changes are captured.
        types: SQL types of columns, by topic and name.
    """

    config: dict[str, str]
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    types: dict[str, dict[str, str]] = field(default_factory=dict)


Chance = random.Random
Literal = Callable[[Chance], str]


def _text(chance: Chance, most: int = 12) -> str:
    length = chance.randrange(most + 1)
    return "".join(chance.choice("abcXYZ 09-_'\"\\,{}äß€𝄞\t") for _ in range(length)).replace("'", "''")


def _number(chance: Chance, digits: int, scale: int) -> str:
    whole = chance.randrange(10 ** chance.randint(0, digits - scale))
    fraction = f".{chance.randrange(10**scale):0{scale}}" if scale else ""
    return f"{chance.choice(('', '-'))}{whole}{fraction}"


def _integer(bits: int) -> Literal:
    bound = 1 << bits - 1
    return lambda chance: str(chance.choice((0, 1, -1, bound - 1, -bound, chance.randrange(-bound, bound))))


def _quoted(write: Literal) -> Literal:
    return lambda chance: f"'{write(chance)}'"


def _date(chance: Chance) -> str:
    year = chance.choice((1, 1582, 1900, 1969, 1970, 2000, 2024, 9999))
    return f"{year:04}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"


def _time(chance: Chance) -> str:
    fraction = chance.choice(("", ".5", ".123", ".123456", ".000001"))
    return f"{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}{fraction}"


def _zone(chance: Chance) -> str:
    return chance.choice(("+00", "+02", "-07:30", "+14"))


def _timestamp(chance: Chance) -> str:
    return f"{_date(chance)} {_time(chance)}"


def _interval(chance: Chance) -> str:
    parts = [f"{chance.randint(-20, 20)} {unit}" for unit in ("years", "mons", "days", "hours", "mins")]
    parts.append(f"{chance.randint(-60, 60)}.{chance.randrange(1000):03} secs")
    return " ".join(chance.sample(parts, chance.randint(1, len(parts))))


def _bits(length: int) -> Literal:
    return lambda chance: "B'" + "".join(chance.choice("01") for _ in range(length)) + "'"


def _json(chance: Chance) -> str:
    choices = ('{"a": 1, "b": [true, null]}', '"text"', "[1, 2.50, 1e3]", "{}", "null", '{"ä": "\\n"}')
    return chance.choice(choices)


def _array(write: Literal) -> Literal:
    def elements(chance: Chance) -> str:
        return ", ".join("NULL" if chance.random() < 0.2 else write(chance) for _ in range(chance.randrange(4)))

    return elements


def _one_of(*texts: str) -> Literal:
    return lambda chance: chance.choice(texts)


_SCALARS: dict[str, Literal] = {
    "boolean": _one_of("true", "false"),
    "smallint": _integer(16),
    "integer": _integer(32),
    "bigint": _integer(64),
    "real": _one_of("0", "-1.5", "3.4e38", "1e-37", "0.1", "'NaN'", "'Infinity'"),
    "double precision": _one_of("0", "2.5", "-1.7e308", "0.1", "1e-300", "'NaN'", "'-Infinity'"),
    "numeric(10,2)": lambda chance: _number(chance, 10, 2),
    "numeric(5,0)": lambda chance: _number(chance, 5, 0),
    "numeric(38,10)": lambda chance: _number(chance, 38, 10),
    "numeric": lambda chance: _number(chance, chance.choice((3, 20, 40)), chance.choice((0, 1, 3))),
    "amount": lambda chance: _number(chance, 12, 3),
    "money": lambda chance: f"'{_number(chance, 9, 2)}'",
    "char(5)": _quoted(lambda chance: chance.choice(("", "ab", "abcde"))),
    '"char"': _one_of("'x'"),
    "varchar(30)": _quoted(lambda chance: _text(chance, 10)),
    "varchar": _quoted(_text),
    "short_name": _quoted(lambda chance: _text(chance, 6)),
    "text": _quoted(_text),
    "name": _quoted(lambda chance: _text(chance, 5)),
    "citext": _quoted(_text),
    "bytea": lambda chance: f"'\\x{chance.randbytes(chance.randrange(9)).hex()}'",
    "date": _quoted(_date),
    "time": _quoted(_time),
    "time(0)": _quoted(_time),
    "time(3)": _quoted(_time),
    "timetz": _quoted(lambda chance: _time(chance) + _zone(chance)),
    "timestamp": _quoted(_timestamp),
    "timestamp(0)": _quoted(_timestamp),
    "timestamp(3)": _quoted(_timestamp),
    "timestamptz": _quoted(lambda chance: _timestamp(chance) + _zone(chance)),
    "timestamptz(3)": _quoted(lambda chance: _timestamp(chance) + _zone(chance)),
    "interval": _quoted(_interval),
    "uuid": _quoted(lambda chance: f"{chance.getrandbits(128):032x}"),
    "json": _quoted(_json),
    "jsonb": _quoted(_json),
    "xml": _one_of("'<a>x</a>'", "'<b/>'"),
    "inet": _one_of("'10.1.2.3'", "'10.1.2.0/24'", "'::1'"),
    "cidr": _one_of("'10.1.0.0/16'", "'2001:db8::/32'"),
    "macaddr": _one_of("'08:00:2b:01:02:03'"),
    "macaddr8": _one_of("'08:00:2b:01:02:03:04:05'"),
    "bit": _bits(1),
    "bit(8)": _bits(8),
    "bit(19)": _bits(19),
    "varbit(12)": lambda chance: _bits(chance.randint(1, 12))(chance),
    "varbit": lambda chance: _bits(chance.randint(1, 12))(chance),
    "point": _one_of("'(1,2)'", "'(-1.5,1e10)'"),
    "int4range": _one_of("'[1,5)'", "'empty'", "'(,3]'"),
    "int8range": _one_of("'[1,5)'", "'(10,)'"),
    "numrange": _one_of("'[1.5,2.5)'", "'(,)'"),
    "daterange": _one_of("'[2024-01-01,2024-02-01)'"),
    "tsrange": _one_of("'[2024-01-01 10:00:00,2024-02-01 00:00:00)'"),
    "tstzrange": _one_of("'[2024-01-01 10:00:00+00,2024-02-01 00:00:00+02)'"),
    "tsvector": _one_of("'a:1 b:2'", "'fat cat'"),
    "oid": _one_of("0", "4294967295", "17"),
    "mood": _one_of("'sad'", "'ok'", "'it''s fine'"),
    "hstore": _one_of("'a=>1, b=>NULL'", '\'"x y"=>"q\\""\'', "''"),
    "ltree": _one_of("'top.science'", "'a'"),
}
_ELEMENTS = (
    "boolean", "smallint", "integer", "bigint", "real", "double precision", "numeric(10,2)", "numeric", "varchar(30)",
    "text", "char(5)", "date", "timestamp", "timestamptz", "uuid", "jsonb", "inet", "mood", "time", "bytea", "citext",
    "timestamp(3)", "json", "int4range", "macaddr", "cidr", "short_name",
)  # fmt: skip
_UNKNOWN: dict[str, Literal] = {
    "box": _one_of("'(1,1),(0,0)'"),
    "circle": _one_of("'<(0,0),1>'"),
    "pg_lsn": _one_of("'16/B374D848'"),
    "tsquery": _one_of("'fat & rat'"),
    "int4multirange": _one_of("'{[1,3)}'"),
    "pair": _one_of("'(1,x)'"),
    "lseg": _one_of("'[(0,0),(1,1)]'"),
}
_FAIL_IN_DEBEZIUM = ("name", "mood[]", "short_name[]")
"""Types of which Debezium makes null of other values, and ends where a column of them is NOT NULL."""
_KEY_TYPES = ("integer", "bigint", "smallint", "varchar(30)", "uuid", "date", "text", "numeric(10,2)", "timestamp")
_DEFAULTS: dict[str, tuple[str, ...]] = {
    "boolean": ("true", "false"),
    "smallint": ("7",),
    "integer": ("42", "-1", "(1 + 1)"),
    "bigint": ("9000000000",),
    "real": ("1.5",),
    "double precision": ("2.25",),
    "numeric(10,2)": ("12.5", "0"),
    "numeric": ("3.14",),
    "varchar(30)": ("'none'", "'it''s'"),
    "text": ("''", "'a b'", "lower('ABC')"),
    "char(5)": ("'ab'",),
    "date": ("'2024-01-02'", "current_date"),
    "timestamp": ("'2024-01-02 03:04:05.678'", "now()"),
    "timestamp(3)": ("'2024-01-02 03:04:05.678'",),
    "timestamptz": ("'2024-01-02 03:04:05+02'", "now()"),
    "time": ("'01:02:03'",),
    "uuid": ("gen_random_uuid()", "'2017d4c9-ba37-4f82-9fb5-9ab5df6b91e4'"),
    "jsonb": ("'{}'",),
    "json": ("'{\"a\": 1}'",),
    "mood": ("'ok'",),
    "bytea": ("'\\x01'",),
    "interval": ("'1 day'",),
    "money": ("'1.50'",),
    "bit(8)": ("B'00000001'",),
    "inet": ("'10.0.0.1'",),
}


@dataclass(slots=True)
class _Column:
    name: str
    sql: str
    literal: Literal
    not_null: bool
    default: str | None

    def value(self, chance: Chance) -> str:
        if not self.not_null and chance.random() < 0.25:
            return "NULL"
        return self.literal(chance)


class _RandomTable:
    """A table, and statements about it."""

    def __init__(self, chance: Chance, number: int) -> None:
        self.chance = chance
        self.name = chance.choice((f"t{number}", f'"Table {number}"', f"t_{number}_äö"))
        self._added = 0
        self.columns = [self._column(index) for index in range(chance.randint(1, 7))]
        self.keys = chance.choice((0, 1, 1, 1, 1, 2))
        names = ["id", '"Second Key"'][: self.keys]
        self.key_columns = [self._key_column(name) for name in names]
        self.identity = chance.choice(("DEFAULT", "DEFAULT", "FULL")) if self.keys else "FULL"
        self.used_keys: set[tuple[str, ...]] = set()
        self.live: list[tuple[str, ...]] = []
        self.types = {column.name.strip('"'): column.sql for column in (*self.columns, *self.key_columns)}

    def _column(self, index: int) -> _Column:
        chance = self.chance
        kind = chance.random()
        name = chance.choice((f"c{index}", f'"C {index}"', f"c{index}_é"))
        not_null = chance.random() < 0.3
        if kind < 0.06:
            sql = chance.choice(list(_UNKNOWN))
            return _Column(name, sql, _UNKNOWN[sql], not_null, None)
        if kind < 0.26:
            sql = chance.choice(_ELEMENTS)
            elements = _array(_SCALARS[sql])
            array = f"{sql}[]"
            not_null = not_null and array not in _FAIL_IN_DEBEZIUM
            return _Column(name, array, lambda chance: f"ARRAY[{elements(chance)}]::{array}", not_null, None)
        sql = chance.choice(list(_SCALARS))
        not_null = not_null and sql not in _FAIL_IN_DEBEZIUM
        default = chance.choice(_DEFAULTS[sql]) if sql in _DEFAULTS and chance.random() < 0.3 else None
        return _Column(name, sql, _SCALARS[sql], not_null, default)

    def _key_column(self, name: str) -> _Column:
        sql = self.chance.choice(_KEY_TYPES)
        return _Column(name, sql, _SCALARS[sql], True, None)

    def create(self) -> list[str]:
        parts = []
        columns = (
            [*self.columns, *self.key_columns] if self.chance.random() < 0.3 else [*self.key_columns, *self.columns]
        )
        for column in columns:
            default = f" DEFAULT {column.default}" if column.default is not None else ""
            parts.append(f"{column.name} {column.sql}{default}{' NOT NULL' if column.not_null else ''}")
        if self.keys:
            parts.append(f"PRIMARY KEY ({', '.join(column.name for column in self.key_columns)})")
        statements = [f"CREATE TABLE {self.name} ({', '.join(parts)})"]
        if self.identity != "DEFAULT":
            statements.append(f"ALTER TABLE {self.name} REPLICA IDENTITY {self.identity}")
        return statements

    def _new_key(self) -> tuple[str, ...] | None:
        for _ in range(20):
            key = tuple(column.literal(self.chance) for column in self.key_columns)
            if key not in self.used_keys or not self.keys:
                self.used_keys.add(key)
                return key
        return None

    def insert(self) -> list[str]:
        key = self._new_key()
        if key is None:
            return []
        if self.keys:
            self.live.append(key)
        given = [column for column in self.columns if column.default is None or self.chance.random() < 0.5]
        columns = [*self.key_columns, *given]
        values = [*key, *(column.value(self.chance) for column in given)]
        names = ", ".join(column.name for column in columns)
        if not names:
            return [f"INSERT INTO {self.name} DEFAULT VALUES"]
        return [f"INSERT INTO {self.name} ({names}) VALUES ({', '.join(values)}) ON CONFLICT DO NOTHING"]

    def _where(self, key: tuple[str, ...]) -> str:
        return " AND ".join(f"{column.name} = {value}" for column, value in zip(self.key_columns, key, strict=True))

    def change(self) -> list[str]:
        kind = self.chance.random()
        if kind < 0.45:
            return self.insert()
        if kind > 0.97:
            return [f"TRUNCATE {self.name}"]
        where = f" WHERE {self._where(self.chance.choice(self.live))}" if self.live else ""
        if kind < 0.6:
            return [f"DELETE FROM {self.name}{where}"]
        if kind < 0.7 and self.keys and self.live and (key := self._new_key()) is not None:
            self.live.append(key)
            pairs = zip(self.key_columns, key, strict=True)
            return [f"UPDATE {self.name} SET {', '.join(f'{column.name} = {value}' for column, value in pairs)}{where}"]
        changed = self.chance.sample(self.columns, self.chance.randint(1, len(self.columns)))
        sets = ", ".join(f"{column.name} = {column.value(self.chance)}" for column in changed)
        return [f"UPDATE {self.name} SET {sets}{where}"]

    def alter(self) -> list[str]:
        """A column more, or one less."""
        if self.chance.random() < 0.5 or len(self.columns) == 1:
            self._added += 1
            column = self._column(10 + self._added)
            column.not_null = False
            self.columns.append(column)
            self.types[column.name.strip('"')] = column.sql
            default = f" DEFAULT {column.default}" if column.default is not None else ""
            return [f"ALTER TABLE {self.name} ADD COLUMN {column.name} {column.sql}{default}"]
        column = self.columns.pop()
        return [f"ALTER TABLE {self.name} DROP COLUMN {column.name}"]


def topic_of(table: str) -> str:
    """The topic of a table, as it stands in statements."""
    name = re.sub(r"[^a-zA-Z0-9._\-]", "_", table.strip('"'))
    return f"{PREFIX}.public.{name}"


def columns_of_the_moment(workload: Workload) -> dict[str, list[str]]:
    """Columns whose defaults have other values in another run, by topic."""
    table = re.compile(r'(?:CREATE|ALTER) TABLE ("[^"]+"|\S+)')
    column = re.compile(r'("[^"]+"|\S+) \S+ DEFAULT (?:now|gen_random_uuid|current_date)\b')
    found: dict[str, list[str]] = {}
    for statement in (*workload.before, *workload.after):
        if name := table.match(statement):
            columns = [each.strip('"') for each in column.findall(statement)]
            found.setdefault(topic_of(name[1]), []).extend(columns)
    return found


def random_workload(seed: int, tables: int) -> Workload:
    """A workload; the same for the same seed."""
    chance = random.Random(seed)
    workload = Workload({key: chance.choice(values) for key, values in _MODES.items()})
    extensions = [f"CREATE EXTENSION {name}" for name in ("hstore", "citext", "ltree")]
    workload.before += [*extensions, *_TYPES_SQL, f"CREATE TABLE {LAST_TABLE} (id int PRIMARY KEY)"]
    made = [_RandomTable(chance, number) for number in range(tables)]
    for table in made:
        workload.before += table.create()
        for _ in range(chance.randrange(4)):
            workload.before += table.insert()
    for _ in range(tables * 6):
        table = chance.choice(made)
        workload.after += table.alter() if chance.random() < 0.03 else table.change()
    for table in made:
        workload.types[topic_of(table.name)] = table.types
    return workload
