"""Signatures of functions: their text, and what arguments they take.

```
(STRING text, INT length, STRING padding) -> STRING     names of parameters are for messages and may be left out
(T, T...) -> T                                          one variadic parameter, anywhere
(ARRAY<T>, INT! count) -> ARRAY<T>                      `!`: a literal, which an aggregate's constructor gets
(MAP<K, V>, (K, V) => BOOLEAN) -> MAP<K, V>             a lambda
(UNIT, INT, DATE) -> DATE                               a time unit
(DECIMAL, STRUCT, ANY) -> ?                             any precision and scale, any struct, anything; `?`: computed
```

Type variables are single capital letters with digits behind: `T`, `K`, `V1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from hayase.sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    DecimalType,
    SqlType,
    quoted_name,
)


@dataclass(frozen=True, slots=True)
class LambdaArgument:
    """A lambda among the arguments of a call.

    Attributes:
        parameters: how many it takes.
        body_type: the type of its body, given those of its parameters; `None` is the type of NULL.
    """

    parameters: int
    body_type: Callable[[tuple[SqlType | None, ...]], SqlType | None]

    def __str__(self) -> str:
        return "LAMBDA"


@dataclass(frozen=True, slots=True)
class UnitArgument:
    """A time unit among the arguments of a call."""

    def __str__(self) -> str:
        return "INTERVALUNIT"


Argument = SqlType | LambdaArgument | UnitArgument | None
"""The type of an argument; `None` is that of NULL."""


class Pattern:
    """Base of what a parameter can be."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Exactly(Pattern):
    """One type; its text is that of the lists of alternatives."""

    type: SqlType

    def __str__(self) -> str:
        return {"INTEGER": "INT", "STRING": "VARCHAR"}.get(str(self.type), str(self.type))


@dataclass(frozen=True, slots=True)
class AnyDecimal(Pattern):
    """DECIMAL of any precision and scale."""

    def __str__(self) -> str:
        return "DECIMAL"


@dataclass(frozen=True, slots=True)
class AnyStruct(Pattern):
    """STRUCT with any fields."""

    def __str__(self) -> str:
        return "STRUCT"


@dataclass(frozen=True, slots=True)
class Anything(Pattern):
    """ANY: each argument may have a type of its own."""

    def __str__(self) -> str:
        return "ANY"


@dataclass(frozen=True, slots=True)
class Variable(Pattern):
    """A type variable: the same type wherever it stands."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ArrayOf(Pattern):
    """ARRAY<item>."""

    item: Pattern

    def __str__(self) -> str:
        return f"ARRAY<{self.item}>"


@dataclass(frozen=True, slots=True)
class MapOf(Pattern):
    """MAP<key, value>."""

    key: Pattern
    value: Pattern

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class StructOf(Pattern):
    """STRUCT<name type, …>."""

    fields: tuple[tuple[str, Pattern], ...]

    def __str__(self) -> str:
        return "STRUCT<" + ", ".join(f"{quoted_name(name)} {field}" for name, field in self.fields) + ">"


@dataclass(frozen=True, slots=True)
class LambdaOf(Pattern):
    """A lambda."""

    parameters: tuple[Pattern, ...]
    result: Pattern

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.parameters))
        return f"LAMBDA ({inner}) => {self.result}"


@dataclass(frozen=True, slots=True)
class AnyUnit(Pattern):
    """UNIT: a time unit."""

    def __str__(self) -> str:
        return "INTERVALUNIT"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter."""

    pattern: Pattern
    variadic: bool = False
    literal: bool = False
    name: str = ""

    def __str__(self) -> str:
        return f"{self.pattern}{'...' if self.variadic else ''}{' ' if self.name else ''}{self.name}"


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters and the result; `result` is `None` where a function computes it."""

    parameters: tuple[Parameter, ...]
    result: Pattern | None

    @property
    def variadic(self) -> bool:
        """Whether one parameter is variadic."""
        return any(parameter.variadic for parameter in self.parameters)

    def parameters_for(self, count: int) -> tuple[Parameter, ...] | None:
        """One parameter for each of `count` arguments, or `None` if it cannot take so many."""
        if not self.variadic:
            return self.parameters if count == len(self.parameters) else None
        repeats = count - len(self.parameters) + 1
        if repeats < 0:
            return None
        spread: list[Parameter] = []
        for parameter in self.parameters:
            spread.extend([parameter] * (repeats if parameter.variadic else 1))
        return tuple(spread)


_SIMPLE: dict[str, Pattern] = {
    "BOOLEAN": Exactly(BOOLEAN),
    "INT": Exactly(INTEGER),
    "INTEGER": Exactly(INTEGER),
    "BIGINT": Exactly(BIGINT),
    "DOUBLE": Exactly(DOUBLE),
    "STRING": Exactly(STRING),
    "VARCHAR": Exactly(STRING),
    "BYTES": Exactly(BYTES),
    "DATE": Exactly(DATE),
    "TIME": Exactly(TIME),
    "TIMESTAMP": Exactly(TIMESTAMP),
    "ANY": Anything(),
    "UNIT": AnyUnit(),
}
_TOKEN = re.compile(r"\s*(\.\.\.|->|=>|[A-Za-z_]\w*|\d+|[(),<>!?])")
_VARIABLE = re.compile(r"[A-Z]\d*")


def parse_signature(text: str) -> Signature:
    """The signature that a declaration's text is; a mistake in it is a `ValueError`."""
    return _Parser(text).signature()


class _Parser:
    """Recursive descent over the tokens of one signature."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        position = 0
        while position < len(text.rstrip()):
            found = _TOKEN.match(text, position)
            if found is None:
                raise ValueError(f"signature {text!r}: unexpected text at position {position}")
            self.tokens.append(found[1])
            position = found.end()
        self.position = 0

    def signature(self) -> Signature:
        """The whole text."""
        self.take("(")
        parameters: list[Parameter] = []
        while not self.accept(")"):
            if parameters:
                self.take(",")
            parameters.append(self.parameter())
        self.take("->")
        result = None if self.accept("?") else self.pattern()
        if isinstance(result, AnyDecimal):
            raise ValueError(f"signature {self.text!r}: a result needs its digits, for example DECIMAL(12, 2)")
        if self.position != len(self.tokens):
            raise ValueError(f"signature {self.text!r}: unexpected {self.peek()!r} behind the result")
        if sum(parameter.variadic for parameter in parameters) > 1:
            raise ValueError(f"signature {self.text!r}: only one parameter can be variadic")
        return Signature(tuple(parameters), result)

    def parameter(self) -> Parameter:
        """One parameter with its marks and name."""
        pattern = self.pattern()
        variadic = self.accept("...")
        literal = self.accept("!")
        name = "" if self.peek() in (",", ")") else self.next()
        return Parameter(pattern, variadic, literal, name)

    def pattern(self) -> Pattern:
        """A type, or a lambda."""
        if self.accept("("):
            return self.lambda_pattern()
        name = self.next()
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name == "DECIMAL":
            return self.decimal()
        if name == "STRUCT":
            return self.struct()
        if name == "ARRAY":
            self.take("<")
            item = self.pattern()
            self.take(">")
            return ArrayOf(item)
        if name == "MAP":
            self.take("<")
            key = self.pattern()
            self.take(",")
            value = self.pattern()
            self.take(">")
            return MapOf(key, value)
        if _VARIABLE.fullmatch(name):
            return Variable(name)
        raise ValueError(f"signature {self.text!r}: unknown type {name!r}")

    def lambda_pattern(self) -> Pattern:
        """What follows the opening parenthesis of a lambda."""
        parameters: list[Pattern] = []
        while not self.accept(")"):
            if parameters:
                self.take(",")
            parameters.append(self.pattern())
        self.take("=>")
        return LambdaOf(tuple(parameters), self.pattern())

    def decimal(self) -> Pattern:
        """What follows `DECIMAL`."""
        if not self.accept("("):
            return AnyDecimal()
        precision = int(self.next())
        self.take(",")
        scale = int(self.next())
        self.take(")")
        return Exactly(DecimalType(precision, scale))

    def struct(self) -> Pattern:
        """What follows `STRUCT`."""
        if not self.accept("<"):
            return AnyStruct()
        fields: list[tuple[str, Pattern]] = []
        while not self.accept(">"):
            if fields:
                self.take(",")
            name = self.next()
            fields.append((name, self.pattern()))
        return StructOf(tuple(fields))

    def peek(self) -> str:
        """The next token, or an empty text at the end."""
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def next(self) -> str:
        """The next token, which is passed."""
        token = self.peek()
        self.position += 1
        return token

    def accept(self, token: str) -> bool:
        """Passes `token` if it is next."""
        if self.peek() != token:
            return False
        self.position += 1
        return True

    def take(self, token: str) -> None:
        """Passes `token`, which must be next."""
        if not self.accept(token):
            raise ValueError(f"signature {self.text!r}: {token!r} expected instead of {self.peek()!r}")
