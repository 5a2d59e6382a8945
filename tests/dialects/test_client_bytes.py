"""A planned request in the bytes of the client that it came from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.dialects.requests.client_bytes import spelled_as

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
BODIES = st.fixed_dictionaries(
    {"messages": st.lists(VALUES, max_size=4)}, optional={"a": VALUES, "b": VALUES}
)


def written(value: Any, *, indent: int | None = 1) -> bytes:
    return json.dumps(value, indent=indent).encode()


@given(planned=BODIES, came=BODIES)
def test_no_value_is_changed(planned: dict[str, Any], came: dict[str, Any]) -> None:
    spelled = spelled_as(written(planned, indent=None), written(came), "messages")
    assert json.dumps(json.loads(spelled), sort_keys=True) == json.dumps(planned, sort_keys=True)


def test_what_is_the_same_has_the_bytes_of_the_client_up_to_the_first_other_message() -> None:
    came = b'{"x": { "b" : 1, "a" : 2 }, "messages": [ {"t" : 1} , {"t" : 2}, {"t" : 3} ]}'
    planned = b'{"messages":[{"t":1},{"t":4},{"t":3}],"x":{"a":2,"b":1},"y":1}'
    spelled = spelled_as(planned, came, "messages")
    assert spelled == b'{"messages":[{"t" : 1},{"t":4},{"t":3}],"x":{ "b" : 1, "a" : 2 },"y":1}'


@pytest.mark.parametrize(
    ("one", "other"), [(b"1", b"1.0"), (b"1", b"true"), (b"0", b"null"), (b'"a"', b'"A"')]
)
def test_values_that_only_look_alike_stay_as_they_were_planned(one: bytes, other: bytes) -> None:
    spelled = spelled_as(b'{"messages":[%b]}' % one, b'{ "messages": [ %b ] }' % other, "messages")
    assert spelled == b'{"messages":[%b]}' % one


@pytest.mark.parametrize("came", [b"", b"no JSON", b'{"messages":"text"}', b'{"messages":[1', b"[]"])
def test_a_body_that_is_no_such_request_changes_nothing(came: bytes) -> None:
    assert spelled_as(b'{"messages":[{"a":1}]}', came, "messages") == b'{"messages":[{"a":1}]}'
