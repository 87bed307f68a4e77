"""Python source under construction: lines, names of temporaries, and the objects that the code refers to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Value:
    """Where generated code has a value: a name or a constant, and whether it can be null."""

    name: str
    nullable: bool = True


NULL = Value("None")


@dataclass(slots=True)
class Block:
    """Lines that may be put under a `try`; `fallible` says that they can raise."""

    lines: list[tuple[int, str]] = field(default_factory=list)
    fallible: bool = False


class Code:
    """One module of generated functions.

    Names: `b…` are objects bound by reference, `v…` temporaries, `f…` functions. Nothing of a statement's text is in
    the code.
    """

    def __init__(self) -> None:
        self.bindings: list[Any] = []
        self._positions: dict[int, int] = {}
        self.depth = 0
        self._functions: list[list[tuple[int, str]]] = []
        self._block = Block()
        self._names = 0

    def bind(self, value: Any) -> str:
        """The name of an object that the code refers to."""
        position = self._positions.get(id(value))  # bindings keeps the object, so its id stays its own
        if position is None:
            position = self._positions[id(value)] = len(self.bindings)
            self.bindings.append(value)
        return f"b{position}"

    def name(self, prefix: str = "v") -> str:
        """A name that is used nowhere else."""
        self._names += 1
        return f"{prefix}{self._names}"

    def line(self, text: str) -> None:
        """Adds a line at the present depth."""
        self._block.lines.append((self.depth, text))

    def assign(self, expression: str, *, nullable: bool = True) -> Value:
        """A temporary with the value of a Python expression."""
        name = self.name()
        self.line(f"{name} = {expression}")
        return Value(name, nullable)

    def fallible(self) -> None:
        """Notes that a line of the present block can raise."""
        self._block.fallible = True

    @contextmanager
    def indented(self, head: str) -> Iterator[None]:
        """A block below a line that ends with a colon; it must not stay empty."""
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def captured(self) -> Iterator[Block]:
        """Lines one level deeper, apart from the others, until `append` adds them."""
        outer, self._block = self._block, Block()
        self.depth += 1
        yield self._block
        self.depth -= 1
        self._block = outer

    def append(self, block: Block, *, shift: int = 0) -> None:
        """Adds captured lines, moved by some levels."""
        self._block.lines.extend((depth + shift, text) for depth, text in block.lines)
        self._block.fallible = self._block.fallible or block.fallible

    @contextmanager
    def function(self, parameters: str) -> Iterator[str]:
        """A function of its own at the top of the module, whatever is being written meanwhile."""
        outer, depth = self._block, self.depth
        self._block, self.depth = Block(), 0
        name = self.name("f")
        with self.indented(f"def {name}({parameters}):"):
            yield name
        self._functions.append(self._block.lines)
        self._block, self.depth = outer, depth

    @property
    def source(self) -> str:
        """The text of all functions."""
        return "\n".join("    " * depth + text for function in self._functions for depth, text in function) + "\n"
