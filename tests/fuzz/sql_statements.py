"""Random statements of SQL, the same in every run: well-formed ones, most of them of wrong types, and damaged ones."""

from __future__ import annotations

from random import Random
from typing import TypeVar

from hayase.sql.ast.words import NON_RESERVED, RESERVED
from hayase.sql.functions.registry import FunctionKind, default_registry

T = TypeVar("T")

SOURCES = """
CREATE TYPE money AS DECIMAL(10, 2);
CREATE STREAM s (
    k INT KEY, a INT, b BIGINT, d DOUBLE, m DECIMAL(6, 2), t STRING, y BYTES, f BOOLEAN, dt DATE, ti TIME, ts TIMESTAMP,
    xs ARRAY<INT>, mp MAP<STRING, BIGINT>, st STRUCT<a INT, b STRING>, h ARRAY<STRUCT<key STRING, value BYTES>> HEADERS
) WITH (kafka_topic='s', format='JSON');
CREATE STREAM r (k INT KEY, a INT, b BIGINT, t STRING, xs ARRAY<STRING>) WITH (kafka_topic='r', format='JSON');
CREATE STREAM w (k STRING KEY, a INT)
    WITH (kafka_topic='w', format='JSON', window_type='TUMBLING', window_size='5 SECONDS');
CREATE TABLE p (k INT PRIMARY KEY, a INT, b BIGINT, t STRING) WITH (kafka_topic='p', format='JSON');
CREATE TABLE q (k STRING PRIMARY KEY, k2 INT PRIMARY KEY, a INT, price money) WITH (kafka_topic='q', format='JSON');
"""
"""The streams and tables that the statements read."""

_COLUMNS = "k a b d m t y f dt ti ts xs mp st h k2 price nothing rowtime windowstart rowoffset".split()  # noqa: SIM905
_SOURCES = ["s", "r", "w", "p", "q", "nowhere"]
_TYPES = [
    "INT", "BIGINT", "DOUBLE", "DECIMAL(4, 1)", "DECIMAL(38, 0)", "STRING", "BYTES", "BOOLEAN", "DATE", "TIME",
    "TIMESTAMP", "ARRAY<INT>", "MAP<STRING, INT>", "STRUCT<a INT>", "money", "unknown",
]  # fmt: skip
_LITERALS = [
    "0", "1", "-1", "2147483647", "2147483648", "-9223372036854775808", "1.5", "-0.001", "1E3", "1e-300", "'x'", "''",
    "'12'", "'2024-02-29'", "'{\"a\":[1]}'", "'%_'", "true", "false", "null", "999999999999999999.999999999",
]  # fmt: skip
_PARTS = ["st->a", "st->zz", "s.a", "xs[1]", "mp['x']"]
_OPERATORS = ["+", "-", "*", "/", "%", "||"]
_COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "LIKE"]
_AROUND = [
    "ARRAY[@, 1]", "MAP('a' := @)", "STRUCT(a := @)", "-@", "TRANSFORM(@, x => x)", "TRANSFORM(xs, x => @)",
    "REDUCE(xs, @, (x, y) => x + y)", "FILTER(mp, (x, y) => y > @)", "DATEADD(DAYS, @, dt)", "(@)[1]", "(@)->a",
]  # fmt: skip
_AGGREGATES = ["COUNT(*)", "SUM(a)", "MAX(b)", "COLLECT_LIST(t)", "TOPK(a, 2)", "EXPLODE(xs)", "AS_VALUE(k)"]
_SUMS = [
    "COUNT(*)", "SUM(a)", "SUM(m)", "AVG(d)", "MAX(b)", "MIN(ts)", "COLLECT_LIST(t)", "COLLECT_SET(st)", "TOPK(a, 2)",
    "TOPKDISTINCT(t, 3)", "HISTOGRAM(t)", "COUNT_DISTINCT(a)", "EARLIEST_BY_OFFSET(t)", "LATEST_BY_OFFSET(xs, 2)",
    "ATTR(a)", "STDDEV_SAMPLE(d)", "CORRELATION(a, b)", "SUM_LIST(xs)", "MAX(a) - MIN(a)", "SUM(a * 2) / COUNT(*)",
]  # fmt: skip
_BY_TYPE: dict[str, tuple[str, ...]] = {
    "INT": ("a", "1", "-7", "xs[1]", "st->a", "2147483647"),
    "BIGINT": ("b", "mp['x']", "9223372036854775807", "CAST(a AS BIGINT)"),
    "DOUBLE": ("d", "1E0", "-2.5E10", "CAST(a AS DOUBLE)"),
    "DECIMAL": ("m", "1.50", "-0.001"),
    "VARCHAR": ("t", "'x'", "''", "'é 12 %'", "'[1, {\"a\": 2}]'", "'yyyy-MM-dd'", "'2024-02-29'", "st->b"),
    "BOOLEAN": ("f", "true", "(a > 1)", "(t IS NULL)"),
    "BYTES": ("y", "TO_BYTES('ab', 'utf8')"),
    "DATE": ("dt", "CAST('2024-02-29' AS DATE)"),
    "TIME": ("ti", "CAST('23:59:59' AS TIME)"),
    "TIMESTAMP": ("ts", "CAST('2024-02-29T10:00:00' AS TIMESTAMP)"),
    "ARRAY": ("xs", "ARRAY['a', 'b']", "ARRAY[1, null]"),
    "MAP": ("mp", "MAP('a' := 'b')"),
    "STRUCT": ("st", "STRUCT(a := 1)"),
}
_BY_TYPE["STRING"] = _BY_TYPE["VARCHAR"]
_ROWS = {
    "r": ("INT", "INT", "BIGINT", "STRING", "ARRAY"),
    "p": ("INT", "INT", "BIGINT", "STRING"),
    "q": ("STRING", "INT", "INT", "DECIMAL"),
}
"""Types of the columns, in order, of sources that take rows."""
_UNITS = ["MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS"]
_PROPERTIES = [
    "kafka_topic='t'", "value_format='JSON'", "value_format='AVRO'", "key_format='DELIMITED'", "format='PROTOBUF'",
    "partitions=2", "replicas=-1", "timestamp='b'", "timestamp='nothing'", "timestamp_format='yyyy'", "nonsense=1",
    "wrap_single_value=false", "value_delimiter='|'", "window_type='SESSION'", "value_schema_id=7", "kafka_topic=1",
]  # fmt: skip
_NOISE = ["(", ")", ",", ";", "'", "`", "=>", "->", ":=", "[", "]", "<", ">", "$", "--", "/*", "\0", "é", "1e", "."]


class StatementMaker:
    """Makes statements from a seed."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        registry = default_registry()
        self._functions = registry.names()
        self._overloads = [
            overload for name in registry.names(FunctionKind.SCALAR) for overload in registry.overloads(name)
        ]
        self._words = [*sorted(RESERVED | NON_RESERVED), *_NOISE, *_COLUMNS, *_LITERALS]
        self._number = 0

    def next(self) -> str:
        """A statement; every third one is damaged."""
        text = self._statement()
        return self._damaged(text) if self._chance(0.34) else text

    def _pick(self, *choices: T) -> T:
        return self._random.choice(choices)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _some(self, most: int) -> range:
        return range(self._random.randint(1, most))

    def _statement(self) -> str:
        self._number += 1
        match self._random.randrange(12):
            case 0:
                target = self._pick(*_ROWS)
                values = (self._pick(*_LITERALS, *_BY_TYPE[type_]) for type_ in _ROWS[target])
                return f"INSERT INTO {target} VALUES ({', '.join(values)});"
            case 1:
                column = self._pick(*_COLUMNS)
                return f"INSERT INTO {self._pick(*_SOURCES)} (k, {column}) VALUES (1, {self._expression(2)});"
            case 2:
                return self._create_source()
            case 3:
                return f"INSERT INTO {self._pick(*_SOURCES)} {self._query()};"
            case 4:
                kind = self._pick("STREAM", "TABLE")
                name, column = self._pick(*_SOURCES), self._pick(*_COLUMNS)
                return self._pick(
                    f"DROP {kind} {name};",
                    f"ALTER {kind} {name} ADD COLUMN {column} {self._type()};",
                    f"CREATE TYPE {self._pick('money', 'fresh')} AS {self._type()};",
                    f"DROP TYPE IF EXISTS {self._pick('money', 'none')};",
                    f"CREATE OR REPLACE FUNCTION f (k {self._type()}) RETURNS {self._type()} LANGUAGE PYTHON AS 'k';",
                    f"DROP FUNCTION IF EXISTS {self._pick('f', 'abs')};",
                    f"SET '{self._pick('auto.offset.reset', 'ksql.nonsense')}'='{self._pick('earliest', '-1')}';",
                )
        replace = self._pick("", "", "OR REPLACE ")
        options = f" WITH ({self._pick(*_PROPERTIES)})" if self._chance(0.1) else ""
        query = self._query()
        table = "GROUP BY" in query or " FROM p" in query
        kind = self._pick("STREAM", "TABLE") if self._chance(0.05) else "TABLE" if table else "STREAM"
        return f"CREATE {replace}{kind} o{self._number}{options} AS {query};"

    def _create_source(self) -> str:
        kind = self._pick("STREAM", "TABLE")
        keys = self._pick("", " KEY", " PRIMARY KEY", " HEADERS", " HEADER('x')")
        columns = [f"c{i} {self._type()}" for i in self._some(3)] + [f"{self._pick(*_COLUMNS)} {self._type()}{keys}"]
        properties = {self._pick(*_PROPERTIES) for _ in self._some(4)} | {"kafka_topic='t'"}
        source = self._pick("", "SOURCE ")
        return f"CREATE {source}{kind} o{self._number} ({', '.join(columns)}) WITH ({', '.join(sorted(properties))});"

    def _query(self) -> str:
        return self._right_query() if self._chance(0.75) else self._any_query()

    def _right_query(self) -> str:
        """A query of the right shape, over columns that are there."""
        items = ", ".join(f"{self._call()} AS v{i}" for i in self._some(3))
        where = f" WHERE {self._typed('BOOLEAN', 2)}" if self._chance(0.3) else ""
        match self._random.randrange(7):
            case 0 | 1 | 2:
                return f"SELECT k, {items} FROM s{where}"
            case 3:
                window = self._pick("", "", f" WINDOW {self._window()}")
                sums = ", ".join(f"{self._pick(*_SUMS)} AS v{i}" for i in self._some(3))
                by = self._pick("k", "a", "t", "t, a", self._typed("STRING", 1), self._call())
                return f"SELECT {by}, {sums} FROM s{window}{where} GROUP BY {by}{self._pick('', ' EMIT FINAL')}"
            case 4:
                by = self._pick("a", "t", "t, a", self._typed("BIGINT", 1), "null")
                return f"SELECT {'' if by == 'null' else by + ', '}{items} FROM s{where} PARTITION BY {by}"
            case 5:
                within, right = self._pick(("WITHIN 1 HOUR", "r"), ("", "p"))
                kind = self._pick("", "LEFT ", "" if right == "p" else "FULL OUTER ")
                on = self._pick("s.k = x.k", "s.a = x.k", "s.a = x.a")
                key = self._pick("s.k", "s.a", "ROWKEY AS rk")
                return f"SELECT {key}, s.t, x.b FROM s {kind}JOIN {right} x {within} ON {on}"
        return f"SELECT k, {self._pick('a + 1 AS n', 't', 'b, t')} FROM p WHERE {self._pick('a > 1', 't IS NULL')}"

    def _call(self) -> str:
        """A function with arguments that fit one of its overloads."""
        overload = self._random.choice(self._overloads)
        parameters = [str(each.pattern) for each in overload.signature.parameters]
        return f"{overload.name}({', '.join(self._argument(each) for each in parameters)})"

    def _argument(self, pattern: str) -> str:
        if "=>" in pattern:
            names = pattern[: pattern.index(")")].split(",")
            return f"({', '.join(f'x{i}' for i in range(len(names)))}) => {self._pick('x0', 'x0 IS NULL', 'null')}"
        return self._pick(*_UNITS) if "UNIT" in pattern else self._typed(pattern, 1)

    def _typed(self, type_: str, depth: int) -> str:
        """An expression of a type, which is given as signatures name it."""
        known = _BY_TYPE.get(type_.partition("<")[0].partition("(")[0], ("a", "t", "null", "d"))
        if depth == 0 or self._chance(0.5):
            return self._pick(*known)
        inner = depth - 1
        match type_:
            case "BOOLEAN":
                return f"({self._typed('BIGINT', inner)} {self._pick('<', '=', '>=')} {self._typed('INT', inner)})"
            case "INT" | "BIGINT" | "DOUBLE" | "DECIMAL":
                left, right = self._typed(type_, inner), self._typed(type_, inner)
                return f"({left} {self._pick('+', '-', '*', '/', '%')} {right})"
            case "VARCHAR" | "STRING":
                return f"({self._typed('STRING', inner)} + CAST({self._typed('DOUBLE', inner)} AS STRING))"
        return f"CASE WHEN {self._typed('BOOLEAN', inner)} THEN {self._pick(*known)} ELSE {self._pick(*known)} END"

    def _any_query(self) -> str:
        parts = [f"SELECT {', '.join(self._item() for _ in self._some(4))} FROM {self._relation()}"]
        if self._chance(0.25):
            parts.append(f"WINDOW {self._window()}")
        if self._chance(0.3):
            parts.append(f"WHERE {self._predicate(2)}")
        if self._chance(0.4):
            parts.append(f"GROUP BY {self._pick('k', 'a', 't', self._expression(1), '(a, b)')}")
        if self._chance(0.15):
            parts.append(f"PARTITION BY {self._pick('k', 'a', 't', self._expression(1), 'a, b', 'null')}")
        if self._chance(0.15):
            parts.append(f"HAVING {self._predicate(1)}")
        if self._chance(0.3):
            parts.append(self._pick("EMIT CHANGES", "EMIT FINAL", "LIMIT 3"))
        return " ".join(parts)

    def _item(self) -> str:
        if self._chance(0.2):
            return self._pick("*", "s.*", "st->*", "k", "k", "k")
        alias = f" AS {self._pick(*_COLUMNS)}" if self._chance(0.3) else ""
        return f"{self._expression(3)}{alias}"

    def _relation(self) -> str:
        relation = self._pick(*_SOURCES)
        for _ in range(self._random.choice((0, 0, 0, 1, 1, 2))):
            right = self._pick(*_SOURCES)
            within = self._pick("", f" WITHIN {self._duration()}", f" WITHIN ({self._duration()}, {self._duration()})")
            kind = self._pick("", "LEFT", "RIGHT", "FULL OUTER")
            condition = self._pick(f"{relation.split()[0]}.k = {right}.k", f"s.a = {right}.k", self._predicate(1))
            relation = f"{relation} {kind} JOIN {right}{within} ON {condition}"
        return relation

    def _window(self) -> str:
        grace = self._pick("", f", GRACE PERIOD {self._duration()}", f", RETENTION {self._duration()}")
        return self._pick(
            f"TUMBLING (SIZE {self._duration()}{grace})",
            f"HOPPING (SIZE {self._duration()}, ADVANCE BY {self._duration()}{grace})",
            f"SESSION ({self._duration()}{grace})",
        )

    def _duration(self) -> str:
        return f"{self._pick('0', '1', '30', '99999999999')} {self._pick(*_UNITS)}"

    def _type(self) -> str:
        return self._pick(*_TYPES)

    def _list(self, most: int, depth: int) -> str:
        return ", ".join(self._expression(depth) for _ in self._some(most))

    def _predicate(self, depth: int) -> str:
        left = self._expression(depth)
        match self._random.randrange(5):
            case 0:
                return f"{left} IS NOT NULL"
            case 1:
                return f"{left} BETWEEN {self._expression(depth)} AND {self._expression(depth)}"
            case 2:
                return f"{left} NOT IN ({self._list(3, depth)})"
            case 3:
                return f"NOT ({left} = {self._expression(depth)}) OR {self._pick('f', 'true', 'a > 1')}"
        return f"{left} {self._pick(*_COMPARISONS)} {self._expression(depth)}"

    def _expression(self, depth: int) -> str:
        if depth == 0 or self._chance(0.3):
            return self._pick(*_COLUMNS, *_LITERALS, *_PARTS)
        inner = depth - 1
        match self._random.randrange(9):
            case 0:
                return f"({self._expression(inner)} {self._pick(*_OPERATORS)} {self._expression(inner)})"
            case 1:
                return f"CAST({self._expression(inner)} AS {self._type()})"
            case 2:
                results = (self._expression(inner) for _ in range(2))
                return f"CASE WHEN {self._predicate(inner)} THEN {' ELSE '.join(results)} END"
            case 3:
                return f"({self._predicate(inner)})"
            case 4:
                return self._pick(*_AROUND).replace("@", self._expression(inner))
            case 5:
                return self._pick(*_AGGREGATES)
        arguments = ", ".join(self._expression(inner) for _ in range(self._random.randint(0, 3)))
        return f"{self._pick(*self._functions)}({arguments})"

    def _damaged(self, text: str) -> str:
        words = text.split(" ")
        for _ in self._some(3):
            at = self._random.randrange(len(words))
            match self._random.randrange(5):
                case 0:
                    del words[at]
                case 1:
                    words[at:at] = [self._pick(*self._words)]
                case 2:
                    words[at] = self._pick(*self._words)
                case 3:
                    words[at:at] = [words[self._random.randrange(len(words))]]
                case 4:
                    cut = self._random.randrange(len(words[at]) + 1)
                    words[at] = words[at][:cut] + self._pick(*self._words) + words[at][cut:]
            words = words or [";"]
        return " ".join(words)
