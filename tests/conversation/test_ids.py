"""Canonical ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.ids import is_minted, mint, next_ordinal


@pytest.mark.requirement("REQ-915-014")
@given(st.integers(0, 10**17))
def test_a_minted_id_is_known_as_one(ordinal: int) -> None:
    assert is_minted(mint(ordinal))
    assert next_ordinal(0, mint(ordinal)) == ordinal + 1


@pytest.mark.parametrize("foreign", ["", "c", "c01", "C1", "c1 ", "call_1", "c-1", "c" + "9" * 40, "c١"])
def test_anything_else_is_not(foreign: str) -> None:
    assert not is_minted(foreign)
    assert next_ordinal(4, foreign) == 5


def test_what_is_minted_next_never_goes_back() -> None:
    assert next_ordinal(9, "c2") == 10
