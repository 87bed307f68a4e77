"""The rule that a query has each column of its key in SELECT once, and the texts that say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hayase.sql.errors import StatementError
from hayase.sql.types.sql_types import quoted_name


@dataclass(frozen=True)
class KeyColumn:
    """A column of the key of the rows before the projection.

    Attributes:
        columns: the columns that it can be selected as; the first one selected counts.
        texts: the same as messages show them.
        name: as the message about a key that is selected twice shows it.
    """

    columns: tuple[str, ...]
    texts: tuple[str, ...]
    name: str


@dataclass(frozen=True)
class KeyRule:
    """The rule for one kind of query.

    Attributes:
        what: what the key is made of, for messages: key column, grouping expression, partitioning expression, join
            expression.
        keys: the columns of the key.
        sink: name of the result.
        synthetic: the key is no column of a source, and has that name.
        foreign_source: the key is that of the left table of a foreign-key join, which is called so.
    """

    what: str
    keys: Sequence[KeyColumn]
    sink: str
    synthetic: bool = False
    foreign_source: str | None = None

    def find(self, items: Sequence[tuple[str, str | None]]) -> list[int]:
        """The items that are the key, in the order of the key.

        Args:
            items: name of each item, and the column that it is, if it is one.

        Raises:
            StatementError: a column of the key is missing, or there more than once.
        """
        places_of: dict[str | None, list[int]] = {}
        for index, (_, selected) in enumerate(items):
            places_of.setdefault(selected, []).append(index)
        found: list[int] = []
        missing: list[KeyColumn] = []
        for key in self.keys:
            places = next((places_of[column] for column in key.columns if column in places_of), [])
            if not places:
                missing.append(key)
            elif len(places) > 1:
                raise self._twice(key, [items[place][0] for place in places])
            else:
                found.append(places[0])
        if missing:
            raise self._missing(missing)
        return found

    def _twice(self, key: KeyColumn, names: Sequence[str]) -> StatementError:
        if self.what == "grouping expression":
            text = _listed([quoted_name(name) for name in names], "and")
            return StatementError("KEY_TWICE", f"The projection contains a key column more than once: {text}.")
        return StatementError(
            "KEY_TWICE",
            f"The projection contains a key column ({quoted_name(key.name)}) more than once, aliased as: "
            f"{_listed(sorted(names), 'and')}.",
        )

    def _missing(self, missing: Sequence[KeyColumn]) -> StatementError:
        if self.foreign_source is not None:
            names = ", ".join(quoted_name(key.texts[0].rpartition(".")[2]) for key in missing)
            columns = "column" if len(missing) == 1 else "columns"
            return StatementError(
                "KEY_MISSING",
                "Primary key column missing in projection. For foreign-key table-table joins, the projection must "
                f"include all primary key columns from the left input table ({quoted_name(self.foreign_source)}). "
                f"Missing {columns}: {names}.",
            )
        alternatives = len(self.keys) == 1 and len(self.keys[0].texts) > 1
        listed = missing if self.what == "grouping expression" else self.keys
        texts = list(self.keys[0].texts) if alternatives else [key.texts[0] for key in listed]
        plural = "s" if len(texts) > 1 else ""
        example = texts[0] if alternatives else ", ".join(texts)
        message = (
            "Key missing from projection (ie, SELECT). See https://cnfl.io/2LV7ouS.\n"
            f"The query used to build {quoted_name(self.sink)} must include the {self.what}{plural} "
            f"{_listed(texts, 'or' if alternatives else 'and')} in its projection (eg, SELECT {example}...)."
        )
        if self.synthetic:
            message += (
                f"\n{texts[0]} was added as a synthetic key column because the join criteria did not match any source "
                "column. This expression must be included in the projection and may be aliased."
            )
        return StatementError("KEY_MISSING", message)


def _listed(texts: Sequence[str], word: str) -> str:
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + f" {word} " + texts[-1]
