"""The strict stand-ins of the real servers have nothing against what we send, whatever was said and asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from msgspec import structs

from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.card import fit_rules
from segue.dialects.registry import DIALECTS
from segue.emulators.deepseek import checks as deepseek
from segue.emulators.kimi import checks as kimi
from segue.emulators.model.model_facts import facts_for, listed
from segue.emulators.ollama import v1 as ollama
from segue.emulators.openai_chat import checks as openai_chat
from segue.emulators.openai_chat.profile import Profile
from segue.emulators.rules import Context, Refusal, enforced
from segue.providers.models.cards import card_for_model
from segue.transcript.policy import Policy
from segue.transcript.render import render
from strategies.histories import conversations

Judge: TypeAlias = Callable[[object, Context], Iterator[Refusal]]
COMPATIBLE = Profile(reparse_arguments=True, reasoning_fields=True, model_checks=False, tool_id_max=64)


def compatible(body: object, context: Context) -> Iterator[Refusal]:
    return openai_chat.complaints(body, context, COMPATIBLE)


JUDGES: dict[str, tuple[str, Judge]] = {
    "openai_chat": ("openai", openai_chat.complaints),
    "kimi": ("kimi", kimi.complaints),
    "deepseek": ("deepseek", deepseek.complaints),
    "ollama_v1": ("ollama", ollama.complaints),
    **dict.fromkeys(
        ("qwen", "glm", "minimax", "xai", "groq", "openrouter", "vllm", "llama_cpp", "openai_compatible"),
        ("", compatible),
    ),
}
SCHEMAS: tuple[dict[str, Any] | None, ...] = (
    None,
    {},
    {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    {"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "string"}]},
    {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/X"}},
        "$defs": {"X": {"type": ["string", "null"]}},
    },
    {
        "type": "object",
        "properties": {"x": {"type": "string"}},
        "required": ["x"],
        "additionalProperties": False,
    },
)
tools = st.lists(
    st.builds(
        ToolSpec,
        st.sampled_from(["read", "get.weather", "1st", "näme"]),
        st.sampled_from(["", "Does things."]),
        st.sampled_from(SCHEMAS),
        st.sampled_from([None, True, False]),
    ),
    max_size=3,
    unique_by=lambda tool: tool.name,
).map(tuple)
options = st.builds(
    Options,
    stream=st.booleans(),
    max_tokens=st.sampled_from([None, 100]),
    temperature=st.sampled_from([None, 0, 0.7]),
    top_p=st.sampled_from([None, 0.9]),
    top_k=st.sampled_from([None, 5]),
    seed=st.sampled_from([None, 1]),
    stop=st.sampled_from([(), ("END",)]),
    tool_choice=st.sampled_from([None, "auto", "none", "required", Named("read")]),
    parallel_calls=st.sampled_from([None, True, False]),
    effort=st.sampled_from([None, "none", "low", "high", "max"]),
    thinking_budget=st.sampled_from([None, 1000]),
    extra=st.sampled_from([None, {"user": "ann"}, {"stream_options": {"include_usage": True}}]),
)


EXAMPLES = max(12, settings().max_examples // 10)
"""For each of the servers, which are more than ten."""


@pytest.mark.requirement("Property 13")
@pytest.mark.parametrize("name", JUDGES)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_no_history_and_no_wish_makes_a_server_complain(name: str, data: st.DataObject) -> None:
    provider, judge = JUDGES[name]
    known = [model for model in listed(provider) if "embed" not in model] or ["model-1"]
    model = data.draw(st.sampled_from(known))
    card, dialect = card_for_model(model, name), DIALECTS[name]
    rules = fit_rules(dialect.rules.at(model=model), card)
    offered = data.draw(tools) if card.chat_tools else ()
    asked = structs.replace(data.draw(options), model=model)
    if isinstance(asked.tool_choice, Named) and all(tool.name != "read" for tool in offered):
        asked = structs.replace(asked, tool_choice=None)
    transcript = render(
        data.draw(conversations(rules)), None, rules, Policy(tool_names=tuple(tool.name for tool in offered))
    )
    body = json.loads(dialect.encode_request(transcript, offered, asked, card).body)
    note(json.dumps(body)[:3000])
    context = Context(model=model, facts=facts_for(provider, model) if provider else {}, strict=True)
    assert [
        f"{found.rule} {found.message}" for found in judge(body, context) if enforced(found, context)
    ] == []
