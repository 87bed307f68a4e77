"""Cases of ksqlDB's behaviour, read from a folder beside the repository; nothing of them is kept here."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "HAYASE_KSQLDB_CASES"


@dataclass(frozen=True)
class Record:
    """A record of a case; `timestamp_ms` is `None` where any is right."""

    topic: str
    key: Any
    value: Any
    timestamp_ms: int | None
    window: Mapping[str, Any] | None = None
    headers: tuple[tuple[str, str | None], ...] = ()

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Record:
        headers = tuple((each["key"], each["value"]) for each in data.get("headers") or ())
        return cls(data["topic"], data["key"], data["value"], data["timestamp"], data.get("window"), headers)


@dataclass(frozen=True)
class ExpectedError:
    """The exception that a case must end with; `None` where it is not checked."""

    type: str | None
    message: str | None
    cause: str | None = None
    cause_message: str | None = None


@dataclass(frozen=True)
class Case:
    """One case."""

    id: str
    file: str
    statements: Sequence[str]
    tier: int
    kind: str
    format: str | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    topics: Sequence[Mapping[str, Any]] = ()
    inputs: Sequence[Record] = ()
    outputs: Sequence[Record] = ()
    error: ExpectedError | None = None
    post: Mapping[str, Any] = field(default_factory=dict)
    schemas: Sequence[Mapping[str, Any]] | None = None
    responses: Sequence[Mapping[str, Any]] = ()
    waits_for_push_query: bool = False
    verifies_order: bool = False
    status: int | None = None

    @property
    def has_queries(self) -> bool:
        """Whether answers of queries are compared, for which a server is needed."""
        return self.kind == "rest" and self.file != "insert-values"


class CaseFolder:
    """A folder of cases: `query/*.json`, `sql/*.json`, and what is said about them beside."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def found(cls) -> CaseFolder | None:
        """The folder that the environment names, else the one beside the repository; `None` where there is none."""
        named = os.environ.get(VARIABLE)
        candidates = [Path(named)] if named else [parent / "shared" / "ksqldb-cases" for parent in ROOT.parents]
        return next((cls(path) for path in candidates if path.is_dir()), None)

    def cases(self, kinds: Sequence[str] = ("query", "sql"), file_name: str = "*") -> Iterator[Case]:
        """All cases of these kinds, file by file."""
        for kind in kinds:
            for file in files_of(self.path / kind, file_name):
                for data in _load(file):
                    yield self._case(kind, data)

    def _case(self, kind: str, data: Mapping[str, Any]) -> Case:
        expected = data.get("expected_exception")
        refused = data.get("expected_error")  # of a server, whose classes are those of its answers
        if refused is not None:
            expected = {"type": None, "message": refused.get("message")}
        status = None if refused is None else refused.get("status")
        return Case(
            id=data["id"],
            file=data["file"].removesuffix(".json"),
            statements=data["statements"],
            tier=self._tiers.get(kind, {}).get(data["id"], 4),
            kind=kind,
            format=data.get("format"),
            properties=data.get("properties") or {},
            topics=data.get("topics") or (),
            inputs=[Record.read(each) for each in data.get("inputs", ())],
            outputs=[Record.read(each) for each in data.get("outputs", ())],
            error=None if expected is None else ExpectedError(**expected),
            post=data.get("post") or {},
            schemas=self._schemas.get(data["id"]),
            responses=data.get("responses") or (),
            waits_for_push_query=bool((data.get("input_conditions") or {}).get("waitForActivePushQuery")),
            status=status,
            verifies_order=bool((data.get("output_conditions") or {}).get("verifyOrder")),
        )

    @cached_property
    def _tiers(self) -> Mapping[str, Mapping[str, int]]:
        return _load_beside(self.path, "tiers.json")

    @cached_property
    def _schemas(self) -> Mapping[str, Any]:
        return _load_beside(self.path, "schemas.json")


def files_of(folder: Path, name: str = "*") -> list[Path]:
    """The files of a kind."""
    return sorted(folder.glob(f"{name}.json"))


def _load(path: Path) -> Any:
    with path.open(encoding="utf-8") as file:
        return json.load(file, parse_float=Decimal)


def _load_beside(path: Path, name: str) -> Any:
    file = path / name
    return _load(file) if file.exists() else {}
