"""Replies on the Chat wire, whole and streamed, with all the habits that servers have."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall
from segue.conversation.events import Event, Failed, Finished, FinishReason, Reply, fold
from segue.conversation.message import Message
from segue.conversation.usage import Usage
from segue.dialects.registry import CHAT_NAMES, DIALECTS
from segue.errors import OverloadError, ProtocolError, QuotaError, RateLimitError

DONE = "data: [DONE]\n\n"


def chunk(delta: dict[str, Any], finish: str | None = None, **fields: Any) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'r', 'model': 'm', 'choices': [choice], **fields})}\n\n"


def call(index: int | None, call_id: str | None, name: str | None, arguments: str | None) -> dict[str, Any]:
    told: dict[str, Any] = {"function": {"name": name, "arguments": arguments}}
    if index is not None:
        told["index"] = index
    if call_id is not None:
        told["id"] = call_id
    return {"tool_calls": [told]}


def heard(name: str, *portions: str | bytes) -> list[Event]:
    decoder = DIALECTS[name].new_decoder()
    events: list[Event] = []
    for portion in portions:
        events += decoder.feed(portion.encode() if isinstance(portion, str) else portion)
    return events + decoder.close()


def streamed(*portions: str, name: str = "openai_chat") -> Reply:
    return fold(heard(name, "".join(portions)), Origin(name))


def whole(
    message: dict[str, Any], finish: str | None = "stop", name: str = "openai_chat", **fields: Any
) -> Reply:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    body = json.dumps({"id": "r", "model": "m", "choices": [choice], **fields}).encode()
    return fold(DIALECTS[name].decode_reply(body), Origin(name))


@pytest.mark.requirement("Scenario: Parse OpenAI tool calls", "Scenario: Chat Completion with Tools")
def test_parallel_calls_arrive_as_interleaved_deltas() -> None:
    reply = streamed(
        chunk({"role": "assistant", "content": None}),
        chunk(call(0, "a", "f", "")),
        chunk(call(1, "b", "g", "")),
        chunk(call(1, None, None, '{"x"')),
        chunk(call(0, None, None, "{}")),
        chunk(call(1, None, None, ": 1}")),
        chunk({}, "tool_calls"),
        'data: {"choices":[],"usage":{"prompt_tokens":80,"completion_tokens":30,"total_tokens":110}}\n\n',
        DONE,
    )
    assert reply.message.blocks == (
        ToolCall("", "f", {}, "{}", "a"),
        ToolCall("", "g", {"x": 1}, '{"x": 1}', "b"),
    )
    assert (reply.finish, reply.usage, reply.id, reply.model) == ("tool_calls", Usage(80, 30), "r", "m")


@pytest.mark.parametrize(
    "deltas",
    [
        [call(None, "a", "f", "{}"), call(None, "b", "g", "{}")],
        [call(0, "a", "f", "{}"), call(0, "b", "g", "{}")],
        [call(0, "a", "f", ""), call(0, "", None, "{}"), call(1, "b", "g", ""), call(1, "", None, "{}")],
        [call(0, "a", "f", ""), call(0, "a", "f", "{}"), call(1, "b", "g", "{}")],
        [call(None, "a", "f", "{"), call(None, None, None, "}"), call(None, "b", "g", "{}")],
        [call(0, "a", None, None), call(0, None, "f", "{}"), call(1, "b", "g", "{}")],
    ],
    ids=["no index", "every index 0", "empty ids", "repeated ids", "neither", "name later"],
)
def test_calls_are_told_apart_however_a_server_numbers_them(deltas: list[dict[str, Any]]) -> None:
    reply = streamed(*(chunk(delta) for delta in deltas), chunk({}, "stop"), DONE)
    assert [(each.native_id, each.name, each.raw) for each in reply.message.calls] == [
        ("a", "f", "{}"),
        ("b", "g", "{}"),
    ]
    assert reply.finish == "tool_calls"


@pytest.mark.requirement("Scenario: Parse OpenAI tool calls")
def test_calls_content_and_usage_of_a_whole_reply_are_read() -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": '{"x": 1}'}},
    ]
    counts = {"prompt_tokens": 80, "completion_tokens": 30, "total_tokens": 110}
    reply = whole({"content": "Look:", "tool_calls": calls}, "tool_calls", usage=counts)
    assert reply.message.blocks == (
        Text("Look:"),
        ToolCall("", "f", {}, "{}", "a"),
        ToolCall("", "g", {"x": 1}, '{"x": 1}', "b"),
    )
    assert (reply.finish, reply.usage, reply.id, reply.model) == ("tool_calls", Usage(80, 30), "r", "m")


def test_calls_of_a_whole_reply_stay_apart_even_when_they_share_an_id() -> None:
    function = {"name": "f", "arguments": "{}"}
    reply = whole({"content": None, "tool_calls": [{"id": "a", "function": function}] * 2}, "tool_calls")
    assert len(reply.message.calls) == 2


def test_arguments_that_are_no_text_and_contents_that_are_no_string_are_read_all_the_same() -> None:
    function = {"name": "f", "arguments": {"x": 1}}
    reply = whole({"content": {"title": "Apples"}, "tool_calls": [{"id": 7, "function": function}]})
    assert reply.message.blocks == (
        Text('{"title":"Apples"}'),
        ToolCall("", "f", {"x": 1}, '{"x":1}', "7"),
    )
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "4"},
    ]
    assert whole({"content": parts}).message.blocks == (Reasoning("hm"), Text("4"))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_heard_in_either_field(field: str) -> None:
    reply = streamed(chunk({field: "h", "content": ""}), chunk({field: "m"}), chunk({"content": "4"}, "stop"))
    assert reply.message.blocks == (Reasoning("hm"), Text("4"))


def test_reasoning_details_are_put_together_and_sealed_as_they_came() -> None:
    def detail(**fields: Any) -> dict[str, Any]:
        return {"reasoning_details": [{"type": "reasoning.text", "index": 0, **fields}]}

    reply = streamed(
        chunk({"reasoning": "He", **detail(text="He", signature=None)}),
        chunk({"reasoning": "llo", **detail(text="llo")}),
        chunk(detail(signature="sig")),
        chunk({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "zz"}]}),
        chunk({"content": "4"}, "stop"),
        DONE,
        name="openrouter",
    )
    thought = reply.message.blocks[0]
    assert isinstance(thought, Reasoning)
    assert thought.seal is not None
    assert (thought.text, thought.seal.kind) == ("Hello", "encrypted")
    details = [
        {"type": "reasoning.text", "index": 0, "text": "Hello", "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 1, "data": "zz"},
    ]
    assert json.loads(thought.seal.payload) == details
    assert whole({"content": "4", "reasoning_details": details}, name="openrouter").message == reply.message


def test_signatures_of_calls_are_seals_of_the_calls() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    told = {"id": "a", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}
    reply = whole({"tool_calls": [told]}, name="openai_compatible")
    assert reply.message.calls[0].seal == Seal(Origin("openai_compatible"), "sig", "thought")


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 5,
                "total_tokens": 14,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(9, 5, 4, reasoning_tokens=3),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 5, "cached_tokens": 4}, Usage(9, 5, 4)),
        ({"prompt_tokens": 9, "completion_tokens": 5, "prompt_cache_hit_tokens": 4}, Usage(9, 5, 4)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 5,
                "total_tokens": 17,
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(9, 8, reasoning_tokens=3),
        ),
    ],
    ids=["openai", "kimi", "deepseek", "xai counts reasoning apart"],
)
def test_usage_is_reckoned_alike_wherever_it_is_told(counts: dict[str, Any], usage: Usage) -> None:
    assert whole({"content": "4"}, usage=counts).usage == usage
    end = {"index": 0, "delta": {}, "finish_reason": "stop", "usage": counts}
    for told in ({"usage": counts}, {"x_groq": {"usage": counts}}, {"choices": [end]}):
        assert streamed(chunk({"content": "4"}), chunk({}, "stop", **told), DONE).usage == usage


@pytest.mark.parametrize(
    ("raw", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("sensitive", "content_filter"),
        ("", "stop"),
        ("something_new", "stop"),
        ("abort", "cancelled"),
    ],
)
def test_the_reason_for_ending_is_one_of_ours_and_the_servers_word_is_kept(raw: str, finish: str) -> None:
    reply = streamed(chunk({"content": "x"}), chunk({}, raw), DONE)
    assert (reply.finish, reply.raw_finish) == (finish, raw)


def test_a_refusal_is_text_that_ended_for_its_content() -> None:
    for reply in (
        whole({"content": None, "refusal": "I can't."}),
        streamed(chunk({"refusal": "I ca"}), chunk({"refusal": "n't."}), chunk({}, "stop"), DONE),
    ):
        assert (reply.message.text, reply.finish) == ("I can't.", "content_filter")


def test_images_that_a_model_makes_arrive() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert whole({"content": "", "images": [image]}).message.blocks == (Media("image", "image/png", "AAAA"),)


# What goes wrong


@pytest.mark.requirement("Property 16")
def test_an_error_in_the_middle_of_a_stream_is_a_failure_and_what_was_said_is_kept() -> None:
    error = {
        "message": "You exceeded your current quota",
        "type": "insufficient_quota",
        "code": "insufficient_quota",
    }
    reply = streamed(chunk({"content": "Hel"}), f"data: {json.dumps({'error': error})}\n\n")
    assert isinstance(reply.error, QuotaError)
    assert (reply.message.text, reply.finish) == ("Hel", "error")


def test_openrouter_tells_errors_inside_an_answer_with_status_200() -> None:
    error = {"code": 429, "message": "Provider returned error", "metadata": {"raw": "slow down"}}
    for reply in (
        fold(DIALECTS["openrouter"].decode_reply(json.dumps({"error": error}).encode()), Origin()),
        streamed(
            ": OPENROUTER PROCESSING\n\n", chunk({"content": ""}, "error", error=error), name="openrouter"
        ),
    ):
        assert isinstance(reply.error, RateLimitError)
        assert reply.error.message == "Provider returned error: slow down"


def test_an_engine_that_gave_up_is_overloaded() -> None:
    assert isinstance(streamed(chunk({}, "engine_overloaded"), DONE, name="kimi").error, OverloadError)


def test_a_stream_that_is_cut_in_a_chunk_fails_and_keeps_what_it_said() -> None:
    reply = streamed(chunk({"content": "Hel"}), "data: {broken")
    assert isinstance(reply.error, ProtocolError)
    assert reply.error.code == "reply_cut_off"
    assert reply.message.text == "Hel"


def test_a_chunk_that_cannot_be_read_ends_the_reply() -> None:
    reply = streamed(chunk({"content": "Hel"}), "data: {broken\n\n", chunk({"content": "lo"}, "stop"), DONE)
    assert (reply.message.text, reply.finish) == ("Hel", "error")
    assert str(reply.error) == "The reply broke off: a chunk of it could not be read."


def test_a_call_behind_the_reason_of_the_end_is_never_run_with_a_hole() -> None:
    """Some servers send the reason first."""
    begun = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "rm", "arguments": ""}}]}
    more = {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}
    reply = streamed(chunk(begun, "tool_calls"), "data: {broken\n\n", chunk(more, "tool_calls"), DONE)
    assert reply.finish == "error"


@pytest.mark.parametrize("name", CHAT_NAMES)
@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b"{}", b'{"choices":[]}', b"data: [DONE]\n\n"])
def test_an_answer_without_an_answer_is_a_failure(name: str, answer: bytes) -> None:
    for events in (DIALECTS[name].decode_reply(answer), heard(name, answer)):
        assert [type(event) for event in events] == [Failed]


def test_a_plain_json_answer_where_a_stream_was_expected_is_understood() -> None:
    reply = streamed('{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}')
    assert isinstance(reply.error, RateLimitError)


def test_the_end_is_told_once_and_last() -> None:
    events = heard(
        "openai_chat", chunk({"content": "x"}, "stop"), chunk({}, "stop"), DONE, DONE, chunk({"content": "y"})
    )
    assert [index for index, event in enumerate(events) if isinstance(event, Finished)] == [len(events) - 1]


# There and back

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
calls = st.builds(
    lambda number, name, arguments: ToolCall("", name, arguments, json.dumps(arguments), f"call_{number}"),
    st.integers(0, 9),
    st.sampled_from(["f", "get_weather"]),
    st.dictionaries(texts, st.integers() | texts | st.booleans(), max_size=2),
)
counts = st.none() | st.integers(0, 10**6)
sums = st.integers(2 * 10**6, 3 * 10**6)  # their parts are no more
usages = st.just(Usage()) | st.builds(Usage, sums, st.integers(1, 99), counts, counts, counts)


@st.composite
def replies(draw: st.DrawFn, name: str) -> Reply:
    origin = Origin(name)
    blocks: list[Any] = []
    if draw(st.booleans()):
        details = json.dumps([{"type": "reasoning.text", "text": "hm", "index": 0}], separators=(",", ":"))
        seal = Seal(origin, details) if name in ("openrouter", "minimax") else None
        blocks.append(Reasoning(draw(texts), seal))
    if draw(st.booleans()):
        blocks.append(Text(draw(texts)))
    blocks += draw(st.lists(calls, max_size=3))
    called = any(isinstance(block, ToolCall) for block in blocks)
    finish: FinishReason = (
        "tool_calls" if called else draw(st.sampled_from(["stop", "length", "content_filter"]))
    )
    usage = draw(usages)
    if usage.reasoning_tokens and usage.output_tokens:  # reasoning is a part of the output
        usage = Usage(usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cache_write_tokens)
    return Reply(Message("model", tuple(blocks), origin), finish, usage, "r", "m", finish)


@given(st.data())
def test_a_reply_that_we_write_is_the_reply_that_we_read(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(CHAT_NAMES))
    reply = data.draw(replies(name))
    dialect = DIALECTS[name]
    events = dialect.decode_reply(dialect.encode_reply(reply))
    assert fold(events, Origin(name)) == reply
    encoder = dialect.new_encoder("m")
    stream = b"".join(encoder.feed(event) for event in events) + encoder.close()
    edges = sorted({0, len(stream), *data.draw(st.lists(st.integers(0, len(stream)), max_size=6))})
    assert fold(heard(name, *(stream[start:end] for start, end in pairwise(edges))), Origin(name)) == reply


def test_thoughts_inside_the_text_are_reasoning_where_a_server_may_send_them_so() -> None:
    pieces = ["<thi", "nk>hm</th", "ink>\n", "\n4"]
    reply = streamed(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"), DONE, name="vllm")
    assert reply.message.blocks == (Reasoning("hm"), Text("4"))
    assert whole({"content": "<think>hm</think>4"}, name="groq").message.blocks == (
        Reasoning("hm"),
        Text("4"),
    )
    assert whole({"content": "<think>hm</think>4"}).message.blocks == (Text("<think>hm</think>4"),)


def test_signatures_pictures_and_sounds_survive_a_stream() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    portions = (
        chunk({"content": "Look", "extra_content": extra}),
        chunk({"images": [image]}),
        chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}, "extra_content": extra}]}),
        chunk({"audio": {"transcript": "!", "data": "QQ"}}),
        chunk({"audio": {"data": "=="}}, "stop"),
        DONE,
    )
    name = "openai_compatible"
    seal = Seal(Origin(name), "sig", "thought")
    events = heard(name, "".join(portions))
    reply = fold(events, Origin(name))
    assert reply.message.blocks == (
        Text("Look!", seal),
        Media("image", "image/png", "AAAA"),
        ToolCall("", "f", {}, "", "a", seal),
        Media("audio", "audio/wav", "QQ=="),
    )
    encoder = DIALECTS[name].new_encoder("m")
    stream = b"".join(encoder.feed(event) for event in events) + encoder.close()
    assert fold(heard(name, stream), Origin(name)).message == reply.message
    again = fold(DIALECTS[name].decode_reply(DIALECTS[name].encode_reply(reply)), Origin(name))
    assert {type(block) for block in again.message.blocks} == {Text, Media, ToolCall}
    assert again.message.calls[0].seal == seal


def test_the_deprecated_function_call_is_heard() -> None:
    function = {"name": "f", "arguments": '{"a":'}
    reply = streamed(
        chunk({"function_call": function}),
        chunk({"function_call": {"arguments": "1}"}}, "function_call"),
        DONE,
    )
    assert reply.message.blocks == (ToolCall("", "f", {"a": 1}, '{"a":1}'),)
    assert (reply.finish, reply.raw_finish) == ("tool_calls", "function_call")


def test_an_error_that_is_an_event_of_its_own_is_a_failure() -> None:
    reply = streamed(chunk({"content": "x"}), 'event: error\ndata: {"error": {"message": "overloaded"}}\n\n')
    assert isinstance(reply.error, OverloadError)
    assert streamed("event: error\ndata: gone\n\n").error is not None


def test_a_failure_that_we_write_breaks_the_stream_off() -> None:
    encoder = DIALECTS["openai_chat"].new_encoder("m")
    events = heard("openai_chat", chunk({"content": "x"}))
    stream = b"".join(encoder.feed(event) for event in events if not isinstance(event, Failed))
    stream += encoder.feed(Failed(QuotaError("no money"))) + encoder.close()
    reply = fold(heard("openai_chat", stream), Origin())
    assert isinstance(reply.error, QuotaError)
    assert reply.message.text == "x"
    assert b"[DONE]" not in stream
