"""Models that may not be streamed, and servers that do not stream: their replies are the same to whoever reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import structs

from segue.conversation.blocks import Block, Origin, Text
from segue.conversation.events import CallStarted, Failed, Finished, TextDelta, fold
from segue.conversation.events import Reply as FoldedReply
from segue.conversation.message import Conversation, user
from segue.conversation.options import Options
from segue.dialects.registry import DIALECTS
from segue.emulators.emulator import Emulator
from segue.emulators.model.model_reply import Call, Reply, Say, Think
from segue.emulators.server import Served, serve
from segue.providers.adapter import ChatRequest, RequestSent, fold_stream
from segue.providers.config import ProviderConfig
from segue.providers.factory import connect
from segue.providers.provider import Provider
from segue.transports.asgi import AsgiTransport
from segue.transports.transport import ReplyLimits, Timeouts
from strategies.provider_places import (
    KEY,
    PLACES,
    WEATHER,
    Place,
    asking,
    events_of,
    failure_of,
    provider_at,
    say,
    sent_in,
)

every_place = pytest.mark.parametrize("place", PLACES, ids=str)
OPENAI, RESPONSES, ANTHROPIC, GEMINI, MISTRAL, KIMI, DEEPSEEK, OLLAMA, BEDROCK = PLACES
both_of_openai = pytest.mark.parametrize("place", [OPENAI, RESPONSES], ids=str)
REPLIES = {
    "text": Reply(pieces=(Say("Good day to you, and welcome. ✓"),)),
    "thought": Reply(pieces=(Think("Who is it?"), Say("Good day."))),
    "calls": Reply(
        pieces=(
            Think("Two of them."),
            Say("I will look."),
            Call("get_weather", {"city": "Rome"}),
            Call("get_weather", {"city": "Malmö"}),
        )
    ),
    "cut": Reply(pieces=(Say("word " * 40),), finish="length"),
}


@pytest.fixture
def unverified() -> Iterator[Served]:
    """An account that may stream none of OpenAI's models."""
    with serve(emulator=Emulator(strict=True, unstreamed=["*"])) as served:
        yield served


def request_for(place: Place, what: str) -> ChatRequest:
    thinks = what in ("thought", "calls") and place not in (OPENAI, MISTRAL)
    return asking(place, options=Options(effort="low" if thinks else None), tools=(WEATHER,))


@every_place
@pytest.mark.parametrize("what", REPLIES)
def test_a_whole_reply_is_the_reply_that_a_stream_would_have_been(place: Place, what: str) -> None:
    """Streamed, sent whole though a stream was asked for, and asked for as a whole."""
    replies = []
    for sends_whole, asks_whole in ((False, False), (True, False), (False, True)):
        with serve(emulator=Emulator(strict=True, clock=lambda: 0.0)) as served:
            served.emulator.sends_whole = sends_whole
            say(served, REPLIES[what])
            provider = provider_at(served, place)
            if asks_whole:
                provider.learn_lack(place.model, "stream")
            events = events_of(provider, request_for(place, what))
            assert isinstance(events[-1], Finished), events[-1]
            # Not with its own origin, which names the port.
            reply = fold([event for event in events if not isinstance(event, RequestSent)], Origin())
            replies.append(_sealed_in_place(reply) if place == GEMINI else reply)
            assert {entry.verdict for entry in served.emulator.log} == {"accepted"}
    streamed, *whole = replies
    assert streamed.message.text
    assert len(streamed.message.calls) == (2 if what == "calls" else 0)
    assert streamed.finish == {"calls": "tool_calls", "cut": "length"}.get(what, "stop")
    assert whole == [streamed, streamed]


def _sealed_in_place(reply: FoldedReply) -> FoldedReply:
    """In a stream of Gemini the seal of a text comes behind it, in an empty one of its own."""
    blocks: list[Block] = []
    for block in reply.message.blocks:
        if isinstance(block, Text) and not block.text and blocks and isinstance(blocks[-1], Text):
            blocks[-1] = structs.replace(blocks[-1], seal=block.seal)
        else:
            blocks.append(block)
    return structs.replace(reply, message=structs.replace(reply.message, blocks=tuple(blocks)))


@both_of_openai
def test_a_model_that_may_not_be_streamed_is_asked_for_whole_replies_from_then_on(
    unverified: Served, place: Place
) -> None:
    say(unverified, *[Reply(pieces=(Say("Good day."),))] * 3)
    provider = provider_at(unverified, place)
    conversation = Conversation().append(user("Hello."))
    for _ in range(2):
        events = events_of(provider, asking(place, conversation=conversation, session="s", tools=(WEATHER,)))
        assert sum(isinstance(event, RequestSent) for event in events) == 1
        reply = fold_stream(events)
        assert reply.message.text == "Good day."
        assert reply.usage.output_tokens
        conversation = conversation.append(reply.message).append(user("And now?"))
    asked = [(entry.status, entry.body.get("stream")) for entry in unverified.emulator.log]
    assert asked == [(400, True), (200, None), (200, None)]
    assert provider.lacks(place.model, "stream")
    assert not provider.lacks("another", "stream")
    other = provider_at(unverified, place)
    assert isinstance(events_of(other, asking(place))[-1], Finished), "each provider learns for itself"


def test_requests_that_are_refused_at_the_same_time_are_all_answered(unverified: Served) -> None:
    provider = provider_at(unverified, OPENAI)

    async def one() -> Any:
        return [event async for event in provider.chat_stream(asking(OPENAI))][-1]

    async def main() -> list[Any]:
        return await asyncio.gather(*(one() for _ in range(8)))

    assert all(isinstance(end, Finished) for end in asyncio.run(main()))
    assert len(unverified.emulator.log) == 16


def test_a_request_that_was_previewed_before_the_refusal_is_written_anew(unverified: Served) -> None:
    provider = provider_at(unverified, OPENAI)
    request = asking(OPENAI)
    assert b'"stream":true' in provider.preview(request).body
    provider.learn_lack(OPENAI.model, "stream")
    assert b"stream" not in sent_in(events_of(provider, request)).body
    assert [entry.status for entry in unverified.emulator.log] == [200]


def test_a_refusal_of_the_whole_request_is_the_error_that_is_reported(unverified: Served) -> None:
    too_much = asking(OPENAI, "x" * 4_000 * 1_048)
    error = failure_of(provider_at(unverified, OPENAI), too_much)
    assert error.code == "context_length_exceeded"
    assert [entry.rule for entry in unverified.emulator.log] == ["OAI-08", "CHAT-70"]


# Servers of any kind, in this process


def local(application: Any, wire: str = "openai_compatible", **settings: Any) -> Provider:
    config = ProviderConfig(base_url="http://loopback/v1", dialect=wire, **settings)
    transport = AsgiTransport(application)
    return connect("mine", config, api_key=KEY, environ={}, keyring=False, transport=transport)


def answering(*portions: bytes, content_type: str = "application/json", status: int = 200) -> Any:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", content_type.encode()), (b"x-request-id", b"req_7")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for portion in portions:
            await send({"type": "http.response.body", "body": portion, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return application


def silent_for(seconds: float) -> Any:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(seconds)
        await answering(WHOLE)(scope, receive, send)

    return application


def completion(**message: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return msgspec.json.encode({"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice]})


def calls(number: int, name: str = "get_weather") -> list[dict[str, Any]]:
    function = {"name": name, "arguments": '{"city":"Rome"}'}
    return [{"id": f"call_{at}", "type": "function", "function": function} for at in range(number)]


WHOLE = completion(content="Good day.")
FRAME = b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"Good day."},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
MINE = Place("mine", "", "m")


@pytest.mark.parametrize(
    "application",
    [
        answering(WHOLE),
        answering(WHOLE[:9], WHOLE[9:], content_type="Application/JSON; charset=utf-8"),
        answering(b"\n", b"\n \n", WHOLE),
        answering(FRAME, DONE),
        answering(b": waiting\n\n", FRAME, DONE),
        answering(FRAME, DONE, content_type="text/event-stream"),
    ],
    ids=["whole", "in pieces", "behind blank lines", "frames named JSON", "comment first", "frames"],
)
@pytest.mark.parametrize("asks_whole", [False, True])
def test_an_answer_is_read_for_what_it_is(application: Any, *, asks_whole: bool) -> None:
    provider = local(application)
    if asks_whole:
        provider.learn_lack("m", "stream")
    reply = fold_stream(events_of(provider, asking(MINE)))
    assert (reply.message.text, reply.finish, reply.id) == ("Good day.", "stop", "c1")


def test_frames_under_a_wrong_name_are_still_shown_as_they_come() -> None:
    async def main() -> list[type]:
        provider = local(answering(FRAME, FRAME.replace(b"Good", b"Bad"), DONE))
        return [type(event) async for event in provider.chat_stream(asking(MINE))]

    assert asyncio.run(main()).count(TextDelta) == 2


def test_a_large_reply_is_read_to_its_end() -> None:
    """More than a stream's decoder holds back of what it cannot read."""
    reply = fold_stream(events_of(local(answering(completion(content="word " * 50_000))), asking(MINE)))
    assert reply.message.text == "word " * 50_000


def test_a_tool_in_a_whole_reply_is_called_by_its_own_name() -> None:
    spelled = structs.replace(WEATHER, name="the weather, today")
    provider = local(answering(completion(content=None, tool_calls=calls(1, "the_weather__today"))))
    events = events_of(provider, asking(MINE, tools=(spelled,)))
    sent = msgspec.json.decode(sent_in(events).body)["tools"][0]["function"]["name"]
    assert sent != spelled.name
    provider = local(answering(completion(content=None, tool_calls=calls(1, sent))))
    reply = fold_stream(events_of(provider, asking(MINE, tools=(spelled,))))
    assert [call.name for call in reply.message.calls] == [spelled.name]


def test_a_whole_reply_is_held_to_the_limits_of_a_stream() -> None:
    many = local(answering(completion(content="So:", tool_calls=calls(9))), limits=ReplyLimits(calls=4))
    events = events_of(many, asking(MINE, tools=(WEATHER,)))
    assert isinstance(events[-1], Failed)
    assert events[-1].error.code == "too_many_calls"
    assert sum(isinstance(event, CallStarted) for event in events) == 4
    exact = local(answering(completion(content="So:", tool_calls=calls(4))), limits=ReplyLimits(calls=4))
    assert isinstance(events_of(exact, asking(MINE, tools=(WEATHER,)))[-1], Finished)
    large = local(answering(completion(content="x" * 5000)), limits=ReplyLimits(body_bytes=2000))
    assert failure_of(large, asking(MINE)).code == "reply_too_large"


@pytest.mark.parametrize(
    "wire", [name for name in DIALECTS if "text/event-stream" in DIALECTS[name].server.stream_type]
)
@pytest.mark.parametrize(
    "body", [b"{", b'{"unheard": "of"}', b'{"choices": 3, "content": 4, "output": 5}', b"[]", b""]
)
def test_what_is_no_reply_is_an_error(wire: str, body: bytes) -> None:
    failure_of(local(answering(body), wire), asking(MINE))


def test_an_error_in_a_whole_answer_has_its_request_id() -> None:
    body = b'{"error": {"message": "The engine is overloaded.", "type": "server_error"}}'
    error = failure_of(local(answering(body)), asking(MINE))
    assert error.message == "The engine is overloaded."
    assert getattr(error, "request_id", "") == "req_7"


def test_a_whole_reply_is_waited_for_longer() -> None:
    limits = Timeouts(first_byte=0.05, whole_reply=5)
    provider = local(silent_for(0.2), timeouts=limits)
    assert failure_of(provider, asking(MINE)).code == "first_byte_timeout"
    provider.learn_lack("m", "stream")
    assert isinstance(events_of(provider, asking(MINE))[-1], Finished)
    provider = local(silent_for(5), timeouts=structs.replace(limits, whole_reply=0.1))
    provider.learn_lack("m", "stream")
    assert failure_of(provider, asking(MINE)).code == "whole_reply_timeout"


def test_an_abort_ends_the_wait_for_a_whole_reply() -> None:
    async def main() -> tuple[Any, float]:
        loop = asyncio.get_running_loop()
        abort, began = asyncio.Event(), loop.time()
        loop.call_later(0.1, abort.set)
        provider = local(silent_for(20))
        provider.learn_lack("m", "stream")
        stream = provider.chat_stream(asking(MINE, abort=abort))
        return [event async for event in stream][-1], loop.time() - began

    end, seconds = asyncio.run(main())
    assert isinstance(end, Finished)
    assert end.reason == "cancelled"
    assert seconds < 5


# How a refusal is recognised

REFUSALS = {
    "openai_chat": b'{"error": {"message": "Unsupported value", "param": "stream", "code": "unsupported_value"}}',
    "openai_responses": b'{"error": {"message": "Not verified", "param": "stream", "code": "unsupported_value"}}',
    "openrouter": b'{"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": '
    b'"{\\"error\\": {\\"message\\": \\"No.\\", \\"param\\": \\"stream\\", \\"code\\": \\"unsupported_value\\"}}"}}}',
    "mistral": b'{"object": "error", "message": {"detail": [{"type": "literal_error", "loc": ["body", "stream"], '
    b'"msg": "Input should be false"}]}, "type": "invalid_request_error"}',
    "anthropic": b'{"type": "error", "error": {"type": "invalid_request_error", '
    b'"message": "stream: Input should be false"}}',
    "openai_compatible": b'{"detail": [{"type": "literal_error", "loc": ["body", "stream"], "msg": "Only false"}]}',
    "vllm": b'{"error": {"message": "No streams here", "code": "streaming_not_supported"}}',
}
OTHERS = [
    b'{"error": {"message": "stream_options needs stream", "param": "stream_options", "code": null}}',
    b'{"error": {"message": "Your organization must be verified to use the model", "code": "model_not_found"}}',
    b'{"error": {"message": "The stream of this river is no topic.", "param": "messages[0].content"}}',
    b'{"detail": [{"loc": ["body", "messages", 0, "stream"], "msg": "Extra inputs are not permitted"}]}',
    b'{"detail": []}',
    b"stream",
]


@pytest.mark.parametrize("wire", REFUSALS)
@pytest.mark.parametrize("status", [400, 422])
def test_a_refusal_to_stream_is_recognised_by_what_it_names(wire: str, status: int) -> None:
    asked: list[Any] = []
    reply = fold([TextDelta(0, "Good day."), Finished("stop")], Origin())

    async def application(scope: Any, receive: Any, send: Any) -> None:
        body = msgspec.json.decode((await receive())["body"])
        asked.append(body.get("stream"))
        refused = body.get("stream") is True
        sent = (
            REFUSALS[wire]
            if refused
            else DIALECTS[wire].encode_reply(structs.replace(reply, id="r1", model="m"))
        )
        await answering(sent, status=status if refused else 200)(scope, receive, send)

    provider = local(application, wire)
    assert fold_stream(events_of(provider, asking(MINE))).message.text == "Good day."
    assert asked == [True, None]


@pytest.mark.parametrize("body", OTHERS)
@pytest.mark.parametrize("wire", ["openai_chat", "openai_responses", "mistral", "anthropic"])
def test_another_refusal_is_reported_and_not_tried_again(wire: str, body: bytes) -> None:
    provider = local(answering(body, status=400), wire)
    failure_of(provider, asking(MINE))
    assert not provider.lacks("m", "stream")
