"""What the dialects cost: requests and streams against the bare JSON of the same data in the same run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from os import environ
from typing import Any, TypeAlias

import msgspec

from bench.histories import ORIGIN, agent_like
from bench.measure import interleaved
from segue.conversation.blocks import Origin, Text, ToolCall, ToolResult
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Finished,
    ReplyStarted,
    TextDelta,
    UsageReported,
    fold,
)
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.conversation.usage import Usage
from segue.dialects.caches.read_cache import ReadCache
from segue.dialects.card import UNKNOWN
from segue.dialects.dialect import Dialect
from segue.dialects.plan import Plan, PlanState, plan
from segue.dialects.registry import DIALECTS
from segue.dialects.replies.translation import ReplyTranslation
from segue.transcript.adopt import adopt
from segue.transcript.client_wire import ClientRequest
from segue.transcript.render import render
from segue.transcript.respond import Responder
from segue.transcript.steps import Transcript

TARGETS = ("openai_chat", "openai_responses", "anthropic", "gemini", "mistral", "ollama", "kimi")
TOOLS = (ToolSpec("search_files", "Search.", {"type": "object", "properties": {"path": {"type": "string"}}}),)
CHUNKS = 2_000
TRANSLATIONS = (
    ("anthropic", "openai_chat"),
    ("anthropic", "anthropic"),
    ("anthropic", "gemini"),
    ("gemini", "openai_chat"),
    ("gemini", "anthropic"),
    ("openai_chat", "anthropic"),
    ("openai_responses", "anthropic"),
)
THINKING = ("anthropic", "gemini", "openai_responses")
"""Dialects whose histories hold sealed thoughts."""

Row: TypeAlias = tuple[str, float, str]
"""What was measured, the ratio, and what it is a ratio of."""


def run() -> list[Row]:
    rows = [*_requests(10_000), *_next_requests(10_000), *_servers(10_000)]
    rows += [*_translations(400), *_next_translations(400)]
    rows += [*_streams(), *_stream_translations()]
    rows += [*_whole_chats(400), *_litellm_rows(10_000), *_pydantic_ai_rows(10_000)]
    for name, ratio, note in rows:
        print(f"{name:<48}{ratio:>9.2f} {note}")
    return rows


def _encoded(dialect: Dialect, conversation: Conversation) -> bytes:
    return _planned(dialect, conversation).body


def _encode_alone(dialect: Dialect, transcript: Transcript) -> bytes:
    return dialect.encode_request(transcript, TOOLS, Options(model="m"), UNKNOWN).body


def _requests(size: int) -> list[Row]:
    conversation = agent_like(size)
    rows = []
    for name in TARGETS:
        dialect = DIALECTS[name]
        payload = msgspec.json.decode(_encoded(dialect, conversation))
        transcript = render(conversation, None, dialect.rules.at(model="m"))
        taken = interleaved(
            {
                "floor": partial(msgspec.json.Encoder().encode, payload),
                "ours": partial(_encoded, dialect, conversation),
                "encode": partial(_encode_alone, dialect, transcript),
            },
            rounds=9,
        )
        note = "× encoding the payload"
        rows.append((f"render + encode, {name}", taken["ours"] / taken["floor"], note))
        rows.append((f"encode alone, {name}", taken["encode"] / taken["floor"], note))
    return rows


def _servers(size: int) -> list[Row]:
    """Reading a request: what the gateway and `segue convert` do."""
    conversation = agent_like(size)
    rows = []
    for name in TARGETS:
        dialect = DIALECTS[name]
        body = _encoded(dialect, conversation)
        taken = interleaved(
            {"floor": partial(msgspec.json.decode, body), "ours": partial(_taken_in, dialect, body)}, rounds=9
        )
        rows.append((f"parse + decode + adopt, {name}", taken["ours"] / taken["floor"], "× parsing the body"))
    return rows


def _taken_in(dialect: Dialect, body: bytes) -> object:
    decoded = dialect.decode_request(msgspec.json.decode(body))
    return adopt(decoded.messages, system=decoded.system, dialect=dialect.name)


def _translations(size: int) -> list[Row]:
    """A request of one wire made one of another, from nothing: the first sight of a conversation by a gateway."""
    rows = []
    for source, to in TRANSLATIONS:
        origin = Origin(source, model="m")
        conversation = agent_like(size, origin=origin, thoughts=source in THINKING)
        body = _encoded(DIALECTS[source], conversation)
        taken = interleaved(
            {
                "floor": partial(_passed_through, body),
                "ours": partial(_carried_over, body, DIALECTS[source], DIALECTS[to]),
            },
            rounds=25,
        )
        rows.append((f"translate {source} to {to}", taken["ours"] / taken["floor"], "× parsing and encoding"))
    return rows


def _next_translations(size: int) -> list[Row]:
    """The next request of a client whose last one was translated: what a gateway does at each turn."""
    rows = []
    for source, to in TRANSLATIONS:
        conversation = agent_like(size + 3, origin=Origin(source, model="m"), thoughts=source in THINKING)
        first, body = (_encoded(DIALECTS[source], _until(conversation, at)) for at in _ends(conversation))
        cache = ReadCache(100_000_000)
        state = _planned(DIALECTS[to], cache.read(DIALECTS[source], first).conversation).state
        taken = interleaved(
            {
                "floor": partial(_passed_through, body),
                "ours": partial(_carried_on, cache, body, DIALECTS[source], DIALECTS[to], state),
            },
            rounds=25,
        )
        rows.append(
            (f"next turn, {source} to {to}", taken["ours"] / taken["floor"], "× parsing and encoding")
        )
    return rows


def _ends(conversation: Conversation) -> tuple[int, int]:
    """Where two requests end, one turn after another."""
    ends = [
        at for at in range(1, len(conversation.messages)) if conversation.messages[at - 1].speaker != "model"
    ]
    return ends[-2], ends[-1]


def _carried_on(cache: ReadCache, body: bytes, source: Dialect, to: Dialect, state: PlanState) -> bytes:
    return _planned(to, cache.read(source, body).conversation, state).body


def _passed_through(body: bytes) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(body))


def _carried_over(body: bytes, source: Dialect, to: Dialect) -> bytes:
    decoded = source.decode_request(msgspec.json.decode(body))
    adopted = adopt(decoded.messages, system=decoded.system, dialect=source.name)
    return _planned(to, adopted.conversation).body


def _reply() -> list[Event]:
    events: list[Event] = [ReplyStarted("reply", "model")]
    events += [TextDelta(0, f" word{number}") for number in range(CHUNKS)]
    events += [CallStarted(1, "call_1", "search_files")]
    events += [ArgumentsDelta(1, piece) for piece in ('{"path":', '"src"', "}")]
    return [*events, UsageReported(Usage(input_tokens=10, output_tokens=CHUNKS)), Finished("tool_calls")]


def _streams() -> list[Row]:
    rows = []
    for name in TARGETS:
        dialect = DIALECTS[name]
        encoder = dialect.new_encoder("model")
        portions = [portion for event in _reply() if (portion := encoder.feed(event))]
        portions.append(encoder.close())
        chunks = [chunk for portion in portions for chunk in _chunks(portion)]
        taken = interleaved(
            {
                "floor": partial(_parse_each, chunks),
                "ours": partial(_decode_each, dialect, portions),
                "joined": partial(_decode_each, dialect, _in_portions(b"".join(portions), 4096)),
                "fold": partial(_fold_each, dialect, portions),
            },
            rounds=15,
        )
        note = "× as many chunks per second as parsing each"
        rows.append((f"stream decode, {name}", taken["floor"] / taken["ours"], note))
        rows.append((f"stream decode, 4 KB at a time, {name}", taken["floor"] / taken["joined"], note))
        rows.append((f"stream decode + fold, {name}", taken["floor"] / taken["fold"], note))
    return rows


def _stream_translations() -> list[Row]:
    """A stream of each wire for a client of each wire: decode, respond, encode."""
    rows = []
    for name in TARGETS:
        encoder = DIALECTS[name].new_encoder("model")
        portions = [portion for event in _reply() if (portion := encoder.feed(event))] + [encoder.close()]
        chunks = [chunk for portion in portions for chunk in _chunks(portion)]
        subjects: dict[str, Callable[[], object]] = {
            client: partial(_translate, name, client, portions) for client in TARGETS
        }
        taken = interleaved({"floor": partial(_parse_each, chunks), **subjects}, rounds=15)
        rows += [
            (f"stream {name} → {client}", taken["floor"] / taken[client], "× as many chunks as parsing each")
            for client in TARGETS
        ]
    return rows


def _translate(provider: str, client: str, portions: list[bytes]) -> None:
    decoder, encoder = DIALECTS[provider].new_decoder(), DIALECTS[client].new_encoder("model")
    request = ClientRequest(wire=DIALECTS[client].client, nonce="one")
    translation = ReplyTranslation(Responder(request, Origin(provider)), encoder)
    decode, write = decoder.feed, translation.feed
    for portion in portions:
        write(decode(portion))
    write(decoder.close())
    translation.close()


def _chunks(portion: bytes) -> list[bytes]:
    """The JSON in a portion of a stream, be it server-sent events or lines."""
    lines = (line.removeprefix(b"data:").strip() for line in portion.splitlines())
    return [line for line in lines if line.startswith(b"{")]


def _in_portions(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def _parse_each(chunks: list[bytes]) -> None:
    decode = msgspec.json.decode
    for chunk in chunks:
        decode(chunk)


def _decode_each(dialect: Dialect, portions: list[bytes]) -> list[Event]:
    decoder = dialect.new_decoder()
    events: list[Event] = []
    for portion in portions:
        events += decoder.feed(portion)
    events += decoder.close()
    return events


def _fold_each(dialect: Dialect, portions: list[bytes]) -> object:
    return fold(_decode_each(dialect, portions), ORIGIN)


def _next_requests(size: int) -> list[Row]:
    """The request of the next turn, when the one before it was sent from here."""
    conversation = agent_like(size + 1)
    rows = []
    for name in TARGETS:
        taken = interleaved(
            {
                "next": _next_turn(name, conversation),
                "floor": partial(msgspec.json.encode, json.loads(_encoded(DIALECTS[name], conversation))),
            },
            rounds=_ROUNDS,
        )
        rows.append(
            (f"next turn: render + encode, {name}", taken["next"] / taken["floor"], "× encoding the payload")
        )
    return rows


def _whole_chats(size: int) -> list[Row]:
    """Every request of one chat, one after another as it grows: what a session really pays for."""
    conversation = agent_like(size)
    moments = [at for at in range(1, size) if conversation.messages[at - 1].speaker != "model"]
    rows = []
    for name in TARGETS:
        payloads = [json.loads(_encoded(DIALECTS[name], _until(conversation, at))) for at in moments]
        subjects: dict[str, Callable[[], object]] = {
            "ours": partial(_send_all, DIALECTS[name], conversation, moments),
            "floor": partial(_encode_all, payloads),
        }
        if name == "anthropic" and find_spec("litellm") is not None:
            requests = [
                json.loads(_encoded(DIALECTS["openai_chat"], _until(conversation, at))) for at in moments
            ]
            subjects["theirs"] = _litellm_all([request["messages"] for request in requests])
        taken = interleaved(subjects, rounds=3)
        count = len(moments)
        rows.append(
            (
                f"all {count} requests of a chat, {name}",
                taken["ours"] / taken["floor"],
                "× encoding the payloads",
            )
        )
        if "theirs" in taken:
            rows.append(
                (
                    f"LiteLLM, all {count} requests of a chat",
                    taken["theirs"] / taken["ours"],
                    "× our requests",
                )
            )
    return rows


def _until(conversation: Conversation, end: int) -> Conversation:
    return msgspec.structs.replace(conversation, messages=conversation.messages[:end])


def _planned(dialect: Dialect, conversation: Conversation, previous: PlanState | None = None) -> Plan:
    return plan(
        conversation,
        None,
        target=Origin(dialect.name, model="m"),
        card=UNKNOWN,
        tools=TOOLS,
        options=Options(model="m"),
        previous=previous,
    )


def _send_all(dialect: Dialect, conversation: Conversation, moments: list[int]) -> None:
    state = None
    for at in moments:
        state = _planned(dialect, _until(conversation, at), state).state


def _encode_all(payloads: list[Any]) -> None:
    for payload in payloads:
        msgspec.json.encode(payload)


def _litellm_all(histories: list[list[dict[str, Any]]]) -> Callable[[], object]:
    transforms = [_litellm(messages) for messages in histories]
    return lambda: [transform() for transform in transforms]


def _next_turn(name: str, conversation: Conversation) -> Callable[[], bytes]:
    """Render and encode after one more turn, again and again from the same state."""
    dialect = DIALECTS[name]
    state = _planned(dialect, conversation).state
    longer = conversation.append(
        Message("model", (Text("Done."),)), Message("user", (Text("And the tests?"),))
    )
    return lambda: _planned(dialect, longer, state).body


_ROUNDS = 7


def _litellm_rows(size: int) -> list[Row]:
    """The same OpenAI request made an Anthropic one by LiteLLM, where it is installed, and by us."""
    if find_spec("litellm") is None:
        return []
    conversation = agent_like(size)
    request = json.loads(_encoded(DIALECTS["openai_chat"], conversation))
    taken = interleaved(
        {
            "kept": partial(_encoded, DIALECTS["anthropic"], conversation),
            "next": _next_turn("anthropic", conversation),
            "foreign": partial(_translated, request),
            "theirs": _litellm(request["messages"]),
        },
        rounds=_ROUNDS,
    )
    ours = {
        "next": "× our request for the next turn",
        "kept": "× our render + encode from scratch",
        "foreign": "× our decode + adopt + render + encode of the same request",
    }
    return [
        ("LiteLLM, OpenAI to Anthropic", taken["theirs"] / taken[name], note) for name, note in ours.items()
    ]


def _translated(request: dict[str, Any]) -> bytes:
    decoded = DIALECTS["openai_chat"].decode_request(request)
    return _encoded(DIALECTS["anthropic"], adopt(decoded.messages, system=decoded.system).conversation)


def _litellm(messages: list[dict[str, Any]]) -> Callable[[], object]:
    environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it asks the network for prices otherwise
    module: Any = import_module("litellm.llms.anthropic.chat.transformation")
    config = module.AnthropicConfig()
    # It changes what it is given, so each run gets a copy of its own, made beforehand.
    copies = [deepcopy(messages) for _ in range(_ROUNDS + 1)]
    tools = [{"name": "search_files", "input_schema": {"type": "object", "properties": {}}}]

    def transform() -> object:
        options = {"max_tokens": 1000, "tools": tools}
        return msgspec.json.encode(
            config.transform_request("claude-sonnet-4-6", copies.pop(), options, {}, {})
        )

    return transform


def _pydantic_ai_rows(size: int) -> list[Row]:
    """The same history, each library's own, made an Anthropic request by pydantic-ai, where it is installed."""
    if find_spec("pydantic_ai") is None:
        return []
    conversation = agent_like(size)
    taken = interleaved(
        {
            "kept": partial(_encoded, DIALECTS["anthropic"], conversation),
            "next": _next_turn("anthropic", conversation),
            "theirs": _pydantic_ai(conversation),
        },
        rounds=_ROUNDS,
    )
    ours = {"next": "× our request for the next turn", "kept": "× our render + encode from scratch"}
    return [
        ("pydantic-ai, its history to Anthropic", taken["theirs"] / taken[name], note)
        for name, note in ours.items()
    ]


def _pydantic_ai(conversation: Conversation) -> Callable[[], object]:
    models: Any = import_module("pydantic_ai.models")
    provider: Any = import_module("pydantic_ai.providers.anthropic").AnthropicProvider(api_key="none")
    model = import_module("pydantic_ai.models.anthropic").AnthropicModel(
        "claude-sonnet-4-6", provider=provider
    )
    tools = [
        models.ToolDefinition(
            name=tool.name, description=tool.description, parameters_json_schema=tool.parameters
        )
        for tool in TOOLS
    ]
    settings, parameters = model.prepare_request(None, models.ModelRequestParameters(function_tools=tools))
    history = _as_pydantic_ai(conversation)

    def transform() -> object:
        # The public way to it sends the request as well.
        system, messages = asyncio.run(model._map_message(history, parameters, settings or {}))
        return msgspec.json.encode({"system": system, "messages": messages})

    return transform


def _as_pydantic_ai(conversation: Conversation) -> list[Any]:
    said: Any = import_module("pydantic_ai.messages")
    history = [said.ModelRequest([said.SystemPromptPart(conversation.system)])]
    for message in conversation.messages:
        parts: list[Any] = []
        for block in message.blocks:
            match block:
                case Text(text):
                    parts.append((said.TextPart if message.speaker == "model" else said.UserPromptPart)(text))
                case ToolCall(id=call_id, name=name, raw=raw):
                    parts.append(said.ToolCallPart(name, raw, call_id))
                case ToolResult(call_id=call_id, name=name, output=output):
                    parts.append(said.ToolReturnPart(name, output, call_id))
        history.append((said.ModelResponse if message.speaker == "model" else said.ModelRequest)(parts))
    return history
