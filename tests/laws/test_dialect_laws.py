"""Laws over every dialect, and over every ordered pair of them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, note
from hypothesis import strategies as st
from msgspec import structs

from laws.emulated import EMULATED, complaints_about
from segue.conversation.blocks import Block, Media, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.events import Event, Failed, Reply, fold
from segue.conversation.message import Conversation, Message, model, user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.card import UNKNOWN, ModelCard, fit_rules
from segue.dialects.dialect import DecodedRequest, Dialect
from segue.dialects.registry import DIALECTS, NAMES
from segue.emulators.model.model_facts import listed
from segue.errors import ProviderError, TranscriptError
from segue.providers.models.cards import card_for_model, default_model
from segue.transcript.adopt import adopt
from segue.transcript.policy import Policy
from segue.transcript.render import render
from segue.transcript.rules import Rules
from segue.transcript.steps import AnsweredCall, ModelStep, Transcript
from strategies.examples import AT_LEAST_100
from strategies.histories import Told, conversations, whole_conversations
from strategies.replies import cuts, in_portions, replies

TOOLS = (
    ToolSpec("read", "Read a file.", {"type": "object", "properties": {"n": {"type": "integer"}}}),
    ToolSpec("write", "Write a file."),
)
POLICY = Policy(tool_names=tuple(tool.name for tool in TOOLS))

homes = st.sampled_from(NAMES)


def target_of(name: str, model: str = "") -> tuple[Dialect, str, ModelCard, Rules]:
    dialect = DIALECTS[name]
    model = model or default_model(name)
    card = card_for_model(model, name)
    return dialect, model, card, fit_rules(dialect.rules.at(model=model), card)


def said(name: str, conversation: Conversation, model: str = "") -> tuple[Transcript, dict[str, Any]]:
    """The conversation as the dialect says it: the transcript and the parsed body."""
    dialect, model, card, rules = target_of(name, model)
    transcript = render(conversation, None, rules, POLICY)
    encoded = dialect.encode_request(transcript, TOOLS, Options(model=model), card)
    body = json.loads(encoded.body)
    assert isinstance(body, dict)
    return transcript, body


def heard(name: str, body: dict[str, Any]) -> DecodedRequest:
    """The body as the dialect's server understands it. Where the model is named in the address, we say it."""
    dialect, model, _, _ = target_of(name)
    return dialect.decode_request(body if "model" in body else {**body, "model": model})


# Requests

IMAGE = Media("image", "image/png", "aGVsbG8=")


def _note(*blocks: Block | str) -> Message:
    return structs.replace(user(*blocks), instruction=True)


@given(drawn=homes.flatmap(lambda name: conversations(target_of(name)[3])))
@example(drawn=Conversation((_note("0"), user())))
@example(drawn=Conversation((_note("hello", ToolCall("", "read")),)))
@example(drawn=Conversation((_note(IMAGE, "look"), user("a"))))
@example(drawn=Conversation((_note(Media("document", "application/pdf", "aGVsbG8=")), model("b"))))
def test_what_we_send_is_what_our_own_server_understands(drawn: Conversation) -> None:
    for name in NAMES:
        first, body = said(name, _plausible(name, drawn))
        note(f"{name}: {json.dumps(body)[:2000]}")
        assert DIALECTS[name].recognises(body) > 0
        decoded = heard(name, body)
        adopted = adopt(decoded.messages, system=decoded.system, dialect=name)
        assert said(name, adopted.conversation)[1] == body
        assert [tool.name for tool in decoded.tools] == [first.names[tool.name] for tool in TOOLS]


SEALING = frozenset(
    {"anthropic", "converse", "gemini", "gemini_interactions", "openai_responses", "openrouter"}
)
"""Dialects that have a place for seals."""


def _plausible(name: str, conversation: Conversation) -> Conversation:
    """The history without what its dialect could never have written.

    That is seals on a user's words or where it has none, and instructions that say nothing.
    """
    messages = tuple(
        message if message.speaker == "model" and name in SEALING else _unsealed(message)
        for message in conversation.messages
        if not message.instruction or message.text.strip() or _shows(message)
    )
    return structs.replace(conversation, messages=messages or (user("Hello"),))


def _shows(message: Message) -> bool:
    return any(type(block) is Media for block in message.blocks)


def _unsealed(message: Message) -> Message:
    blocks = tuple(
        structs.replace(block, seal=None) if type(block) in (Text, Reasoning, ToolCall) else block
        for block in message.blocks
    )
    return structs.replace(message, blocks=blocks)


# Replies


def essence(reply: Reply, *, thoughts: bool) -> tuple[Any, ...]:
    """What every dialect can tell of a reply."""
    calls = [(call.name, call.arguments) for call in reply.message.calls]
    thought = "".join(block.text for block in reply.message.blocks if type(block) is Reasoning)
    counted = (reply.usage.input_tokens, reply.usage.output_tokens)
    return reply.message.text, calls, reply.finish, counted, thought if thoughts else ""


def streamed(dialect: Dialect, events: list[Event]) -> bytes:
    encoder = dialect.new_encoder("model-1")
    return b"".join(encoder.feed(event) for event in events) + encoder.close()


def read_back(dialect: Dialect, portions: list[bytes]) -> list[Event]:
    decoder = dialect.new_decoder()
    return [event for portion in portions for event in decoder.feed(portion)] + decoder.close()


THOUGHTLESS = frozenset({"openai_chat"})
"""Dialects whose replies have no place for thoughts (CHAT-50)."""


@given(events=replies())
def test_a_whole_reply_survives_the_wire(events: list[Event]) -> None:
    for name, dialect in DIALECTS.items():
        note(name)
        target = dialect.rules.target
        thoughts = name not in THOUGHTLESS
        reply = fold(events, target)
        received = fold(dialect.decode_reply(dialect.encode_reply(reply)), target)
        assert essence(received, thoughts=thoughts) == essence(reply, thoughts=thoughts)
        assert received.error is None


@given(events=replies(), sizes=cuts)
def test_a_streamed_reply_survives_the_wire_however_it_is_cut(events: list[Event], sizes: list[int]) -> None:
    for name, dialect in DIALECTS.items():
        note(name)
        target = dialect.rules.target
        thoughts = name not in THOUGHTLESS
        data = streamed(dialect, events)
        received = fold(read_back(dialect, list(in_portions(data, sizes))), target)
        assert essence(received, thoughts=thoughts) == essence(fold(events, target), thoughts=thoughts)
        assert received == fold(read_back(dialect, [data]), target)


@given(events=replies())
def test_a_reply_told_whole_and_streamed_is_the_same_message(events: list[Event]) -> None:
    for name, dialect in DIALECTS.items():
        note(name)
        target = dialect.rules.target
        whole = fold(dialect.decode_reply(dialect.encode_reply(fold(events, target))), target)
        stream = fold(read_back(dialect, [streamed(dialect, events)]), target)
        assert essence(stream, thoughts=True) == essence(whole, thoughts=True)


@given(events=replies(), keep=st.floats(0, 0.95))
def test_a_stream_that_breaks_off_fails_or_had_said_everything(events: list[Event], keep: float) -> None:
    for name, dialect in DIALECTS.items():
        note(name)
        target = dialect.rules.target
        data = streamed(dialect, events)
        received = read_back(dialect, [data[: int(len(data) * keep)]])
        if not any(isinstance(event, Failed) for event in received):
            broken, meant = fold(received, target).message, fold(events, target).message
            assert (broken.text, len(broken.calls)) == (meant.text, len(meant.calls))


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_reply_or_a_failure(data: bytes) -> None:
    for name, dialect in DIALECTS.items():
        note(name)
        for received in (dialect.decode_reply(data), read_back(dialect, [data])):
            assert all(isinstance(event, msgspec.Struct) for event in received)


# Errors

bodies = st.binary(max_size=80) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ("error", "message", "type", "code", "detail", "status", "details", "param", "x")
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
).map(lambda value: json.dumps(value).encode())
headers = st.dictionaries(
    st.sampled_from(("retry-after", "retry-after-ms", "x-request-id", "request-id", "content-type")),
    st.sampled_from(("", "3", "1.5", "-1", "soon", "1e999", "nan", "Wed, 21 Oct 2026 07:28:00 GMT")),
)


@given(status=st.integers(100, 999), told=headers, body=bodies)
@example(status=429, told={"retry-after": "7"}, body=b"")
@example(status=0, told={}, body=b"[" * 100_000)
def test_any_status_and_any_bytes_are_an_error_with_a_remedy(
    status: int, told: dict[str, str], body: bytes
) -> None:
    for name, dialect in DIALECTS.items():
        note(name)
        error = dialect.decode_error(status, told, body)
        assert isinstance(error, ProviderError)
        assert error.remedy
        assert str(error)
        assert error.retry_after is None or 0 <= error.retry_after < float("inf")


@given(status=st.sampled_from((400, 401, 402, 403, 404, 408, 413, 429, 500, 503, 529)), body=bodies)
@example(status=400, body=b"USAGE\tLIMIT")
@example(status=503, body=b"Prompt is too long")
@example(status=403, body=b'{"code":400}')
def test_an_error_told_to_a_client_keeps_its_remedy(status: int, body: bytes) -> None:
    for name, dialect in DIALECTS.items():
        note(name)
        error = dialect.decode_error(status, {}, body)
        told_status, told = dialect.encode_error(error)
        assert dialect.decode_error(told_status, {}, told).remedy == error.remedy


# Handoff


def real_things(messages: tuple[Message, ...]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Every text, every call with its arguments, every result."""
    texts: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    results: Counter[str] = Counter()
    for message in messages:
        for block in message.blocks:
            match block:
                case Text(text):
                    texts[text] += 1
                case ToolCall():
                    calls[f"{block.name}({json.dumps(block.arguments, sort_keys=True)})"] += 1
                case ToolResult():
                    results[str(block.output if block.error is None else block.error)] += 1
    return texts, calls, results


@AT_LEAST_100
@pytest.mark.requirement("Property 12")
@given(told=whole_conversations(max_turns=2), name=homes, other=homes)
def test_nothing_real_is_lost_between_any_two_dialects(told: Told, name: str, other: str) -> None:
    wanted = Counter(
        f"{call.name}({json.dumps(call.arguments, sort_keys=True)})"
        for message in told.conversation.messages
        for call in message.calls
    )
    decoded = heard(name, said(name, told.conversation)[1])
    taken_in = adopt(decoded.messages, system=decoded.system, dialect=name).conversation
    arrived = heard(other, said(other, taken_in)[1])
    texts, calls, results = real_things(arrived.messages)
    everything = "\n".join(texts)
    assert [text for text in told.texts if text not in everything] == []
    assert [output for output in told.outputs.values() if results[output] != 1] == []
    assert calls == wanted
    assert "Be brief." in arrived.system or "Be brief." in everything


@given(data=st.data())
def test_what_one_dialect_says_of_a_broken_history_the_others_say_too(data: st.DataObject) -> None:
    name = data.draw(homes)
    _say_it_too(name, data.draw(conversations(target_of(name)[3], max_size=5)))


@pytest.mark.parametrize("name", NAMES)
def test_a_result_that_is_an_image_alone_is_told_in_every_dialect(name: str) -> None:
    image = Media("image", url="https://example.invalid/cat.png")
    _say_it_too(name, Conversation((Message("user", (ToolResult("", "", media=(image,)),)),)))


def _say_it_too(name: str, drawn: Conversation) -> None:
    first, body = said(name, _plausible(name, drawn))
    decoded = heard(name, body)
    taken_in = adopt(decoded.messages, system=decoded.system, dialect=name).conversation
    spoken = _told(first)
    for other in NAMES:
        second = _told(said(other, taken_in)[0])
        assert [arguments for arguments, _ in second] == [arguments for arguments, _ in spoken], other
        # A wire without a flag for failures says so in the text.
        results = [(before, after) for (_, before), (_, after) in zip(spoken, second, strict=True)]
        assert [result for result in results if result[0] not in result[1]] == [], other
        # An image that was the whole result is there, or a text says what was.
        assert ("", _NO_OUTPUT) not in results, other


_NO_OUTPUT = "(no output)"


def _told(transcript: Transcript) -> list[tuple[Any, str]]:
    """Arguments and result of every call, in order. A result that is nothing but an image says nothing."""
    return [
        (
            json.loads(block.arguments),
            block.completion.text.strip() or ("" if block.completion.media else _NO_OUTPUT),
        )
        for step in transcript.steps
        if isinstance(step, ModelStep)
        for block in step.blocks
        if type(block) is AnsweredCall
    ]


# A second opinion


def models_of(name: str) -> list[str]:
    """The chat models that the provider lists, and some that it still serves."""
    served = {
        "anthropic": ["claude-3-5-sonnet-20241022", "claude-opus-4-1"],
        "gemini": ["gemini-flash-latest"],
    }
    models = listed(EMULATED[name][0]) + tuple(served.get(name, ()))
    return [
        model
        for model in models
        # The oldest tokenizer of Mistral takes text or calls in a message, never both; its models are retired.
        if "embed" not in model and model != "open-mistral-7b" and card_for_model(model, name).chat_tools
    ]


@pytest.mark.parametrize("name", EMULATED)
@given(data=st.data())
def test_no_history_makes_an_emulator_complain(name: str, data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(models_of(name)))
    _, _, _, rules = target_of(name, model)
    conversation = data.draw(conversations(rules))
    # A seal that nobody made cannot be opened by anybody: here only the shape of the transcript is judged.
    bare = tuple(_unsealed(message) for message in conversation.messages)
    _, body = said(name, structs.replace(conversation, messages=bare), model)
    note(json.dumps(body)[:4000])
    assert complaints_about(body, name, model) == []


@pytest.mark.requirement("REQ-915-036", "REQ-915-037")
@pytest.mark.parametrize("name", NAMES)
def test_a_transcript_of_another_target_is_refused_and_not_repaired(name: str) -> None:
    conversation = Conversation().append(Message("user", (Text("Hello"),)))
    stranger = next(other for other in NAMES if other != name)
    transcript = render(conversation, None, DIALECTS[stranger].rules)
    with pytest.raises(TranscriptError, match=stranger):
        DIALECTS[name].encode_request(transcript, (), Options(model="m"), UNKNOWN)
