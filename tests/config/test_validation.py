"""Settings are read by their types, and explained only where that fails: both must agree on what is wrong."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from segue.config.schema import Config
from segue.config.validation import NOT_BY_TYPE, config_faults

ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([0, -1, 5, 5.0, 0.5, 1e30, float("nan"), True, "", "ask", "high", date(2026, 1, 1)]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "model"]), inner),
    max_leaves=3,
)


def values(shape: inspect.Type) -> st.SearchStrategy[Any]:
    """Of this type, mostly; each part may be anything."""
    found: st.SearchStrategy[Any]
    match shape:
        case inspect.StructType(fields=fields):
            found = st.fixed_dictionaries({}, optional={field.name: values(field.type) for field in fields})
        case inspect.DictType(value_type=value_type):
            found = st.dictionaries(st.sampled_from(["a", "b"]), values(value_type), max_size=2)
        case inspect.ListType(item_type=item_type):
            found = st.lists(values(item_type), max_size=2)
        case inspect.UnionType(types=types):
            found = st.one_of([values(one) for one in types if not isinstance(one, inspect.NoneType)])
        case inspect.LiteralType(values=words):
            found = st.sampled_from(list(words))
        case inspect.StrType():
            found = st.sampled_from(["", "a"])
        case inspect.BoolType():
            found = st.booleans()
        case _:
            found = st.sampled_from([-1, 0, 0.5, 1, 2, 100, 70_000])
    return st.one_of(found, found, found, ANYTHING)


SETTINGS = inspect.type_info(Config)
assert isinstance(SETTINGS, inspect.StructType)
TABLES = st.one_of([st.fixed_dictionaries({field.name: values(field.type)}) for field in SETTINGS.fields])


@settings(max_examples=300)
@given(table=TABLES)
@example(table={"limits": {"timeout": float("nan")}})
def test_what_its_types_accept_has_no_fault_and_what_they_refuse_has_one(table: dict[str, Any]) -> None:
    try:
        msgspec.convert(table, Config)
    except msgspec.ValidationError:
        assert config_faults(table)
    else:
        assert not table.keys().isdisjoint(NOT_BY_TYPE) or config_faults(table) == []
