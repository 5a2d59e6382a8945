"""A small sample of `make fuzz`, the same each time."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.mutations import JUNK, changed, places, written
from fuzz.seeds import RICH
from fuzz.targets import TARGETS, try_once
from segue.dialects.registry import recognise
from segue.errors import SegueError
from segue.interop.convert import convert


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.data())
def test_whatever_is_read_raises_documented_errors_only(target: str, data: st.DataObject) -> None:
    try_once(target, data)


@pytest.mark.parametrize("dialect", RICH)
def test_a_wrong_value_anywhere_in_a_request_raises_documented_errors_only(dialect: str) -> None:
    """Every place once, with ever another value."""
    request = RICH[dialect]
    for number, place in enumerate(places(request)):
        wrong: list[Any] = [JUNK[number % len(JUNK)], JUNK[(7 * number + 3) % len(JUNK)], {"type": {}}]
        for junk in wrong:
            body = changed(request, place, junk, "replace")
            with suppress(SegueError):
                convert(written(body), to="gemini" if dialect == "anthropic" else "anthropic", source=dialect)
            if isinstance(body, dict):
                recognise(body)
