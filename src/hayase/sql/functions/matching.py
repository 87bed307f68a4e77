"""Whether a signature takes arguments of given types, and what they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hayase.sql.functions.signatures import (
    AnyDecimal,
    AnyStruct,
    Anything,
    AnyUnit,
    Argument,
    ArrayOf,
    Exactly,
    LambdaArgument,
    LambdaOf,
    MapOf,
    Parameter,
    Pattern,
    Signature,
    StructOf,
    UnitArgument,
    Variable,
)
from hayase.sql.types.coercion import as_decimal, can_widen, common_type
from hayase.sql.types.sql_types import ArrayType, DecimalType, MapType, SqlType, StructType

Bindings = dict[str, SqlType]


@dataclass(frozen=True, slots=True)
class LambdaTypes:
    """The types of a lambda: of its parameters, of its body, and of what the function is to get."""

    parameters: tuple[SqlType | None, ...]
    body: SqlType | None
    result: SqlType | None


ArgumentTarget = SqlType | LambdaTypes | UnitArgument | None
"""What the function gets for an argument; `None` is NULL where the signature leaves its type open."""


@dataclass(frozen=True, slots=True)
class Match:
    """A signature that takes the arguments.

    Attributes:
        parameters: one for each argument.
        targets: what each argument becomes.
        result: the type of the result; `None` if a function computes it, or if all is NULL.
    """

    parameters: tuple[Parameter, ...]
    targets: tuple[ArgumentTarget, ...]
    result: SqlType | None


def match(signature: Signature, arguments: Sequence[Argument], widen: bool) -> Match | None:
    """How `signature` takes `arguments`, or `None`; `widen` allows implicit casts."""
    parameters = signature.parameters_for(len(arguments))
    if parameters is None:
        return None
    bindings: Bindings = {}
    targets: list[ArgumentTarget] = [None] * len(arguments)
    # Lambdas are typed last, since the other arguments give the types of their parameters; bare variables come before
    # them, but after arrays and maps, whose items are never widened.
    order = sorted(range(len(arguments)), key=lambda position: _turn(parameters[position].pattern))
    for position in order:
        if not _accepts(parameters[position].pattern, arguments[position], bindings, widen):
            return None
    for position, argument in enumerate(arguments):
        pattern = parameters[position].pattern
        if isinstance(argument, LambdaArgument):
            targets[position] = _lambda_types(pattern, argument, bindings)
        elif isinstance(argument, UnitArgument):
            targets[position] = argument
        else:
            targets[position] = _target(pattern, argument, bindings)
    result = None if signature.result is None else substitute(signature.result, bindings)
    return Match(parameters, tuple(targets), result)


def _turn(pattern: Pattern) -> int:
    if isinstance(pattern, LambdaOf):
        return 2
    return 1 if isinstance(pattern, Variable) else 0


def _accepts(pattern: Pattern, argument: Argument, bindings: Bindings, widen: bool) -> bool:
    """Whether an argument fits; binds type variables."""
    if isinstance(pattern, LambdaOf):
        return isinstance(argument, LambdaArgument) and _accepts_lambda(pattern, argument, bindings, widen)
    if isinstance(pattern, AnyUnit):
        return isinstance(argument, UnitArgument)
    if isinstance(argument, LambdaArgument | UnitArgument):
        return False
    if argument is None or isinstance(pattern, Anything):
        return True
    if isinstance(pattern, Exactly):
        return pattern.type == argument or (widen and can_widen(argument, pattern.type))
    if isinstance(pattern, AnyDecimal):
        return isinstance(argument, DecimalType) or (widen and can_widen(argument, DecimalType(38, 0)))
    if isinstance(pattern, Variable):
        return _bind(pattern.name, argument, bindings, widen)
    return _accepts_nested(pattern, argument, bindings)


def _accepts_nested(pattern: Pattern, argument: SqlType, bindings: Bindings) -> bool:
    match pattern, argument:
        case ArrayOf(item), ArrayType(item_type):
            return _accepts(item, item_type, bindings, False)
        case MapOf(key, value), MapType(key_type, value_type):
            return _accepts(key, key_type, bindings, False) and _accepts(value, value_type, bindings, False)
        case AnyStruct(), StructType():
            return True
        case StructOf(fields), StructType(field_types):
            return len(fields) == len(field_types) and all(
                name == type_name and _accepts(field, type_, bindings, False)
                for (name, field), (type_name, type_) in zip(fields, field_types, strict=True)
            )
    return False


def _bind(name: str, argument: SqlType, bindings: Bindings, widen: bool) -> bool:
    bound = bindings.get(name)
    if bound is None or bound == argument:
        bindings[name] = argument
        return True
    if not widen:
        return False
    try:
        common = common_type(bound, argument)
    except ValueError:
        return False
    assert common is not None
    bindings[name] = common
    return True


def _accepts_lambda(pattern: LambdaOf, argument: LambdaArgument, bindings: Bindings, widen: bool) -> bool:
    if argument.parameters != len(pattern.parameters):
        return False
    body = argument.body_type(tuple(substitute(parameter, bindings) for parameter in pattern.parameters))
    if isinstance(pattern.result, Variable) and (bound := bindings.get(pattern.result.name)) is not None:
        return body is None or body == bound or (widen and can_widen(body, bound))
    return _accepts(pattern.result, body, bindings, widen)


def _lambda_types(pattern: Pattern, argument: LambdaArgument, bindings: Bindings) -> LambdaTypes:
    assert isinstance(pattern, LambdaOf)
    parameters = tuple(substitute(parameter, bindings) for parameter in pattern.parameters)
    body = argument.body_type(parameters)
    return LambdaTypes(parameters, body, _target(pattern.result, body, bindings))


def _target(pattern: Pattern, argument: SqlType | None, bindings: Bindings) -> SqlType | None:
    """What an accepted argument becomes."""
    if isinstance(pattern, Anything | AnyStruct):
        return argument
    if isinstance(pattern, AnyDecimal):
        return None if argument is None else as_decimal(argument)
    if argument is not None and isinstance(pattern, ArrayOf | MapOf | StructOf):
        return argument
    return substitute(pattern, bindings)


def substitute(pattern: Pattern, bindings: Bindings) -> SqlType | None:
    """The type that a pattern is with its variables bound; `None` where one is open."""
    match pattern:
        case Exactly(type_):
            return type_
        case Variable(name):
            return bindings.get(name)
        case ArrayOf(item):
            item_type = substitute(item, bindings)
            return None if item_type is None else ArrayType(item_type)
        case MapOf(key, value):
            key_type, value_type = substitute(key, bindings), substitute(value, bindings)
            return None if key_type is None or value_type is None else MapType(key_type, value_type)
        case StructOf(fields):
            types = [(name, substitute(field, bindings)) for name, field in fields]
            present = tuple((name, type_) for name, type_ in types if type_ is not None)
            return StructType(present) if len(present) == len(types) else None
    return None
