"""A client of every wire at a provider of every wire: three turns with tools, by the functions that a gateway uses.

decode_request → adopt → plan → provider → decoder → respond → encoder; then the client sends everything back, and its
own provider accepts that without us.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from msgspec import structs

from laws.client_turns import (
    WIRES,
    folded,
    next_request,
    read_stream,
    respond_whole,
    responder_for,
    sent_back,
    write_stream,
)
from segue.conversation.blocks import Origin
from segue.conversation.message import Conversation, user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.plan import Plan, plan
from segue.dialects.registry import DIALECTS
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import KEY, ask_now
from segue.emulators.model.model_reply import Call, Say, Think
from segue.emulators.model.model_reply import Reply as EmulatedReply
from segue.emulators.model.responder import ScriptedResponder
from segue.providers.models.cards import card_for_model, default_model
from segue.transcript.adopt import adopt

PATHS: Final = {
    "openai_chat": "/openai/v1/chat/completions",
    "openai_responses": "/openai/v1/responses",
    "anthropic": "/anthropic/v1/messages",
    "gemini_interactions": "/gemini/v1beta/interactions",
    "mistral": "/mistral/v1/chat/completions",
    "ollama": "/ollama/api/chat",
    "kimi": "/kimi/v1/chat/completions",
}
TOOLS: Final = (
    ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}}),
)
TURNS: Final = 3
HEADERS: Final = {**KEY, "x-api-key": "sk-emulated", "anthropic-version": "2023-06-01"}


def path_of(name: str, model: str, *, stream: bool) -> str:
    if name == "gemini":
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"/gemini/v1beta/models/{model}:{verb}"
    if name == "converse":
        return f"/bedrock/model/{model}/converse{'-stream' if stream else ''}"
    return PATHS[name]


def planned(name: str, conversation: Conversation, tools: tuple[ToolSpec, ...], options: Options) -> Plan:
    model = default_model(name)
    return plan(
        conversation,
        None,
        target=Origin(name, name, "", model),
        card=card_for_model(model, name),
        tools=tools,
        options=structs.replace(options, model=model),
    )


def emulator() -> App:
    pieces = (
        Think("Let me see."),
        Say("Two files."),
        Call("read", {"path": "a\nb"}),
        Call("read", {"path": "b"}),
    )
    return App(Emulator(responder=ScriptedResponder([EmulatedReply(pieces=pieces)] * TURNS)))


def first_request(client: str) -> dict[str, Any]:
    conversation = Conversation(system="Be brief.").append(user("Read both files."))
    body = json.loads(planned(client, conversation, TOOLS, Options(max_tokens=8000)).body)
    assert isinstance(body, dict)
    if client == "openai_responses":
        body["store"] = False
    return body


@pytest.mark.parametrize("provider", WIRES)
@pytest.mark.parametrize("client", WIRES)
def test_three_turns_with_tools_leave_a_history_that_everybody_accepts(client: str, provider: str) -> None:
    upstream, own = emulator(), App(Emulator())
    body = first_request(client)
    for turn in range(TURNS):
        stream = turn != 1
        decoded = DIALECTS[client].decode_request({"model": "m", **body})
        conversation = adopt(decoded.messages, system=decoded.system, dialect=client).conversation
        made = planned(provider, conversation, decoded.tools, structs.replace(decoded.options, stream=stream))
        url = path_of(provider, default_model(provider), stream=stream)
        answer = ask_now(upstream, "POST", url, body=made.body, headers=HEADERS)
        assert answer.status == 200, answer.body
        source = DIALECTS[provider]
        events = read_stream(provider, list(answer.portions)) if stream else source.decode_reply(answer.body)
        responder = responder_for(client, provider, body, f"turn {turn}", names=made.names, streamed=stream)
        sent = respond_whole(responder, events)
        if stream:
            reply = folded(client, read_stream(client, [write_stream(client, sent)]))
        else:
            reply = folded(
                client, DIALECTS[client].decode_reply(DIALECTS[client].encode_reply(folded(client, sent)))
            )
        assert reply.error is None
        assert reply.finish == "tool_calls"
        assert [call.arguments for call in reply.message.calls] == [{"path": "a\nb"}, {"path": "b"}]
        assert reply.message.text == "Two files."
        assert [call.native_id for call in reply.message.calls] == list(responder.ids)
        body = next_request(client, body, sent_back(client, reply))
    model = default_model(client)
    asked = {name: held for name, held in body.items() if name != "stream"}
    answer = ask_now(own, "POST", path_of(client, model, stream=False), json=asked, headers=HEADERS)
    assert (answer.status, own.emulator.log[-1].message) == (200, None)
