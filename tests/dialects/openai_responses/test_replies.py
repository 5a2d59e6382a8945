"""Replies of the Responses wire, whole and streamed: one fold, however they came and wherever they were cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from dialects.recordings import body_of, headers_of, needs_recordings, recordings, without_price_facts
from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Failed,
    Finished,
    MediaArrived,
    ReasoningDelta,
    Reply,
    ReplyStarted,
    Sealed,
    TextDelta,
    UsageReported,
    fold,
)
from segue.conversation.usage import Usage
from segue.dialects.openai_responses import DIALECT
from segue.errors import ContextLengthError, InvalidRequestError, OverloadError, ProtocolError
from strategies.replies import cuts, in_portions, replies

requirement = pytest.mark.requirement

HERE = Origin("openai_responses", "p", "e", "m")

OUTPUT: list[dict[str, Any]] = [
    {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Two"}, {"type": "summary_text", "text": "lookups."}],
        "encrypted_content": "gAAA-final",
    },
    {
        "id": "msg_1",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Checking.", "annotations": []}],
    },
    {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"city":"Paris"}'},
    {"id": "fc_2", "type": "function_call", "call_id": "c2", "name": "now", "arguments": "{}"},
]
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "gpt-x",
    "output": OUTPUT,
    "usage": {
        "input_tokens": 80,
        "input_tokens_details": {"cached_tokens": 10},
        "output_tokens": 60,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 140,
    },
}


def frames(*events: dict[str, Any]) -> bytes:
    told = ({**event, "sequence_number": number} for number, event in enumerate(events))
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in told)


def delta(kind: str, index: int, text: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "item_id": "x", "output_index": index, "delta": text, **more}


def added(index: int, **changed: Any) -> dict[str, Any]:
    item = {**OUTPUT[index], **changed}
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": OUTPUT[index]}


BEGIN = {
    "type": "response.created",
    "response": {**RESPONSE, "status": "in_progress", "output": [], "usage": None},
}
END = {"type": "response.completed", "response": RESPONSE}
STREAM = frames(
    BEGIN,
    {"type": "keepalive"},
    added(0, summary=[], encrypted_content="gAAA-partial"),
    delta("reasoning_summary_text", 0, "Two", summary_index=0),
    delta("reasoning_summary_text", 0, "look", summary_index=1),
    delta("reasoning_summary_text", 0, "ups.", summary_index=1),
    done(0),
    added(1, content=[]),
    delta("output_text", 1, "Check", content_index=0),
    delta("output_text", 1, "ing.", content_index=0),
    done(1),
    added(2, arguments=""),
    added(3, arguments=""),
    delta("function_call_arguments", 2, '{"city":'),
    delta("function_call_arguments", 3, "{}"),
    delta("function_call_arguments", 2, '"Paris"}'),
    done(2),
    done(3),
    END,
)


def streamed(data: bytes, sizes: list[int] | None = None) -> Reply:
    decoder = DIALECT.new_decoder()
    events = [event for portion in in_portions(data, sizes or []) for event in decoder.feed(portion)]
    return fold([*events, *decoder.close()], HERE)


def whole(body: Any) -> Reply:
    return fold(DIALECT.decode_reply(json.dumps(body).encode()), HERE)


def encoded(events: list[Event], model: str = "model-1") -> bytes:
    encoder = DIALECT.new_encoder(model)
    return b"".join([*(encoder.feed(event) for event in events), encoder.close()])


def told(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in data.decode().split("\n") if line.startswith("data: ")]


def same(one: Reply, other: Reply) -> bool:
    """Counts that nobody told are 0 on this wire."""
    one, other = without_price_facts(one), without_price_facts(other)
    cached, written = one.usage.cached_tokens or 0, one.usage.cache_write_tokens or 0
    usage = structs.replace(
        one.usage,
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=one.usage.reasoning_tokens or 0,
    )
    return (one.message, one.finish, usage, one.id) == (other.message, other.finish, other.usage, other.id)


@requirement("Scenario: Tool Call Response Format", "Scenario: Tool Call Arguments Parsing")
def test_a_streamed_reply_says_what_the_whole_one_says() -> None:
    reply = streamed(STREAM)
    assert reply.message.blocks == (
        Reasoning("Two\n\nlookups.", Seal(HERE, "gAAA-final", "encrypted")),
        Text("Checking."),
        ToolCall("", "read", {"city": "Paris"}, '{"city":"Paris"}', "c1"),
        ToolCall("", "now", {}, "{}", "c2"),
    )
    assert (reply.finish, reply.raw_finish) == ("tool_calls", "completed")
    assert reply.usage == Usage(80, 60, 10, None, 20)
    assert whole(RESPONSE) == reply


@given(cuts)
def test_a_stream_may_be_cut_anywhere(sizes: list[int]) -> None:
    assert streamed(STREAM, sizes) == streamed(STREAM)


@given(replies(), cuts)
def test_a_reply_survives_the_wire_however_it_is_cut(events: list[Event], sizes: list[int]) -> None:
    assert same(fold(events, HERE), streamed(encoded(events), sizes))


@given(replies())
def test_a_whole_reply_survives_the_wire(events: list[Event]) -> None:
    reply = fold(events, HERE)
    assert same(reply, fold(DIALECT.decode_reply(DIALECT.encode_reply(reply)), HERE))


@given(st.integers(0, len(STREAM) - 5))
def test_a_stream_without_an_end_is_a_failure(length: int) -> None:
    reply = streamed(STREAM[:length])
    assert reply.finish == "error"
    assert type(reply.error) is ProtocolError


def test_the_final_state_supplies_what_the_stream_left_out() -> None:
    assert streamed(frames(BEGIN, END)) == streamed(STREAM)
    assert streamed(frames(BEGIN, *(done(index) for index in range(4)), END)) == streamed(STREAM)


def test_a_final_state_with_other_ids_repeats_nothing() -> None:
    renamed = {**RESPONSE, "output": [{**item, "id": f"other_{item['id']}"} for item in OUTPUT]}
    begun = STREAM[: STREAM.index(b"event: response.completed")]
    assert streamed(begun + frames({**END, "response": renamed})).message == streamed(STREAM).message


def test_an_event_that_cannot_be_read_ends_the_reply() -> None:
    broken = STREAM.replace(b'"type": "keepalive"', b'"type": keepalive')
    assert str(streamed(broken).error) == "The reply broke off: an event of it could not be read."


LONG = {
    "type": "invalid_request_error",
    "code": "context_length_exceeded",
    "message": "Too long.",
    "param": "input",
}


@pytest.mark.parametrize(
    "error",
    [
        {"type": "error", "error": LONG},
        {"type": "error", "code": LONG["code"], "message": LONG["message"], "param": "input"},
        {
            "type": "response.failed",
            "response": {**RESPONSE, "status": "failed", "error": LONG, "output": []},
        },
    ],
)
def test_both_shapes_of_an_error_end_the_stream(error: dict[str, Any]) -> None:
    reply = streamed(frames(BEGIN, delta("output_text", 0, "Hm", content_index=0), error, END))
    assert type(reply.error) is ContextLengthError
    assert reply.message.text == "Hm"


@pytest.mark.parametrize(
    ("changed", "finish", "raw"),
    [
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "length",
            "max_output_tokens",
        ),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "content_filter",
            "content_filter",
        ),
        ({"status": "incomplete", "incomplete_details": {"reason": "steered"}}, "stop", "steered"),
        ({"status": "cancelled"}, "cancelled", "cancelled"),
        ({"status": "completed", "output": OUTPUT[:2]}, "stop", "completed"),
    ],
)
def test_every_status_has_its_finish(changed: dict[str, Any], finish: str, raw: str) -> None:
    reply = whole({**RESPONSE, **changed})
    assert (reply.finish, reply.raw_finish) == (finish, raw)


def test_a_refusal_is_text_that_ends_the_reply() -> None:
    message = {**OUTPUT[1], "content": [{"type": "refusal", "refusal": "I cannot."}]}
    reply = whole({**RESPONSE, "output": [message]})
    assert (reply.message.text, reply.finish) == ("I cannot.", "content_filter")
    assert same(reply, fold(DIALECT.decode_reply(DIALECT.encode_reply(reply)), HERE))
    start = added(1, content=[])
    parts = (start, delta("refusal", 1, "I cannot.", content_index=0), {**done(1), "item": message})
    ended = {**END, "response": {**RESPONSE, "output": [message]}}
    assert streamed(frames(BEGIN, *parts, ended)).finish == "content_filter"


def test_a_reply_that_is_not_ready_is_a_failure() -> None:
    assert type(whole({**RESPONSE, "status": "queued", "output": []}).error) is ProtocolError


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b"\xff", b'{"output":3}'])
def test_what_is_no_reply_is_a_failure(body: bytes) -> None:
    (event,) = DIALECT.decode_reply(body)
    assert type(event) is Failed


def test_an_error_in_the_place_of_a_reply_is_told_as_one() -> None:
    body = b'{"error":{"type":"invalid_request_error","message":"no","param":null,"code":null}}'
    assert type(fold(DIALECT.decode_reply(body), HERE).error) is InvalidRequestError


def test_calls_of_other_kinds_are_calls() -> None:
    items = [
        {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "text"},
        {"type": "local_shell_call", "call_id": "c2", "action": {"command": ["ls"]}},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    ]
    first, second = whole({**RESPONSE, "output": items}).message.calls
    assert (first.name, first.arguments) == ("patch", {"input": "text"})
    assert (second.name, second.arguments) == ("local_shell", {"command": ["ls"]})


def test_what_the_provider_did_itself_is_kept_for_it_and_not_shown() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "cats"}}
    reply = whole({**RESPONSE, "output": [search, OUTPUT[1]]})
    assert reply.message.text == "Checking."
    assert json.loads(DIALECT.encode_reply(reply))["output"][0] == search
    finished = {"type": "response.output_item.done", "output_index": 0, "item": search}
    ended = {**END, "response": {**RESPONSE, "output": [search, OUTPUT[1]]}}
    assert streamed(frames(BEGIN, finished, ended)) == reply
    events = DIALECT.decode_reply(DIALECT.encode_reply(reply))
    assert same(reply, streamed(encoded(events)))


def test_a_picture_the_model_made_survives_both_ways() -> None:
    image = Media("image", "image/webp", "UklG")
    events: list[Event] = [MediaArrived(0, image), MediaArrived(1, Media("audio", "audio/wav", "UklG"))]
    reply = streamed(encoded([*events, Finished("stop")]))
    assert reply.message.blocks[0] == image
    assert reply.message.text.startswith("[audio")
    assert fold(DIALECT.decode_reply(DIALECT.encode_reply(reply)), HERE).message == reply.message


def test_a_failure_is_told_as_an_error_and_a_failed_response() -> None:
    data = encoded(
        [ReplyStarted("resp_1"), TextDelta(0, "A"), Failed(OverloadError("busy")), TextDelta(0, "B")]
    )
    assert [event["type"] for event in told(data)][-2:] == ["error", "response.failed"]
    assert type(streamed(data).error) is OverloadError


def test_events_are_numbered_and_items_grow_between_beginning_and_end() -> None:
    events: list[Event] = [
        ReasoningDelta(0, "Hm."),
        Sealed(0, "gAAA", "encrypted"),
        TextDelta(1, "Both."),
        CallStarted(2, "a", "read"),
        ArgumentsDelta(2, "{}"),
        Finished("tool_calls"),
    ]
    data = told(encoded(events))
    assert [event["sequence_number"] for event in data] == list(range(len(data)))
    assert [event["type"].removeprefix("response.") for event in data] == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]


@needs_recordings
def test_every_recorded_reply_survives_decoding_and_encoding() -> None:
    seen = 0
    for name, recording in recordings("responses").items():
        answer = recording["response"]
        body = body_of(answer)
        if (answer["status"] or 200) >= 400:
            continue
        if answer.get("stream"):
            decoder = DIALECT.new_decoder()
            events = [*decoder.feed(body), *decoder.close()]
        else:
            events = DIALECT.decode_reply(body)
        reply = fold(events, HERE)
        if reply.error is not None:  # recorded errors, streams cut short, replies that were not ready
            continue
        assert same(reply, streamed(encoded(events, reply.model))), name
        assert same(reply, fold(DIALECT.decode_reply(DIALECT.encode_reply(reply)), HERE)), name
        seen += 1
    assert seen > 200


@needs_recordings
def test_every_recorded_request_is_read_and_recognised() -> None:
    seen = 0
    for name, recording in recordings("responses").items():
        body = (recording.get("request") or {}).get("json")
        if isinstance(body, dict) and "input" in body:
            assert DIALECT.decode_request(body).messages, name
            assert DIALECT.recognises(body) >= 0.5, name
            seen += 1
    assert seen > 150


@needs_recordings
def test_every_recorded_refusal_has_a_sensible_class() -> None:
    seen = 0
    for name, recording in recordings("responses").items():
        answer = recording["response"]
        status = answer["status"] or 0
        if status >= 400:
            error = DIALECT.decode_error(status, headers_of(answer), body_of(answer))
            about_a_key = status == 401 or "api key" in error.message.lower()
            wanted = "go_elsewhere" if status == 503 else "log_in" if about_a_key else "fix"
            assert error.remedy == wanted, name
            seen += 1
    assert seen > 10


@pytest.fixture(scope="module")
def sdk() -> tuple[Any, Any]:
    """Validators of a whole reply and of a stream's event, made of the SDK's own types."""
    types = pytest.importorskip("openai.types.responses")
    from pydantic import TypeAdapter

    return TypeAdapter(types.Response), TypeAdapter(types.ResponseStreamEvent)


@given(events=replies())
def test_the_sdk_takes_every_reply_we_encode(sdk: tuple[Any, Any], events: list[Event]) -> None:
    of_replies, of_events = sdk
    of_replies.validate_json(DIALECT.encode_reply(fold(events, HERE)))
    for event in told(encoded(events)):
        of_events.validate_python(event)


@given(events=replies())
def test_the_sdk_accumulates_what_we_stream(sdk: tuple[Any, Any], events: list[Event]) -> None:
    from openai._types import omit
    from openai.lib.streaming.responses._responses import ResponseStreamState

    state: Any = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in told(encoded(events)):
        state.handle_event(sdk[1].validate_python(event))
    reply = fold(events, HERE)
    if reply.finish != "length":
        final = state._completed_response
        assert final.output_text == reply.message.text
        calls = [item for item in final.output if item.type == "function_call"]
        assert [call.arguments for call in calls] == [call.raw for call in reply.message.calls]


def test_the_encoder_gives_counts_back() -> None:
    usage = Usage(100, 9, 40, 10, 3)
    assert streamed(encoded([TextDelta(0, "A"), Finished("stop"), UsageReported(usage)])).usage == usage
