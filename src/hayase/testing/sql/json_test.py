"""Tests of ksql-test-runner: statements, records to put in and records to come out, in three files.

```json
{"inputs": [{"topic": "orders", "key": 1, "value": {"CENTS": 500}, "timestamp": 0}]}
{"outputs": [{"topic": "LARGE", "key": 1, "value": {"CENTS": 500}, "timestamp": 0}]}
```
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from hayase.core.errors import ConfigError
from hayase.core.objects import JsonObject
from hayase.sql.functions.registry import FunctionRegistry
from hayase.testing.sql.json_records import JsonRecords
from hayase.testing.sql.script import SqlScript


@dataclass(frozen=True, slots=True)
class JsonTest:
    """One test.

    Attributes:
        statements: the text of the `.sql` file.
        inputs: records that are written in this order; none: INSERT INTO … VALUES writes some.
        outputs: records that must be in their topics, topic by topic in this order.
    """

    statements: str
    inputs: Sequence[JsonObject]
    outputs: Sequence[JsonObject]


def read_json_test(statements: Path, inputs: Path | None, outputs: Path) -> JsonTest:
    """A test from its files.

    Raises:
        ConfigError: a file cannot be read, or is not of that form.
    """
    return JsonTest(
        _read(statements), [] if inputs is None else _records(inputs, "inputs"), _records(outputs, "outputs")
    )


def problem_of(
    test: JsonTest, settings: Mapping[str, object] | None = None, functions: FunctionRegistry | None = None
) -> str | None:
    """Why a test fails; `None` if it passes."""
    try:
        with SqlScript(settings, functions) as script:
            script.run(test.statements)
            for record in test.inputs:
                script.write(_codec(script, record["topic"]).encode(record))
            return _difference(script, test.outputs)
    except Exception as error:  # whatever ends the script is the answer
        return f"{type(error).__name__}: {error}"


def _difference(script: SqlScript, outputs: Sequence[JsonObject]) -> str | None:
    for topic in dict.fromkeys(record["topic"] for record in outputs):
        codec = _codec(script, topic)
        expected = [record for record in outputs if record["topic"] == topic]
        actual = [codec.decode(record) for record in script.records(topic)]
        for position, (found, wanted) in enumerate(zip(actual, expected, strict=False)):
            for part in ("key", "window", "value", "timestamp"):
                if part == "timestamp" and wanted.get(part) is None:
                    continue
                if not is_equal(found.get(part), wanted.get(part)):
                    return (
                        f"topic {topic}, record {position}: {part} {_shown(found.get(part))}, expected "
                        f"{_shown(wanted.get(part))}"
                    )
        if len(actual) != len(expected):
            more = "; the first one more: " + _shown(actual[len(expected)]) if len(actual) > len(expected) else ""
            return f"topic {topic}: {len(actual)} records, expected {len(expected)}{more}"
    return None


def is_equal(actual: Any, expected: Any) -> bool:
    """Whether a value is the expected one: names of fields in any case, fields that are not named null."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        wanted = {str(name).upper(): each for name, each in expected.items()}
        found = {str(name).upper(): each for name, each in actual.items()}
        return all(is_equal(found.get(name), wanted.get(name)) for name in {*wanted, *found})
    if isinstance(expected, list) and isinstance(actual, list):
        return len(actual) == len(expected) and all(map(is_equal, actual, expected))
    if isinstance(actual, bool) or isinstance(expected, bool):
        return actual is expected
    if isinstance(actual, float) and isinstance(expected, int | Decimal):
        return actual == float(expected)
    return bool(actual == expected)


def _shown(value: object) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _codec(script: SqlScript, topic: str) -> JsonRecords:
    found = [source for source in script.engine.catalog if source.topic == topic]
    if not found:
        known = ", ".join(sorted({source.topic for source in script.engine.catalog})) or "none"
        raise ConfigError("UNKNOWN_TOPIC", f"no stream or table is over the topic {topic!r}; there are {known}")
    return JsonRecords(found[-1], script.registry)


def _records(file: Path, name: str) -> list[JsonObject]:
    try:
        parsed = json.loads(_read(file), parse_float=Decimal)
        records = parsed[name]
        if all(isinstance(record["topic"], str) for record in records):
            return list(records)
    except (ValueError, KeyError, TypeError) as error:
        reason = f": {type(error).__name__}: {error}"
    else:
        reason = ""
    raise ConfigError(
        "INVALID_TEST_FILE",
        f'{file} is no file of ksql-test-runner{reason}; it holds {{"{name}": [{{"topic": …, "key": …, "value": …, '
        '"timestamp": …}, …]}',
    )


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("FILE_NOT_READABLE", f"cannot read {file}: {error}") from error
