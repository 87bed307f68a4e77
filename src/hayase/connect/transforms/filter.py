"""`Filter`: drops every record; made for predicates."""

from __future__ import annotations

from hayase.connect.model import ConnectRecord
from hayase.connect.transforms.base import ConfiguredTransform


class Filter(ConfiguredTransform):
    """Drops every record that it is applied to: a predicate says which these are."""

    def apply(self, record: ConnectRecord) -> None:
        """Nothing."""
        return
