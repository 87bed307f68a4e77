"""Cases of ksqlDB's server: statements, records, then queries, whose answers are compared."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

from tests.ksqldb.cases import Case
from tests.ksqldb.driver import Codecs, Cut, failure_of
from tests.ksqldb.errors import unexpected
from tests.ksqldb.rest_session import RefusedError, RestSession, read_rows
from tests.ksqldb.topics import prepare_topics

from hayase.core.errors import HayaseError
from hayase.sql.grammar.parser import parse_script
from hayase.testing.topics import RawRecord

_QUIET_S = 0.5
_PULL_S = 30.0
"""A pull query ends by itself, but its first row may wait for a process that starts."""
"""A query that has given nothing for so long, with all input there, gives nothing more."""
_STARTS_WITH = "|starts_with"


def failure_of_any(case: Case, form: str = "rows", cut: Cut = "each", forms: Counter[str] | None = None) -> str | None:
    """Why a case fails, by a server if it has pull or push queries; `None` if it passes. As `failure_of`."""
    return rest_failure_of(case) if case.has_queries else failure_of(case, form, cut, forms)


def rest_failure_of(case: Case) -> str | None:
    """Why a case of pull or push queries fails; `None` if it passes."""
    with tempfile.TemporaryDirectory() as folder:
        session = RestSession(folder, case.properties)
        try:
            answers = asyncio.run(_answers(case, session))
        except HayaseError as error:
            return _wrong_error(case, error)
        finally:
            session.close()
    if case.error is not None:
        return f"no error; expected {case.error.message}"
    return _difference(case, answers)


def _wrong_error(case: Case, error: HayaseError) -> str | None:
    """What is wrong with an error; `None` if it is the expected one."""
    if case.error is None:
        return f"{type(error).__name__}: {error.message}"
    if case.status is not None and getattr(error, "status", case.status) != case.status:
        return f"status {getattr(error, 'status', None)}, expected {case.status}"
    return unexpected(error, case.error)


async def _answers(case: Case, session: RestSession) -> list[list[dict[str, Any]]]:
    """The StreamedRows of each query."""
    plain = [text for text in case.statements if not _is_query(text)]
    prepare_topics(case, parse_script("\n".join(plain)), session)  # type: ignore[arg-type]  # as far as it is used
    await session.execute("\n".join(plain))
    queries = [text for text in case.statements if _is_query(text)]
    codecs = Codecs(session)  # type: ignore[arg-type]  # as far as it is used
    records = [codecs.encode(record) for record in case.inputs]
    if case.waits_for_push_query:
        return [await _rows(session, queries[0], records)]
    session.produce(records)
    await session.settle()
    return [await _rows(session, text, ()) for text in queries]


def _is_query(text: str) -> bool:
    return text.lstrip().upper().startswith("SELECT ")


async def _rows(session: RestSession, text: str, records: Collection[RawRecord]) -> list[dict[str, Any]]:
    """The rows of a query; records are written once it runs."""
    async with session.query(text) as answer:
        if answer.status != 200:
            raise RefusedError(answer.status, await answer.json())
        session.produce(records)
        rows = await read_rows(answer, _QUIET_S if "EMIT" in text.upper() else _PULL_S)
    for row in rows:
        if "errorMessage" in row:
            raise RefusedError(200, row["errorMessage"])
    return rows


def _difference(case: Case, answers: Sequence[list[dict[str, Any]]]) -> str | None:
    expected = [response["query"] for response in case.responses if "query" in response]
    if len(expected) > len(answers):
        return f"{len(answers)} answers, expected {len(expected)}"
    for place, (wanted, given) in enumerate(zip(expected, answers, strict=False)):
        problem = _wrong_answer(wanted, given, case.verifies_order)
        if problem is not None:
            return f"answer {place}: {problem}"
    return None


def _wrong_answer(wanted: Sequence[Mapping[str, Any]], given: list[dict[str, Any]], in_order: bool) -> str | None:
    if len(wanted) != len(given):
        return f"{len(given)} rows, expected {len(wanted)}: {given} instead of {wanted}"
    columns = [_columns(rows) for rows in (wanted, given)]
    same = columns[0] == columns[1] if in_order else Counter(columns[0]) == Counter(columns[1])
    if not same:
        return f"rows {columns[1]}, expected {columns[0]}"
    for expected, actual in zip(wanted, given, strict=True):
        if not _contains(actual, {key: value for key, value in expected.items() if key != "row"}):
            return f"{actual}, expected {expected}"
        flags = {key: value for key, value in expected.get("row", {}).items() if key != "columns"}
        if "row" in expected and not _contains(actual.get("row"), flags):
            return f"{actual}, expected {expected}"
    return None


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [json.dumps(row["row"]["columns"], default=_exact) for row in rows if "row" in row]


def _exact(value: Decimal) -> dict[str, str]:
    return {"number": str(value)}


def _contains(actual: Any, expected: Any) -> bool:
    """Whether what is expected is there; other keys may be, too."""
    if isinstance(expected, Mapping):
        return isinstance(actual, Mapping) and all(
            str(actual.get(key.removesuffix(_STARTS_WITH))).startswith(value)
            if key.endswith(_STARTS_WITH)
            else _contains(actual.get(key), value)
            for key, value in expected.items()
        )
    return bool(actual == expected)
