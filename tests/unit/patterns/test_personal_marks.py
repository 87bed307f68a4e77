"""Which fields are personal: marks are found wherever they can stand, and errors show nothing of such a field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Optional, cast

import msgspec
import pydantic
import pytest
from tests.unit.patterns.shop import STOCK

from hayase import Serdes
from hayase.core.errors import SerializationError, TopologyError
from hayase.patterns import CommandTarget, Decider, EventSourced, Personal, SubjectKeys
from hayase.patterns.cloud_events import to_headers
from hayase.patterns.replies import decode_reply
from hayase.patterns.type_names import TypeNames
from hayase.testing import TopologyTestDriver

SECRET = "ada@example.org"


@dataclass(frozen=True)
class OrNone:
    email: Annotated[str, Personal()] | None


@dataclass(frozen=True)
class Maybe:
    email: Optional[Annotated[str, Personal()]] = None  # noqa: UP045  # as programs write it


@dataclass(frozen=True)
class WithoutParentheses:
    email: Annotated[str, Personal]


@dataclass(frozen=True)
class Inner:
    email: Annotated[str, Personal()]


@dataclass(frozen=True)
class Whole:
    who: Annotated[Inner | None, Personal()]


class Aliased(pydantic.BaseModel):
    email: Annotated[str, Personal()] = pydantic.Field(alias="e-mail")


class AliasedWhereWritten(pydantic.BaseModel):
    email: Annotated[str, Personal()] = pydantic.Field(serialization_alias="mail", validation_alias="mail")


class Computed(pydantic.BaseModel):
    name: Annotated[str, Personal()]

    @pydantic.computed_field  # type: ignore[prop-decorator]  # as the documentation of Pydantic has it
    @property
    def email(self) -> Annotated[str, Personal()]:
        return SECRET


class Exact(pydantic.BaseModel):
    email: Annotated[str, Personal()]
    number: int


@pytest.fixture
def keys() -> SubjectKeys:
    made = SubjectKeys("account-keys")
    made.use_memory()
    return made


@pytest.mark.parametrize(
    ("value", "erased"),
    [
        (OrNone(SECRET), OrNone(None)),
        (Maybe(SECRET), Maybe(None)),
        (WithoutParentheses(SECRET), WithoutParentheses("[erased]")),
        (Whole(Inner(SECRET)), Whole(None)),
        (Aliased.model_validate({"e-mail": SECRET}), Aliased.model_validate({"e-mail": "[erased]"})),
        (
            AliasedWhereWritten.model_validate({"mail": SECRET}),
            AliasedWhereWritten.model_validate({"mail": "[erased]"}),
        ),
        (Computed(name="Ada"), Computed(name="[erased]")),
        (Exact(email=SECRET, number=2**70), Exact(email="[erased]", number=2**70)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_marked_field_is_encrypted_however_its_type_is_written(value: Any, erased: Any, keys: SubjectKeys) -> None:
    name = type(value).__name__
    names = TypeNames("event", [type(value)], {}, keys)
    data = names.seal(name, value, "17")
    assert SECRET.encode() not in data
    assert names.decode(name, data) == value
    keys.erase("17")
    assert names.decode(name, data) == erased


@dataclass(frozen=True)
class InAField:
    who: Inner


@dataclass(frozen=True)
class InAList:
    emails: list[Annotated[str, Personal()]]


@dataclass(frozen=True)
class InADict:
    who: dict[str, list[Inner]] | None


class Array(msgspec.Struct, array_like=True):
    email: Annotated[str, Personal()]


@pytest.mark.parametrize("given", [InAField, InAList, InADict, Array])
def test_a_mark_that_would_be_overlooked_is_refused(given: type, keys: SubjectKeys) -> None:
    with pytest.raises(TopologyError, match=f"INVALID_PERSONAL_FIELD.* of {given.__name__} is personal"):
        TypeNames("event", [given], {}, keys)


def test_a_state_without_fields_that_has_a_mark_inside_is_refused(keys: SubjectKeys) -> None:
    with pytest.raises(TopologyError, match=r"INVALID_PERSONAL_FIELD.*Inner\.email in it is personal"):
        TypeNames("state", [dict[str, Inner]], {}, keys)


@dataclass(frozen=True)
class Register:
    email: Annotated[str, Personal()]
    age: int = 0


@dataclass(frozen=True)
class Registered:
    email: Annotated[str, Personal()]


class Model(pydantic.BaseModel):
    email: Annotated[str, Personal()]
    age: int


def decide(command: Register | Model, state: Registered | None) -> list[Registered]:
    return cast("list[Registered]", [command])  # of a wrong type


def evolve(state: Registered | None, event: Registered) -> Registered | None:
    return event


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("Register", '{"email":"SECRET","age":"x"}'),
        ("Register", '{"email":["SECRET"],"age":1}'),
        ("Model", '{"email":"SECRET","age":"x"}'),
        ("Model", '{"email":{"a":"SECRET"},"age":1}'),
        ("Register", '{"email":"SECRET","age":1}'),  # decide gives what is no event
    ],
)
def test_an_error_about_a_value_with_personal_fields_does_not_show_them(
    name: str, data: str, keys: SubjectKeys, caplog: pytest.LogCaptureFixture
) -> None:
    account = EventSourced("account", Decider[Any, Any, Any](None, decide, evolve), keys=keys)
    with TopologyTestDriver(account.topology()) as driver:
        commands = driver.create_input_topic("account-commands", Serdes.string(), Serdes.bytes())
        headers = to_headers({"id": "a", "type": name})
        commands.pipe_input("17", data.replace("SECRET", SECRET).encode(), headers=headers)
        replies = driver.create_output_topic("account-replies", Serdes.string(), Serdes.bytes())
        (value,) = replies.read_values_to_list()
    reply = decode_reply(value)
    assert reply.status in ("invalid", "failed") and reply.reason
    assert SECRET.encode() not in value and SECRET not in caplog.text


def test_an_error_about_such_a_value_says_where_it_is(keys: SubjectKeys) -> None:
    names = TypeNames("command", [Register, Model], {}, keys)
    with pytest.raises(SerializationError, match=r"Expected `int`, got `str` at `\$\.age`"):
        names.decode("Register", b'{"email":"x","age":"y"}')
    with pytest.raises(SerializationError, match="int_type at age"):
        names.decode("Model", b'{"email":"x","age":"y"}')


def test_addressees_of_reactions_are_told_where_their_keys_are() -> None:
    elsewhere = SubjectKeys("letters-keys")
    letters = CommandTarget("letters", [Register], keys=elsewhere)
    order = EventSourced("order", Decider[Any, Any, Any](None, decide, evolve), keys=SubjectKeys("order-keys"))

    @order.on(Registered)
    def write(event: Registered, own: Any) -> Any:
        return [letters.command(own.id, Register(event.email)), STOCK]

    assert [each.topic for each in order.keys_of_commands] == ["order-keys", "letters-keys"]
