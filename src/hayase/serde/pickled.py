"""Any Python value as a pickle: for those who say so."""

from __future__ import annotations

import pickle
from typing import Any

from hayase.core.errors import SerializationError
from hayase.serde.bare import READ_ERRORS, refuse_bytes
from hayase.serde.protocol import Serde


class PickleSerde(Serde):
    """Any Python value that can be pickled.

    Reading a pickle runs what it says: any client that can write to the topic can run code in every process that reads
    it. Hayase itself never writes or reads pickles in topics; this serde is for topics that only your own programs can
    write to. It has no column form.

    Example:
        >>> PickleSerde().deserialize(PickleSerde().serialize({1, 2}))
        {1, 2}
    """

    def to_bytes(self, value: object) -> bytes:
        """Raises SerializationError for a value that cannot be pickled."""
        try:
            return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        except READ_ERRORS as error:
            raise SerializationError(
                "NOT_PICKLABLE",
                f"a value of type {type(value).__name__} cannot be pickled: {error}; give another serde",
            ) from error

    def from_bytes(self, data: bytes) -> Any:
        """Raises SerializationError. Runs what the pickle says."""
        try:
            return pickle.loads(data)
        except READ_ERRORS as error:
            raise refuse_bytes(self, data, f"pickles of classes that can be imported here ({error})") from error
