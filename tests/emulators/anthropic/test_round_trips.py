"""Whatever the emulated model says, whole or streamed, is accepted when it comes back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulators.anthropic.requests import BINDING, NEW, OLD, TOOLS, ask, result, text, user
from emulators.anthropic.test_routes import folded, post
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.model.model_reply import Call, Piece, Reply, Say, Think
from segue.emulators.model.responder import ScriptedResponder

MODES: dict[str, dict[str, Any]] = {
    OLD: {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    NEW: {"thinking": {"type": "adaptive", "display": "summarized"}},
    BINDING: {},
}
words = st.text(min_size=1, max_size=20).filter(str.strip)
spoken = st.lists(st.one_of(st.builds(Think, words), st.builds(Say, words)), max_size=3)
cities = st.fixed_dictionaries({"city": st.text(max_size=8)})
calls = st.lists(st.builds(Call, st.just("get_weather"), cities), max_size=3)


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    """Thinking first, as manual mode demands, and calls last, as the model does."""
    pieces: list[Piece] = [Think("First."), *draw(spoken), Say("Well."), *draw(calls)]
    return Reply(pieces=tuple(pieces), chunk_size=draw(st.integers(1, 30)))


@pytest.mark.rule("ANT-20", "ANT-51", "ANT-54", "ANT-57", "ANT-71")
@pytest.mark.parametrize("model", MODES)
@given(said=st.lists(replies(), min_size=1, max_size=5), streamed=st.booleans())
def test_every_reply_is_accepted_when_it_comes_back(model: str, said: list[Reply], streamed: bool) -> None:
    app = App(Emulator(responder=ScriptedResponder([*said, Reply(pieces=(Say("Done."),))]), strict=True))
    body = ask(user(), model=model, stream=streamed, **TOOLS, **MODES[model])
    for _ in said:
        answer = post(app, body)
        assert answer.status == 200, answer.body
        content = folded(answer) if streamed else answer.json()["content"]
        ids = [block["id"] for block in content if block["type"] == "tool_use"]
        results = [result(call_id) for call_id in ids] or [text("Go on.")]
        body["messages"] += [{"role": "assistant", "content": content}, user(*results)]
    assert post(app, body).status == 200
