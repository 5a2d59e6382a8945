"""Options and tools as somebody might ask for, sensible or not."""

from __future__ import annotations

from hypothesis import strategies as st

from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec

CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}

options = st.builds(
    Options,
    stream=st.booleans(),
    max_tokens=st.none() | st.integers(1, 300_000),
    temperature=st.none() | st.floats(0, 2),
    top_p=st.none() | st.floats(0, 1),
    top_k=st.none() | st.integers(1, 50),
    repeat_penalty=st.none() | st.just(1.1),
    seed=st.none() | st.just(7),
    stop=st.sampled_from(((), ("END",), (" ",), ("END", "\n"))),
    tool_choice=st.sampled_from((None, "auto", "none", "required", Named("read"))),
    parallel_calls=st.sampled_from((None, True, False)),
    effort=st.sampled_from((None, None, "none", "minimal", "low", "medium", "high", "xhigh", "max")),
    thinking_budget=st.none() | st.integers(0, 50_000),
    response_schema=st.none() | st.just(CLOSED),
)
READ = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
tools = st.sampled_from(
    (
        (),
        (READ,),
        (READ, ToolSpec("get.weather")),
        (ToolSpec("read", parameters={"anyOf": [{"type": "object"}]}, strict=True),),
        (ToolSpec("read", parameters=CLOSED, strict=True),),
    )
)
