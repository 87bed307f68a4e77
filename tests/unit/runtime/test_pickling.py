"""Classes and functions of the application's own file survive the way to a worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from __future__ import annotations
import dataclasses, enum, sys, typing
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar
import msgspec, polars as pl, pydantic
from hayase import Serdes
from hayase.runtime.wire.pickling import pickled

class Kind(enum.Enum):
    A = "a"

@dataclass
class Item:
    name: str
    cents: int = 0

@dataclass
class Order:
    item: Item
    tags: list[str] = field(default_factory=list)
    parent: Order | None = None
    kind: Kind = Kind.A

def fresh() -> list[Line]:
    return [Line(item_name="fresh", kids=[])]

class Line(msgspec.Struct, frozen=True, tag="line", rename="camel", kw_only=True):
    item_name: str
    cents: int = 0
    kids: list[Line] = msgspec.field(default_factory=fresh)
    item: Item | None = None
    def __post_init__(self) -> None:
        if self.cents < 0:
            raise ValueError("negative")
    def twice(self) -> Line:
        return Line(item_name=self.item_name, cents=2 * self.cents, kids=[])

class Special(Line, frozen=True, array_like=False):
    amount: int = 5

class Loose(msgspec.Struct, dict=True, weakref=True, omit_defaults=True):
    name: str
    count: int = 0

T = TypeVar("T")

class Box(msgspec.Struct, Generic[T]):
    content: T

class Point(NamedTuple):
    x: int
    y: int = 2

class Model(pydantic.BaseModel):
    item: Item
    n: int
    @pydantic.field_validator("n")
    @classmethod
    def positive(cls, n: int) -> int:
        if n < 0:
            raise ValueError("negative")
        return n

CASES = {
    "dataclass": (Order, b'{"item":{"name":"x"},"parent":{"item":{"name":"y","cents":1}}}'),
    "struct": (Line, b'{"type":"line","itemName":"x","cents":3,"item":{"name":"q"}}'),
    "sub-struct": (Special, b'{"type":"line","itemName":"x","amount":3}'),
    "loose": (Loose, b'{"name":"x"}'),
    "generic": (Box[int], b'{"content":1}'),
    "tuple": (Point, b'[1]'),
    "model": (Model, b'{"item":{"name":"x"},"n":1}'),
}

def told(kind, text, serde):
    value = serde.deserialize(text)
    rest = [value, serde.serialize(value)]
    if dataclasses.is_dataclass(kind):
        required = [f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING]
        rest += [required, dataclasses.replace(value)]
    if hasattr(value, "twice"):
        rest += [value.twice(), kind.__doc__]
        try:
            msgspec.json.decode(b'{"type":"line","itemName":"x","cents":-1}', type=kind)
        except msgspec.ValidationError as error:
            rest.append(str(error))
    if isinstance(value, Loose):
        value.other = 1
        rest.append(value.__dict__)
    if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
        try:
            kind(item=Item("x"), n=-1)
        except pydantic.ValidationError as error:
            rest.append(error.error_count())
    return repr(rest)

rate = 3
if __name__ == "__main__":
    if sys.argv[1] == "map_elements":
        # Polars looks at the text of functions and gives advice
        expression = pl.col("a").map_elements(lambda a: a * rate + Loose("x").count, return_dtype=pl.Int64)
        print(pl.DataFrame({"a": [1]}).select(expression)["a"].to_list(), file=sys.stderr)
        what = (lambda: print(pl.DataFrame({"a": [1]}).select(expression)["a"].to_list()),)
    else:
        kind, text = CASES[sys.argv[1]]
        serde = Serdes.json(kind)
        print(told(kind, text, serde), file=sys.stderr)
        what = (lambda: print(told(kind, text, serde)),)
    sys.stdout.buffer.write(pickled(what))
"""
WORKER = "import sys; from hayase.runtime.wire.pickling import unpickled; unpickled(sys.stdin.buffer.read())[0]()"


def run(arguments: list[str], given: bytes, folder: Path) -> tuple[bytes, str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        input=given,
        cwd=folder,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout, done.stderr.decode()


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", ["dataclass", "struct", "sub-struct", "loose", "generic", "tuple", "model", "map_elements"]
)
def test_a_class_of_the_programs_own_file_reads_and_writes_in_a_worker_what_it_does_in_the_program(
    kind: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)
    (tmp_path / "elsewhere").mkdir()
    pickle, said = run([str(tmp_path / "shop.py"), kind], b"", tmp_path)
    assert run(["-c", WORKER], pickle, tmp_path / "elsewhere")[0].decode() == said


@pytest.mark.long
def test_a_worker_imports_modules_that_stand_beside_the_program(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/prices.py").write_text("def price(item):\n    return len(item)\n")
    (tmp_path / "shop/app.py").write_text(
        "import sys\nfrom hayase.runtime.wire.pickling import pickled\nfrom prices import price\n"
        "sys.stdout.buffer.write(pickled((lambda: print(price('book')),)))\n"
    )
    pickle, _ = run(["shop/app.py"], b"", tmp_path)
    assert run(["-c", WORKER], pickle, Path("/"))[0] == b"4\n"
