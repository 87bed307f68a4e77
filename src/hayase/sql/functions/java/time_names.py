"""English names of what dates consist of, as Java has them."""

from __future__ import annotations

from hayase.sql.functions.java.time_patterns import Field, Style

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")

NAMES: dict[tuple[Field, Style], dict[int, str]] = {
    (Field.MONTH, Style.FULL): dict(enumerate(_MONTHS, 1)),
    (Field.MONTH, Style.SHORT): {number: name[:3] for number, name in enumerate(_MONTHS, 1)},
    (Field.MONTH, Style.NARROW): {number: name[0] for number, name in enumerate(_MONTHS, 1)},
    (Field.DAY_OF_WEEK, Style.FULL): dict(enumerate(_DAYS, 1)),
    (Field.DAY_OF_WEEK, Style.SHORT): {number: name[:3] for number, name in enumerate(_DAYS, 1)},
    (Field.DAY_OF_WEEK, Style.NARROW): {number: name[0] for number, name in enumerate(_DAYS, 1)},
    (Field.QUARTER, Style.FULL): dict(enumerate(_QUARTERS, 1)),
    (Field.QUARTER, Style.SHORT): {number: f"Q{number}" for number in range(1, 5)},
    (Field.QUARTER, Style.NARROW): {number: str(number) for number in range(1, 5)},
    (Field.AMPM, Style.SHORT): {0: "AM", 1: "PM"},
    (Field.ERA, Style.SHORT): {0: "BC", 1: "AD"},
    (Field.ERA, Style.FULL): {0: "Before Christ", 1: "Anno Domini"},
    (Field.ERA, Style.NARROW): {0: "B", 1: "A"},
}
