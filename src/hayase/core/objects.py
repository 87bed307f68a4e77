"""Objects whose fields are known only when the program runs."""

from __future__ import annotations

from typing import Any

FieldValues = dict[str, Any]
"""A value made of fields, by their names."""

JsonObject = dict[str, Any]
"""What JSON has as an object."""
