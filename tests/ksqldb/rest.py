"""Cases of ksqlDB's server: statements, records, then queries, whose answers are compared."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from tests.ksqldb.cases import Case
from tests.ksqldb.driver import Codecs
from tests.ksqldb.errors import unexpected
from tests.ksqldb.rest_session import RestSession
from tests.ksqldb.topics import prepare_topics

from hayase.core.errors import HayaseError
from hayase.server.http.encodings.encodings import StreamedRows
from hayase.server.rows import RowStream
from hayase.sql.grammar.parser import parse_script

_QUIET_S = 0.5
"""A query that has given nothing for so long, with all input there, gives nothing more."""
_STARTS_WITH = "|starts_with"


class _QueryFailedError(Exception):
    """An answer that ended in an error."""


def rest_failure_of(case: Case) -> str | None:
    """Why a case of pull or push queries fails; `None` if it passes."""
    with tempfile.TemporaryDirectory() as folder:
        session = RestSession(folder, case.properties)
        try:
            answers = asyncio.run(_answers(case, session))
        except (HayaseError, _QueryFailedError) as error:
            if case.error is None:
                return f"{type(error).__name__}: {error}"
            return unexpected(error, case.error)
        finally:
            session.close()
    if case.error is not None:
        return f"no error; expected {case.error.message}"
    return _difference(case, answers)


async def _answers(case: Case, session: RestSession) -> list[list[dict[str, Any]]]:
    """The StreamedRows of each query, the expected ones of a query asked for again in Protobuf as well."""
    plain = [text for text in case.statements if not _is_query(text)]
    prepare_topics(case, parse_script("\n".join(plain)), session)  # type: ignore[arg-type]  # as far as it is used
    for text in plain:
        for parsed in parse_script(text):
            session.execute(parsed)
    queries = [parsed for text in case.statements if _is_query(text) for parsed in parse_script(text)]
    codecs = Codecs(session)  # type: ignore[arg-type]  # as far as it is used
    records = [codecs.encode(record) for record in case.inputs]
    if case.waits_for_push_query:
        stream = await session.query(queries[0])
        session.produce(records)
        return [await _rows(stream)]
    session.produce(records)
    await session.settle()
    return [await _rows(await session.query(parsed)) for parsed in queries]


def _is_query(text: str) -> bool:
    return text.lstrip().upper().startswith("SELECT ")


async def _rows(stream: RowStream) -> list[dict[str, Any]]:
    encoding = StreamedRows(stream.header, lambda error: {"message": error.message})
    text = [encoding.head()]
    batches = aiter(stream)
    try:
        while True:
            try:
                batch = await asyncio.wait_for(anext(batches), _QUIET_S)
            except (StopAsyncIteration, TimeoutError):
                break
            if batch.error is not None:
                raise _QueryFailedError(batch.error.message)
            text.append(encoding.batch(batch))
    finally:
        await stream.close()
    rows: list[dict[str, Any]] = json.loads(b"".join([*text, encoding.tail()]), parse_float=Decimal)
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
