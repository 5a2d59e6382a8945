"""Replies of the Messages wire, whole and streamed: one fold, however they came and wherever they were cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.recordings import body_of, headers_of, needs_recordings, recordings, without_price_facts
from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Failed,
    Finished,
    MediaArrived,
    Reply,
    ReplyStarted,
    Sealed,
    TextDelta,
    UsageReported,
    fold,
)
from segue.conversation.message import Message
from segue.conversation.usage import Usage
from segue.dialects.anthropic_messages import DIALECT
from segue.dialects.anthropic_messages.reply import FINISHES
from segue.errors import InvalidRequestError, OverloadError, ProtocolError
from strategies.replies import cuts, in_portions, replies

requirement = pytest.mark.requirement

HERE = Origin("anthropic", "p", "e", "m")

STREAM = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message",'
    b'"role":"assistant","model":"claude-x","content":[],"stop_reason":null,"usage":{"input_tokens":80,'
    b'"cache_creation_input_tokens":5,"cache_read_input_tokens":15,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":'
    b'{"type":"thinking","thinking":"","signature":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":'
    b'{"type":"thinking_delta","thinking":"Two lookups."}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":'
    b'{"type":"signature_delta","signature":"part"}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":'
    b'{"type":"signature_delta","signature":"SIG"}}\n\n'
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: ping\ndata: {"type":"ping"}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":1,"content_block":'
    b'{"type":"redacted_thinking","data":"DATA"}}\n\n'
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":1}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":2,"content_block":'
    b'{"type":"tool_use","id":"toolu_1","name":"read","input":{}}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":2,"delta":'
    b'{"type":"input_json_delta","partial_json":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":2,"delta":'
    b'{"type":"input_json_delta","partial_json":"{\\"city\\": \\"Par"}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":2,"delta":'
    b'{"type":"input_json_delta","partial_json":"is\\"}"}}\n\n'
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":2}\n\n'
    b'event: tomorrow\ndata: {"type":"tomorrow","index":2}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":3,"content_block":'
    b'{"type":"tool_use","id":"toolu_2","name":"now","input":{}}}\n\n'
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":3}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"tool_use",'
    b'"stop_sequence":null},"usage":{"output_tokens":89}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)
WHOLE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [
        {"type": "thinking", "thinking": "Two lookups.", "signature": "SIG"},
        {"type": "redacted_thinking", "data": "DATA"},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"city": "Paris"}},
        {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 80,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 15,
        "output_tokens": 89,
    },
}


def streamed(data: bytes, sizes: list[int] | None = None) -> Reply:
    decoder = DIALECT.new_decoder()
    events = [event for portion in in_portions(data, sizes or []) for event in decoder.feed(portion)]
    return fold([*events, *decoder.close()], HERE)


def whole(body: Any) -> Reply:
    return fold(DIALECT.decode_reply(json.dumps(body).encode()), HERE)


def encoded(events: list[Event], model: str = "model-1") -> bytes:
    encoder = DIALECT.new_encoder(model)
    return b"".join([*(encoder.feed(event) for event in events), encoder.close()])


@requirement("Scenario: Tool Call Response Format", "Scenario: Tool Call Arguments Parsing")
def test_a_streamed_reply_says_what_the_whole_one_says() -> None:
    reply = streamed(STREAM)
    assert reply.message.blocks == (
        Reasoning("Two lookups.", Seal(HERE, "SIG")),
        Reasoning("", Seal(HERE, "DATA", "redacted")),
        ToolCall("", "read", {"city": "Paris"}, '{"city": "Paris"}', "toolu_1"),
        ToolCall("", "now", {}, "{}", "toolu_2"),
    )
    assert (reply.finish, reply.raw_finish) == ("tool_calls", "tool_use")
    assert reply.usage == Usage(100, 89, 15, 5)
    assert whole(WHOLE) == reply


@given(cuts)
def test_a_stream_may_be_cut_anywhere(sizes: list[int]) -> None:
    assert streamed(STREAM, sizes) == streamed(STREAM)


@given(replies(), cuts)
def test_a_reply_survives_the_wire_however_it_is_cut(events: list[Event], sizes: list[int]) -> None:
    told, received = fold(events, HERE), streamed(encoded(events), sizes)
    assert received.message == told.message
    assert (received.finish, received.usage, received.id) == (told.finish, told.usage, told.id)


@given(replies())
def test_a_whole_reply_survives_the_wire(events: list[Event]) -> None:
    told = fold(events, HERE)
    received = fold(DIALECT.decode_reply(DIALECT.encode_reply(told)), HERE)
    assert received.message == told.message
    assert (received.finish, received.usage, received.id) == (told.finish, told.usage, told.id)


@given(st.integers(0, len(STREAM)))
def test_a_stream_without_an_end_is_a_failure(length: int) -> None:
    reply = streamed(STREAM[:length])
    if length < STREAM.index(b"\n\nevent: message_stop"):
        assert reply.finish == "error"
        assert type(reply.error) is ProtocolError
    else:  # only its goodbye is missing, if anything
        assert reply == streamed(STREAM)


def test_a_stream_that_lacks_only_its_goodbye_is_whole() -> None:
    cut = STREAM[: STREAM.index(b"event: message_stop")]
    assert streamed(cut) == streamed(STREAM)


def test_an_event_that_cannot_be_read_ends_the_reply() -> None:
    reply = streamed(STREAM.replace(b'{"type":"ping"}', b"{ping"))
    assert str(reply.error) == "The reply broke off: an event of it could not be read."
    assert reply.message.blocks == (Reasoning("Two lookups.", Seal(HERE, "SIG")),)


def test_an_error_in_the_stream_ends_it() -> None:
    head = STREAM[: STREAM.index(b"event: ping")]
    error = (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    )
    reply = streamed(head + error + STREAM)
    assert type(reply.error) is OverloadError
    assert reply.message.blocks == (Reasoning("Two lookups.", Seal(HERE, "SIG")),)


@pytest.mark.parametrize(("word", "finish"), FINISHES.known.items())
def test_every_stop_reason_has_its_finish(word: str, finish: str) -> None:
    reply = whole({**WHOLE, "stop_reason": word})
    assert (reply.finish, reply.raw_finish) == (finish, word)
    assert fold(DIALECT.decode_reply(DIALECT.encode_reply(reply)), HERE) == reply


def test_an_unknown_stop_reason_is_a_stop_and_keeps_its_word() -> None:
    reply = whole({**WHOLE, "stop_reason": "bored"})
    assert (reply.finish, reply.raw_finish) == ("stop", "bored")


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'{"type":"message"}', b"\xff", b'{"content":3}'])
def test_what_is_no_reply_is_a_failure(body: bytes) -> None:
    (event,) = DIALECT.decode_reply(body)
    assert type(event) is Failed


def test_an_error_in_the_place_of_a_reply_is_told_as_one() -> None:
    body = b'{"type":"error","error":{"type":"invalid_request_error","message":"no"}}'
    assert type(fold(DIALECT.decode_reply(body), HERE).error) is InvalidRequestError


def test_blocks_follow_one_another_on_the_wire_and_only_unfinished_calls_overlap() -> None:
    events: list[Event] = [
        TextDelta(0, "Both."),
        CallStarted(1, "a", "read"),
        ArgumentsDelta(1, '{"n":'),
        CallStarted(2, "b", "read"),
        ArgumentsDelta(2, "{}"),
        ArgumentsDelta(1, "1}"),
        Finished("tool_calls"),
    ]
    order = [
        (frame["type"].removeprefix("content_block_"), frame.get("index"))
        for frame in _frames(encoded(events))
        if frame["type"].startswith("content_block_") and frame["type"] != "content_block_delta"
    ]
    assert order == [("start", 0), ("stop", 0), ("start", 1), ("start", 2), ("stop", 1), ("stop", 2)]


def test_what_the_provider_did_itself_is_kept_for_it_and_not_shown() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "cats"}}
    reply = whole(
        {**WHOLE, "content": [search, {"type": "text", "text": "Cats."}], "stop_reason": "pause_turn"}
    )
    assert reply.message.text == "Cats."
    assert json.loads(DIALECT.encode_reply(reply))["content"][0] == search
    events = DIALECT.decode_reply(DIALECT.encode_reply(reply))
    assert streamed(encoded(events, reply.model)) == reply
    pieces = STREAM.replace(
        b'"tool_use","id":"toolu_1","name":"read"', b'"server_tool_use","id":"s","name":"read"'
    )
    first, *_ = streamed(pieces).message.blocks[2:]
    assert type(first) is Text
    assert first.seal is not None
    assert json.loads(first.seal.payload)["input"] == {"city": "Paris"}
    assert len(streamed(pieces).message.calls) == 1


def test_what_the_wire_cannot_show_is_described() -> None:
    reply = streamed(encoded([MediaArrived(0, Media("image", "image/png", "iVBO")), Finished("stop")]))
    assert reply.message.text.startswith("[image")


def test_a_failure_is_told_as_an_error_event_and_nothing_follows() -> None:
    data = encoded(
        [ReplyStarted("msg_1"), TextDelta(0, "A"), Failed(OverloadError("busy")), TextDelta(0, "B")]
    )
    assert [frame["type"] for frame in _frames(data)][-1] == "error"
    assert type(streamed(data).error) is OverloadError


def test_the_encoder_gives_counts_and_seals_back() -> None:
    usage = Usage(100, 9, 40, 10, 3)
    events: list[Event] = [Sealed(0, "SIG"), TextDelta(1, "A"), Finished("stop"), UsageReported(usage)]
    reply = streamed(encoded(events))
    assert reply.usage == usage
    assert reply.message.blocks == (Reasoning("", Seal(HERE, "SIG")), Text("A"))


def _frames(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in data.decode().split("\n") if line.startswith("data: ")]


@needs_recordings
def test_every_recorded_reply_survives_decoding_and_encoding() -> None:
    seen = 0
    for name, recording in recordings("v1-messages", "anthropic").items():
        answer = recording["response"]
        body = body_of(answer)
        if (answer["status"] or 200) >= 400 or "count_tokens" in name or b"response.created" in body:
            continue
        if answer.get("stream"):
            decoder = DIALECT.new_decoder()
            events = [*decoder.feed(body), *decoder.close()]
        else:
            events = DIALECT.decode_reply(body)
        reply = without_price_facts(fold(events, HERE))
        assert reply.error is None, name
        assert reply.usage.input_tokens is not None, name
        assert streamed(encoded(events, reply.model)) == reply, name
        assert fold(DIALECT.decode_reply(DIALECT.encode_reply(reply)), HERE) == reply, name
        seen += 1
    assert seen > 100


@needs_recordings
def test_every_recorded_refusal_has_a_sensible_class() -> None:
    remedies = {400: "fix", 401: "log_in", 404: "fix", 429: "wait", 503: "go_elsewhere", 529: "go_elsewhere"}
    seen = 0
    for name, recording in recordings("v1-", "anthropic").items():
        answer = recording["response"]
        status = answer["status"] or 0
        if status >= 400:
            error = DIALECT.decode_error(status, headers_of(answer), body_of(answer))
            assert error.remedy == remedies[status], name
            assert error.message, name
            seen += 1
    assert seen > 20


def test_the_sdk_accumulates_what_we_stream() -> None:
    pytest.importorskip("anthropic")
    from anthropic.lib.streaming._messages import accumulate_event
    from anthropic.types import Message as SdkMessage
    from pydantic import TypeAdapter

    usage = Usage(100, 9, 40, 10, 3)
    events: list[Event] = [
        ReplyStarted("msg_1", "claude-x"),
        Sealed(0, "DATA", "redacted"),
        Sealed(1, "SIG"),
        TextDelta(2, "Both."),
        CallStarted(3, "toolu_1", "read"),
        ArgumentsDelta(3, '{"n":'),
        CallStarted(4, "toolu_2", "now"),
        ArgumentsDelta(3, "1}"),
        UsageReported(usage),
        Finished("tool_calls"),
    ]
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for frame in _frames(encoded(events, "claude-x")):
        if frame["type"] != "message_stop":
            snapshot = accumulate_event(event=frame, current_snapshot=snapshot, json_bufs=buffers)  # type: ignore[arg-type]
    assert [block.type for block in snapshot.content] == [
        "redacted_thinking",
        "thinking",
        "text",
        "tool_use",
        "tool_use",
    ]
    assert [block.input for block in snapshot.content[3:]] == [{"n": 1}, {}]
    assert (snapshot.content[1].signature, snapshot.stop_reason) == ("SIG", "tool_use")
    assert (snapshot.usage.input_tokens, snapshot.usage.cache_read_input_tokens) == (50, 40)
    body = DIALECT.encode_reply(fold(events, HERE))
    parsed = TypeAdapter(SdkMessage).validate_json(body)
    assert [block.type for block in parsed.content] == [block.type for block in snapshot.content]


@pytest.fixture(scope="module")
def sdk() -> tuple[Any, Any]:
    """Validators of a whole reply and of a stream's event, made of the SDK's own types."""
    types = pytest.importorskip("anthropic.types")
    from pydantic import TypeAdapter

    return TypeAdapter(types.Message), TypeAdapter(types.RawMessageStreamEvent)


@given(events=replies())
def test_the_sdk_takes_every_reply_we_encode(sdk: tuple[Any, Any], events: list[Event]) -> None:
    of_replies, of_events = sdk
    of_replies.validate_json(DIALECT.encode_reply(fold(events, HERE)))
    for frame in _frames(encoded(events)):
        of_events.validate_python(frame)


def test_a_failed_reply_is_encoded_as_an_error() -> None:
    reply = Reply(Message("model", ()), error=OverloadError("busy"))
    assert type(fold(DIALECT.decode_reply(DIALECT.encode_reply(reply)), HERE).error) is OverloadError
