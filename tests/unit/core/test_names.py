from __future__ import annotations

import pytest

from hayase.core.errors import TopologyError
from hayase.core.names import NameCounter, check_name


def test_a_given_name_counts_as_well():
    names = NameCounter()
    assert names.name_or_next("mine", "KSTREAM-FILTER-") == "mine"
    assert names.name_or_next(None, "KSTREAM-FILTER-") == "KSTREAM-FILTER-0000000001"


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "é", "a/b", "x" * 250])
def test_a_name_that_cannot_be_a_topic_is_refused(name):
    with pytest.raises(TopologyError) as caught:
        check_name(name)
    assert caught.value.condition == "INVALID_NAME"


def test_all_legal_characters_are_accepted():
    assert check_name("aZ0._-") == "aZ0._-"
