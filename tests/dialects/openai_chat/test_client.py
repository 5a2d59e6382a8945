"""OpenAI's own client accepts what we write: requests by its types, replies and streams by its parsers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.conversation.events import Event, fold
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.card import UNKNOWN
from segue.dialects.registry import DIALECTS
from segue.errors import RateLimitError
from segue.transcript.render import render
from strategies.histories import conversations
from strategies.replies import replies

openai = pytest.importorskip("openai", reason="OpenAI's client is not installed")
httpx = pytest.importorskip("httpx", reason="OpenAI's client is not installed")
CHAT = DIALECTS["openai_chat"]


def answering(status: int, body: bytes, kind: str = "application/json") -> Any:
    """A client whose server always gives this answer."""

    def answer(_: Any) -> Any:
        return httpx.Response(status, content=body, headers={"content-type": kind})

    http = httpx.Client(transport=httpx.MockTransport(answer))
    return openai.OpenAI(api_key="none", base_url="http://test.invalid/v1", http_client=http, max_retries=0)


ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@given(data=st.data())
@settings(max_examples=50)
def test_every_request_is_one_by_the_clients_types(data: st.DataObject) -> None:
    pydantic = pytest.importorskip("pydantic")
    types = pytest.importorskip("openai.types.chat")
    conversation = data.draw(conversations(CHAT.rules))
    tools = (ToolSpec("read", "Read.", {"type": "object", "properties": {}}),)
    transcript = render(conversation, None, CHAT.rules)
    body = json.loads(CHAT.encode_request(transcript, tools, Options(model="m"), UNKNOWN).body)
    said = pydantic.TypeAdapter(types.ChatCompletionMessageParam)
    offered = pydantic.TypeAdapter(types.ChatCompletionToolUnionParam)
    for message in body["messages"]:
        said.dump_json(
            said.validate_python(message)
        )  # lists are lazy there: only written out they are all read
    for tool in body["tools"]:
        offered.validate_python(tool)


@given(events=replies(thinks=False))
@settings(max_examples=30)
def test_a_whole_reply_is_read_by_the_client(events: list[Event]) -> None:
    reply = fold(events, CHAT.rules.target)
    client = answering(200, CHAT.encode_reply(reply))
    read = client.chat.completions.create(**ASKED)
    choice = read.choices[0]
    assert (choice.message.content or "") == reply.message.text
    assert choice.finish_reason == reply.finish
    assert [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()] == [
        (call.name, call.raw) for call in reply.message.calls
    ]
    assert (read.usage.prompt_tokens, read.usage.completion_tokens) == (
        reply.usage.input_tokens,
        reply.usage.output_tokens,
    )


@given(events=replies(thinks=False))
@settings(max_examples=30)
def test_a_stream_is_put_together_by_the_client(events: list[Event]) -> None:
    streaming = pytest.importorskip("openai.lib.streaming.chat")
    reply = fold(events, CHAT.rules.target)
    encoder = CHAT.new_encoder("m")
    stream = b"".join(encoder.feed(event) for event in events) + encoder.close()
    state = streaming.ChatCompletionStreamState()
    for chunk in answering(200, stream, "text/event-stream").chat.completions.create(**ASKED, stream=True):
        state.handle_chunk(chunk)
    read = state.current_completion_snapshot
    message = read.choices[0].message
    assert (message.content or "") == reply.message.text
    assert [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()] == [
        (call.native_id, call.name, call.raw) for call in reply.message.calls
    ]
    assert read.usage.total_tokens == reply.usage.total_tokens


def test_a_refusal_is_the_error_that_the_client_knows() -> None:
    status, body = CHAT.encode_error(RateLimitError("slow down"))
    with pytest.raises(openai.RateLimitError) as refused:
        answering(status, body).chat.completions.create(**ASKED)
    assert refused.value.code == "rate_limit_exceeded"
