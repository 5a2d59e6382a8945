"""Servers that send too much, for too long, or nothing at all: an error each, and the conversation continues."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from segue.chat.chat import Chat
from segue.conversation.blocks import Text
from segue.conversation.events import CallStarted, Failed, TextDelta
from segue.conversation.message import Conversation, user
from segue.errors import SegueError
from segue.providers.adapter import ChatRequest, StreamEvent
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.factory import connect
from segue.providers.provider import Provider
from segue.sessions.stores.memory import MemoryStore
from segue.transports.transport import ReplyLimits, Timeouts

Body = Callable[[], AsyncIterator[bytes]]
MIB = 1 << 20
STREAM = "content-type: text/event-stream\r\n"
END = b"data: [DONE]\n\n"


def chunk(**delta: object) -> bytes:
    value = {
        "id": "1",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [{"index": 0, "delta": delta}],
    }
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def finish(reason: str = "stop") -> bytes:
    value = {"id": "1", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    return b"data: " + json.dumps(value).encode() + b"\n\n" + END


@asynccontextmanager
async def serving(*bodies: Body, head: str = STREAM, status: int = 200) -> AsyncIterator[str]:
    """A server that answers one request after another with these bodies, the last one for ever."""
    left = list(bodies)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            length = int(request.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
            await reader.readexactly(length)
            writer.write(f"HTTP/1.1 {status} X\r\n{head}connection: close\r\n\r\n".encode())
            body = left.pop(0) if len(left) > 1 else left[0]
            async for portion in body():
                writer.write(portion)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


def provider_at(url: str, limits: ReplyLimits | None = None, timeouts: Timeouts | None = None) -> Provider:
    config = ProviderConfig(
        base_url=url,
        api_key=Secret("a-key-nobody-may-see"),
        limits=limits or ReplyLimits(),
        timeouts=timeouts or Timeouts(),
    )
    return connect("openai-compatible", config, environ={}, keyring=False)


async def reply_of(provider: Provider) -> tuple[list[StreamEvent], SegueError]:
    request = ChatRequest(model="m", conversation=Conversation((user("hi"),)))
    events = [event async for event in provider.chat_stream(request)]
    assert isinstance(events[-1], Failed)
    return events, events[-1].error


async def once(*portions: bytes) -> AsyncIterator[bytes]:
    for portion in portions:
        yield portion


async def endless_text() -> AsyncIterator[bytes]:
    portion = chunk(content="word " * 200) * 50
    while True:
        yield portion


async def endless_line() -> AsyncIterator[bytes]:
    yield b"data: "
    while True:
        yield b"x" * 65_536


def test_a_body_without_end_is_ended_and_what_came_is_kept() -> None:
    async def main() -> None:
        async with serving(endless_text) as url:
            events, error = await reply_of(provider_at(url, ReplyLimits(body_bytes=MIB)))
        assert error.code == "reply_too_large"
        assert error.remedy == "go_elsewhere"
        assert "1 MiB" in error.message
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        assert 100_000 < len(text) < MIB

    asyncio.run(main())


def test_a_line_without_end_is_ended() -> None:
    async def main() -> None:
        async with serving(endless_line) as url:
            _, error = await reply_of(provider_at(url, ReplyLimits(line_bytes=MIB)))
        assert error.code == "line_too_long"

    asyncio.run(main())


def test_a_compressed_bomb_is_not_inflated_and_its_memory_comes_back() -> None:
    bomb = gzip.compress(b"data: " + bytes(40 * MIB), 1)
    head = STREAM + "content-encoding: gzip\r\n"

    async def main(limits: ReplyLimits, status: int) -> SegueError:
        async with serving(lambda: once(bomb), head=head, status=status) as url:
            _, error = await reply_of(provider_at(url, limits))
        return error

    asyncio.run(main(ReplyLimits(line_bytes=MIB), 200))  # loads what is loaded once
    for limits, status in (
        (ReplyLimits(line_bytes=MIB), 200),
        (ReplyLimits(body_bytes=MIB), 200),
        (ReplyLimits(), 500),
    ):
        tracemalloc.start()
        error = asyncio.run(main(limits, status))
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert error.code in ("line_too_long", "reply_too_large", "overload")
        assert peak < 12 * MIB
        assert kept < 4 * MIB


@pytest.mark.parametrize("text", ["eyJ" * 1_700_000, "x" * 5 * MIB])
def test_an_error_of_megabytes_is_read_at_its_start_only(text: str) -> None:
    body = json.dumps({"error": {"message": text, "code": text}}).encode()

    async def main() -> None:
        for status, answer in ((500, body), (200, b"data: " + body + b"\n\n")):
            async with serving(lambda answer=answer: once(answer), status=status) as url:  # type: ignore[misc]
                started = time.process_time()
                _, error = await reply_of(provider_at(url))
            assert time.process_time() - started < 5  # it was half a minute
            assert len(error.message) < 20_000
            assert len(error.code) < 1_000

    asyncio.run(main())


@pytest.mark.parametrize("comment", [b": ping\n\n", b":", b"\n", b"\r\n"])
@pytest.mark.parametrize("begun", [False, True])
def test_comments_are_silence(comment: bytes, begun: bool) -> None:
    async def pings() -> AsyncIterator[bytes]:
        if begun:
            yield chunk(content="Hello")
        while True:
            yield comment
            await asyncio.sleep(0.02)

    async def main() -> None:
        async with serving(pings) as url:
            patience = Timeouts(first_byte=0.3, idle=0.3)
            events, error = await asyncio.wait_for(reply_of(provider_at(url, timeouts=patience)), 5)
        assert error.code == ("idle_timeout" if begun else "first_byte_timeout")
        assert any(isinstance(event, TextDelta) for event in events) is begun

    asyncio.run(main())


def test_content_between_comments_ends_the_silence() -> None:
    async def slow() -> AsyncIterator[bytes]:
        for _ in range(8):
            yield chunk(content="a")
            for _ in range(4):
                await asyncio.sleep(0.02)
                yield b": wait\n\n"
        yield finish()

    async def main() -> None:
        async with serving(slow) as url:
            provider = provider_at(url, timeouts=Timeouts(first_byte=0.3, idle=0.3))
            request = ChatRequest(model="m", conversation=Conversation((user("hi"),)))
            events = [event async for event in provider.chat_stream(request)]
        assert not isinstance(events[-1], Failed)

    asyncio.run(main())


def test_thousands_of_calls_in_one_reply_are_bounded_and_the_loop_stays_free() -> None:
    async def calls() -> AsyncIterator[bytes]:
        for start in range(0, 8000, 2000):
            yield chunk(
                tool_calls=[
                    {
                        "index": n,
                        "id": f"call_{n}",
                        "type": "function",
                        "function": {"name": "f", "arguments": "{}"},
                    }
                    for n in range(start, start + 2000)
                ]
            )
        yield finish("tool_calls")

    async def main() -> None:
        ran: list[int] = []

        def f() -> str:
            """Does something."""
            ran.append(1)
            return "done"

        async with serving(calls, lambda: once(chunk(content="Fine."), finish())) as url:
            provider = provider_at(url)
            events, error = await reply_of(provider)
            assert error.code == "too_many_calls"
            assert sum(isinstance(event, CallStarted) for event in events) == 256
        async with serving(calls, lambda: once(chunk(content="Fine."), finish())) as url:
            store = MemoryStore()
            chat = Chat("hostile/m", tools=[f], providers={"hostile": provider_at(url)}, store=store)
            async with chat:
                assert (await chat.send("go")).text == "Fine."  # it was asked again
                assert ran == []  # half a reply is not acted on

    asyncio.run(main())


def test_nesting_without_end_is_an_error_of_that_reply_or_call_alone() -> None:
    deep = "[" * 5000 + "]" * 5000
    line = b'data: {"choices": ' + deep.encode() + b"}\n\n"
    arguments = '{"a":' * 300 + "1" + "}" * 300

    async def main() -> None:
        call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
        seen: list[object] = []

        def f(a: dict[str, int]) -> str:
            """Does something."""
            seen.append(a)
            return "done"

        bodies = (
            lambda: once(chunk(tool_calls=[call]), finish("tool_calls")),
            lambda: once(line, chunk(content="Not all."), finish()),
            lambda: once(chunk(content="Fine."), finish()),
        )
        async with (
            serving(*bodies) as url,
            Chat("hostile/m", tools=[f], providers={"hostile": provider_at(url)}) as chat,
        ):
            assert (await chat.send("go")).text == "Fine."
            messages = chat.conversation.messages
        results = [block for message in messages if message.speaker == "tool" for block in message.blocks]
        assert not seen
        assert "nest too deeply" in str(results[0])

    asyncio.run(main())


def test_after_an_over_long_reply_the_conversation_continues() -> None:
    """The reply alone is larger than the window of the model: its middle is dropped from the next request."""

    async def main() -> None:
        long = [chunk(content="word " * 20_000)] * 100
        refused = {
            "message": "This model's maximum context length is 8192 tokens.",
            "code": "context_length_exceeded",
        }
        refusal = b"data: " + json.dumps({"error": refused}).encode() + b"\n\n"
        bodies = (
            lambda: once(*long, finish()),
            lambda: once(refusal),
            lambda: once(chunk(content="Fine."), finish()),
        )
        async with serving(*bodies) as url:
            provider = provider_at(url, ReplyLimits(body_bytes=4 * MIB))
            async with Chat("hostile/gpt-4o", providers={"hostile": provider}) as chat:
                failed = (await chat.send("Write a book.", raises=False)).error
                assert failed is not None
                assert failed.code == "reply_too_large"
                kept = chat.conversation.messages[-1].blocks[0]
                assert isinstance(kept, Text)
                assert len(kept.text) > MIB
                assert (await chat.send("And now?")).text == "Fine."
                assert chat.conversation.messages[-1].text == "Fine."
                assert sum(len(message.text) for message in chat.conversation.messages) < MIB

    asyncio.run(main())
