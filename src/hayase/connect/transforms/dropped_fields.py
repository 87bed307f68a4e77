"""Fields that a header of the record names and `ExtractNewRecordState` leaves out."""

from __future__ import annotations

from collections.abc import Collection

from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectRecord
from hayase.connect.schema import ConnectSchema
from hayase.connect.transforms.replace_field import ReplaceField, ReplaceFieldKey, ReplaceFieldValue

_TRANSFORMS_MAX = 256


class DroppedFields:
    """Leaves out of a record what its header names.

    Args:
        header: name of the header; `None` or blank: nothing is left out.
        from_key: whether out of the key as well.
        only_optional: whether only fields that are optional are left out, so that readers of the old schema can read
            the new one.
    """

    def __init__(self, header: str | None, *, from_key: bool, only_optional: bool) -> None:
        self._header = (header or "").strip()
        self._from_key = from_key
        self._only_optional = only_optional
        self._transforms: dict[tuple[type[ReplaceField], tuple[str, ...]], ReplaceField] = {}

    def apply(self, record: ConnectRecord, kept: Collection[str] = ()) -> ConnectRecord:
        """The record without these fields; it itself if there are none.

        Args:
            record: with the header.
            kept: fields of the value that stay in any case.
        """
        names = self._names(record) if self._header else []
        if not names:
            return record
        if self._from_key and record.key is not None:
            record = self._without(record, ReplaceFieldKey, record.key_schema, names)
        return self._without(
            record, ReplaceFieldValue, record.value_schema, [each for each in names if each not in kept]
        )

    def _names(self, record: ConnectRecord) -> list[str]:
        """What the first header of that name has.

        Raises:
            DataError: `INVALID_VALUE`: it is no list of texts.
        """
        value = next((each.value for each in record.headers if each.key == self._header), None)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise DataError(
                "INVALID_VALUE",
                f"drop.fields.header.name names the header {self._header!r}, which holds {value!r}; give it a list of "
                "names of fields",
                topic=record.topic,
            )
        return value

    def _without(
        self, record: ConnectRecord, transform: type[ReplaceField], schema: ConnectSchema | None, names: list[str]
    ) -> ConnectRecord:
        if self._only_optional:
            fields = () if schema is None else schema.fields
            names = [each.name for each in fields if each.schema.optional and each.name in names]
        if not names:
            return record
        key = transform, tuple(names)
        made = self._transforms.get(key)
        if made is None:
            if len(self._transforms) >= _TRANSFORMS_MAX:
                self._transforms.clear()
            made = self._transforms[key] = transform()
            made.configure({"exclude": list(names)})
        changed = made.apply(record)
        return record if changed is None else changed
