"""A request that is taken apart with what is known of the one before it has the same parts as one of which nothing is known."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from segue.gateway.prompt_caches.facts import all_facts
from segue.gateway.prompt_caches.prompts import GROUPS, MARK_FIELDS, ToolParts, taken_apart

MARK: Final = {MARK_FIELDS[0]: {"type": "ephemeral"}}
LONG_TOOL: Final = {"name": "read", "description": "Reads a file. " * 100, "input_schema": {"type": "object"}}
LIKE_IT: Final = {**LONG_TOOL, "name": "seek"}
NESTED: Final = {"role": "assistant", "content": [{"type": "tool_use", "input": {"tools": [LONG_TOOL]}}]}
BLOCKS: Final = st.builds(
    lambda text, mark, more: {"type": "text", "text": text, **mark, **more},
    st.text("ab", max_size=3),
    st.sampled_from([{}, MARK, {MARK_FIELDS[0]: None}]),
    st.sampled_from([{}, {"signature": "x"}, {"data": "d" * 600}, {"content": [MARK, {"cachePoint": {}}]}]),
)
MESSAGES: Final = st.one_of(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["system", "developer", "user", "assistant"]),
        st.one_of(
            st.text("ab", max_size=3), st.lists(st.one_of(BLOCKS, st.just({"cachePoint": {}})), max_size=3)
        ),
    ),
    st.sampled_from(["a text", 1, None, []]),
)
VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "tools": st.lists(
        st.sampled_from([{"name": "a"}, {"name": "b", **MARK}, LONG_TOOL, LIKE_IT]), max_size=3
    ),
    "system": st.one_of(st.text("ab", max_size=3), st.lists(BLOCKS, max_size=2)),
    "history": st.one_of(st.lists(MESSAGES, max_size=5), MESSAGES),
    "options": st.sampled_from(["auto", {"type": "any"}, 1, None]),
}
NAMES: Final = [*GROUPS, "tool_choice", "thinking", "cache_control", "stream"]
BODIES: Final = st.dictionaries(st.sampled_from(NAMES), st.none(), max_size=5).flatmap(
    lambda names: st.fixed_dictionaries({name: VALUES[GROUPS.get(name, "options")] for name in names})
)


@st.composite
def requests_in_a_row(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Each mostly has the messages of the one before it, one of which may have changed, and more."""
    field = draw(st.sampled_from([name for name in NAMES if GROUPS.get(name) == "history"]))
    made = [{**draw(BODIES), field: draw(st.lists(MESSAGES, min_size=1, max_size=4))}]
    for _ in range(draw(st.integers(1, 3))):
        messages = [*made[-1][field]]
        if draw(st.booleans()):
            messages[draw(st.integers(0, len(messages) - 1))] = draw(MESSAGES)
        other = draw(st.one_of(st.just({}), BODIES))
        made.append({**made[-1], **other, field: [*messages, *draw(st.lists(MESSAGES, max_size=2))]})
    return made


@given(requests_in_a_row(), st.sampled_from(all_facts()))
@example(
    [{"tools": [LONG_TOOL]}, {"toolConfig": {"tools": [LONG_TOOL]}, "tools": [LONG_TOOL, MARK]}],
    all_facts()[0],
)
@example(
    [{"tools": [LONG_TOOL]}, {"messages": [NESTED], "tools": [LONG_TOOL]}, {"messages": [NESTED]}],
    all_facts()[0],
)
@example(
    [
        {"tools": [LONG_TOOL]},
        {'x"tools': [LONG_TOOL], "functions": [LONG_TOOL]},
        {"tools": [LONG_TOOL], "input": 1},
    ],
    all_facts()[0],
)
@example(
    [{"input": [{"role": "system"}]}, {"input": [{"role": "system"}, {"role": "system"}]}], all_facts()[0]
)
@example([{"tools": [LONG_TOOL]}, {"tools": [LIKE_IT]}, {"tools": [LONG_TOOL]}], all_facts()[0])
def test_what_is_known_of_the_request_before_changes_no_part(
    bodies: list[dict[str, Any]], facts: Any
) -> None:
    tools, before = ToolParts(1 << 20), None
    for fields in bodies:
        body = msgspec.json.encode(fields)
        before = taken_apart(body, facts, tools, before)
        assert before.parts == taken_apart(body, facts).parts


def test_tools_are_taken_apart_once() -> None:
    tools, facts = ToolParts(1 << 20), all_facts()[0]
    body = msgspec.json.encode({"tools": [LONG_TOOL], "messages": []})
    first, again = (taken_apart(bytes(bytearray(body)), facts, tools) for _ in range(2))
    assert first.parts[0] is again.parts[0]
    assert 0 < tools.held < 4 * len(body)


def test_tools_are_known_by_the_field_that_holds_them() -> None:
    tools, facts = ToolParts(1 << 20), all_facts()[0]
    given = {"messages": [NESTED], "tools": [LONG_TOOL]}
    parts = taken_apart(msgspec.json.encode(given), facts, tools).parts
    outer, known = tools.fields_of(msgspec.json.encode({"tools": [LONG_TOOL], "stream": True}))
    assert known == tuple(parts[:1]) and [*outer] == ["tools", "stream"]
    for other in (given, {"functions": [LONG_TOOL]}, {"x": {"tools": [LONG_TOOL]}}):
        body = msgspec.json.encode(other)
        assert tools.fields_of(body) == (msgspec.json.decode(body, type=dict[str, msgspec.Raw]), None)
