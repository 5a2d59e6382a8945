"""Whatever a conversation went through, the chat templates behind local servers render what we send."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.real_chats import CHATS, FATES, real_requests
from opinions.templates import ChatTemplate, fetched_templates
from segue.conversation.blocks import Origin
from segue.conversation.message import Conversation
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.card import ModelCard
from segue.dialects.plan import plan
from segue.dialects.registry import DIALECTS
from segue.interop.convert import convert
from segue.providers.models.cards import card_for_model
from strategies.histories import conversations

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("SEGUE_SECOND_OPINIONS") != "1",
        reason="fetches 77 MB from the package index; asked for by SEGUE_SECOND_OPINIONS=1, as `make opinions` does",
    ),
    pytest.mark.timeout(1800),
]

TARGETS: Final = ("vllm", "llama_cpp", "ollama_v1", "ollama")
NUMBER: Final = {"type": "integer", "description": "Which one."}
TOOLS: Final = (
    # One template insists on a description of every parameter: those are the user's to give.
    ToolSpec("read", "Read a file.", {"type": "object", "properties": {"n": NUMBER}, "required": ["n"]}),
    ToolSpec("write", "Write a file."),
    ToolSpec("ping"),
)
UNASKED: Final = {
    "fireworks-ai-llama-3-firefunction-v2": "wants its tools as a text of another name, which no server gives it",
}
"""Templates that render nothing, whatever is sent."""

LIBRARY: Final = {
    "Mistral-Small-3.2-24B-Instruct-2506": "mistral-small3.2:24b",
    "Qwen-Qwen3-0.6B": "qwen3:0.6b",
    "Qwen3.5-4B": "qwen3.5:4b",
    "google-gemma-2-2b-it": "gemma2:2b",
    "meta-llama-Llama-3.1-8B-Instruct": "llama3.1:8b",
    "meta-llama-Llama-3.2-3B-Instruct": "llama3.2:3b",
    "mistralai-Ministral-3-14B-Reasoning-2512": "ministral-3:14b",
    "mistralai-Mistral-Nemo-Instruct-2407": "mistral-nemo:12b",
    "openai-gpt-oss-120b": "gpt-oss:120b",
}
"""What Ollama calls the models that it has a name of its own for. Everywhere else a template bears its model's name."""


def _user(text: str = "?") -> dict[str, Any]:
    return {"role": "user", "content": text}


def _calls(*ids: str) -> dict[str, Any]:
    function = {"name": "read", "arguments": "{}"}
    calls = [{"id": name, "type": "function", "function": function} for name in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _result(name: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": "!"}


SYSTEM: Final = {"role": "system", "content": "Be brief."}
REFUSED: Final = {
    "Mistral-Small-3.2-24B-Instruct-2506": ([_user(), _calls("call_1"), _result("call_1")], "length 9"),
    "Qwen3.5-4B": ([_user(), SYSTEM], "System message must be at the beginning"),
    "google-gemma-2-2b-it": ([SYSTEM, _user()], "System role not supported"),
    "meta-llama-Llama-3.1-8B-Instruct": (
        [_user(), _calls("a", "b"), _result("a"), _result("b")],
        "only supports single tool-calls",
    ),
    "mistralai-Ministral-3-14B-Reasoning-2512": ([_user(), _user()], "must alternate"),
    "mistralai-Mistral-Nemo-Instruct-2407": (
        [_user(), _calls("call00001"), _result("call00001"), _user()],
        "must alternate",
    ),
    "openai-gpt-oss-120b": ([_user(), _result("a")], "no previous assistant message with a tool call"),
}


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> list[ChatTemplate]:
    return fetched_templates(tmp_path_factory.mktemp("llama-cpp-python"))


def _complaints(
    templates: Iterable[ChatTemplate], target: str, body_for: Callable[[str], dict[str, Any]]
) -> dict[str, str]:
    bodies: dict[ModelCard, dict[str, Any]] = {}
    complaints = {}
    for template in templates:
        model = LIBRARY.get(template.name, template.name) if target.startswith("ollama") else template.name
        card = card_for_model(model, target)
        body = bodies.get(card)
        if body is None:
            body = bodies[card] = body_for(model)
        if _is_asked(template, card, body) and (complaint := template.complaint(body)):
            complaints[template.name] = f"{complaint} — {json.dumps(body['messages'])[:2000]}"
    return complaints


def _is_asked(template: ChatTemplate, card: ModelCard, body: dict[str, Any]) -> bool:
    if template.name in UNASKED or (template.only_with_tools and not body.get("tools")):
        return False
    # A model without tools has no words for the calls of others, and we do not retell them.
    return card.tools or all(message["role"] != "tool" for message in body["messages"])


def test_the_strict_templates_are_there_and_do_refuse(templates: list[ChatTemplate]) -> None:
    named = {template.name: template for template in templates}
    assert len(named) >= 70
    assert named.keys() >= LIBRARY.keys() | UNASKED.keys()
    for name, (messages, reason) in REFUSED.items():
        assert reason in named[name].complaint({"messages": messages}), name
    for name in UNASKED:
        assert named[name].complaint({"messages": [_user()], "tools": []}), name


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.data())
def test_no_history_makes_a_template_raise(
    templates: list[ChatTemplate], target: str, data: st.DataObject
) -> None:
    history: Conversation = data.draw(conversations(DIALECTS[target].rules.at(model="model-1")))
    tools = data.draw(st.sampled_from(((), TOOLS)))

    def body_for(model: str) -> dict[str, Any]:
        planned = plan(
            history,
            None,
            target=Origin(target, model=model),
            card=card_for_model(model, target),
            tools=tools,
            options=Options(model=model),
        )
        body: dict[str, Any] = json.loads(planned.body)
        return body

    assert _complaints(templates, target, body_for) == {}


@pytest.mark.skipif(not CHATS.is_dir(), reason="the corpus of recorded chats is not beside the repository")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.__name__)
def test_no_real_chat_makes_a_template_raise(
    templates: list[ChatTemplate], target: str, fate: Callable[[list[Any]], list[Any]]
) -> None:
    refused = {}
    for name, dialect, field, messages in real_requests(one_in=16):
        request = {field: fate(messages)}

        def body_for(model: str, request: dict[str, Any] = request, source: str = dialect) -> dict[str, Any]:
            body: dict[str, Any] = convert(request, source=source, to=target, model=model).request
            return body

        if complaints := _complaints(templates, target, body_for):
            refused[name] = complaints
    assert refused == {}
