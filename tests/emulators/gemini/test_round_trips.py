"""Whatever the emulated model says, whole or streamed, is accepted when it comes back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulators.gemini.requests import NEWEST, OLD, THREE, ask, response, text, tools, user
from emulators.gemini.test_routes import events, parts_of, post
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.model.model_reply import Call, Piece, Reply, Say, Think
from segue.emulators.model.responder import ScriptedResponder

SHOWN = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
words = st.text(min_size=1, max_size=20)
spoken = st.lists(st.one_of(st.builds(Think, words), st.builds(Say, words)), max_size=3)
cities = st.fixed_dictionaries({"city": st.text(max_size=8)})
calls = st.lists(st.builds(Call, st.just("get_weather"), cities), max_size=3)


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    pieces: list[Piece] = [*draw(spoken), Say("Well."), *draw(calls)]
    return Reply(pieces=tuple(pieces), chunk_size=draw(st.integers(1, 30)))


def content_of(answer: Any, *, streamed: bool) -> dict[str, Any]:
    if streamed:
        return {"role": "model", "parts": parts_of(events(answer))}
    content: dict[str, Any] = answer.json()["candidates"][0]["content"]
    return content


@pytest.mark.rule("GEM-04", "GEM-20", "GEM-21", "GEM-23", "GEM-51")
@pytest.mark.parametrize("name", [OLD, THREE, NEWEST])
@given(said=st.lists(replies(), min_size=1, max_size=5), streamed=st.booleans())
def test_every_reply_is_accepted_when_it_comes_back(name: str, said: list[Reply], streamed: bool) -> None:
    app = App(Emulator(responder=ScriptedResponder([*said, Reply(pieces=(Say("Done."),))]), strict=True))
    body = ask(**tools(), **SHOWN)
    method = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    for _ in said:
        answer = post(app, body, method, name)
        assert answer.status == 200, answer.body
        content = content_of(answer, streamed=streamed)
        made = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        ids = [{"id": call["id"]} if "id" in call else {} for call in made]
        results = [response(call["name"], **given) for call, given in zip(made, ids, strict=True)]
        body["contents"] += [content, user(*results or [text("Go on.")])]
    assert post(app, body, name=name).status == 200
