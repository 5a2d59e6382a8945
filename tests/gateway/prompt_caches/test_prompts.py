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
    "tools": st.lists(st.sampled_from([{"name": "a"}, {"name": "b", **MARK}, LONG_TOOL]), max_size=3),
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
    """Each with some of the messages of the one before it, mostly all, and more."""
    made = [draw(BODIES)]
    for _ in range(draw(st.integers(1, 3))):
        body = {**made[-1], **draw(st.one_of(st.just({}), BODIES))}
        for name, value in made[-1].items():
            if GROUPS.get(name) == "history" and isinstance(value, list):
                kept = draw(st.sampled_from([len(value), len(value), max(len(value) - 1, 0)]))
                body[name] = [*value[:kept], *draw(st.lists(MESSAGES, max_size=3))]
        made.append(body)
    return made


@given(requests_in_a_row(), st.sampled_from(all_facts()))
@example(
    [{"tools": [LONG_TOOL]}, {"tools": [LONG_TOOL, MARK]}, {"toolConfig": {"tools": [LONG_TOOL]}}],
    all_facts()[0],
)
@example(
    [{"input": [{"role": "system"}]}, {"input": [{"role": "system"}, {"role": "system"}]}], all_facts()[0]
)
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
