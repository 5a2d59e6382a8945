"""The provider of the benchmark, in a process of its own: answers Chat and Messages requests without looking at them.

Each line on its standard input is a `Mode` for all requests from then on; it answers with a line.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from time import monotonic
from typing import Any

import msgspec

from bench.gateway_requests import REPLY_WORDS

PACE = 0.05
"""Seconds between two chunks of a paced stream."""
_SLOTS = 5
_NUMBERS = count(1)


class Mode(msgspec.Struct):
    """How requests are answered."""

    paced_chunks: int = 0
    """Text chunks of a stream with a pause before each, which hold the time when they were sent; 0: no pauses."""


def _sse(event: str, data: Any) -> bytes:
    name = b"event: " + event.encode() + b"\n" if event else b""
    return name + b"data: " + (data if isinstance(data, bytes) else msgspec.json.encode(data)) + b"\n\n"


class Chat:
    """The Chat wire."""

    def __init__(self) -> None:
        self.number = next(_NUMBERS)
        self._call = f"call_{self.number:024d}"

    def _chunk(self, delta: dict[str, Any], reason: str | None = None, **more: Any) -> bytes:
        return _sse(
            "",
            {
                "id": f"chatcmpl-{self.number:029d}",
                "object": "chat.completion.chunk",
                "created": 1_700_000_000,
                "model": "gpt-4.1-2025-04-14",
                "service_tier": "default",
                "system_fingerprint": "fp_0123456789",
                "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
                **more,
            },
        )

    def text(self, text: str) -> bytes:
        return self._chunk({"content": text})

    def begin(self) -> list[bytes]:
        return [self._chunk({"role": "assistant", "content": "", "refusal": None})]

    def end(self) -> list[bytes]:
        function = {"name": "Tool3", "arguments": ""}
        call = {"index": 0, "id": self._call, "type": "function", "function": function}
        return [
            self._chunk({"tool_calls": [call]}),
            self._chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"field_0":'}}]}),
            self._chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"value"}'}}]}),
            self._chunk({}, "tool_calls"),
            self._chunk({}, choices=[], usage=_CHAT_USAGE),
            _sse("", b"[DONE]"),
        ]

    def whole(self) -> bytes:
        call = {
            "id": self._call,
            "type": "function",
            "function": {"name": "Tool3", "arguments": '{"field_0":"value"}'},
        }
        message = {"role": "assistant", "content": _words(), "refusal": None, "tool_calls": [call]}
        return msgspec.json.encode(
            {
                "id": f"chatcmpl-{self.number:029d}",
                "object": "chat.completion",
                "created": 1_700_000_000,
                "model": "gpt-4.1-2025-04-14",
                "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
                "usage": _CHAT_USAGE,
            }
        )


class Messages:
    """The Messages wire."""

    def __init__(self) -> None:
        self.number = next(_NUMBERS)
        self._call = {"type": "tool_use", "id": f"toolu_{self.number:024d}", "name": "Tool3"}
        self._message = {
            "id": f"msg_{self.number:024d}",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-6",
            "stop_sequence": None,
        }

    def text(self, text: str) -> bytes:
        return _delta(0, {"type": "text_delta", "text": text})

    def begin(self) -> list[bytes]:
        message: dict[str, Any] = {**self._message, "content": [], "stop_reason": None, "usage": _USAGE}
        return [
            _sse("message_start", {"type": "message_start", "message": message}),
            _block("content_block_start", 0, content_block={"type": "text", "text": ""}),
            _sse("ping", {"type": "ping"}),
        ]

    def end(self) -> list[bytes]:
        return [
            _block("content_block_stop", 0),
            _block("content_block_start", 1, content_block={**self._call, "input": {}}),
            _delta(1, {"type": "input_json_delta", "partial_json": '{"field_0":"value"}'}),
            _block("content_block_stop", 1),
            _sse(
                "message_delta",
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": "tool_use", "stop_sequence": None},
                    "usage": {"output_tokens": 60},
                },
            ),
            _sse("message_stop", {"type": "message_stop"}),
        ]

    def whole(self) -> bytes:
        content = [{"type": "text", "text": _words()}, {**self._call, "input": {"field_0": "value"}}]
        return msgspec.json.encode(
            {**self._message, "content": content, "stop_reason": "tool_use", "usage": _USAGE}
        )


_USAGE = {"input_tokens": 20_000, "output_tokens": 60}
_CHAT_USAGE = {"prompt_tokens": 20_000, "completion_tokens": 60, "total_tokens": 20_060}


def _block(event: str, index: int, **more: Any) -> bytes:
    return _sse(event, {"type": event, "index": index, **more})


def _delta(index: int, delta: dict[str, Any]) -> bytes:
    return _block("content_block_delta", index, delta=delta)


def _words() -> str:
    return "".join(f" word{number}" for number in range(REPLY_WORDS))


def _chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Connection(asyncio.Protocol):
    """One connection of the gateway."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._received = bytearray()
        self._need = 0
        self._chat = True
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._need:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._received[:end]).lower()
            length = head.partition(b"content-length:")[2].split(b"\r\n", 1)[0]
            self._chat = b"/chat/completions " in head
            self._need = end + 4 + int(length or 0)
        if len(self._received) >= self._need:
            stream = b'"stream":true' in self._received
            self._received.clear()
            self._need = 0
            self._answer(Chat() if self._chat else Messages(), stream=stream)

    def _answer(self, reply: Chat | Messages, *, stream: bool) -> None:
        mode = self._upstream.mode
        if not stream:
            body = reply.whole()
            self.transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
                % (len(body), body)
            )
            return
        self.transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        if mode.paced_chunks:
            self._upstream.pace(Paced(self.transport, reply, mode.paced_chunks))
            return
        texts = [reply.text(f" word{number}") for number in range(REPLY_WORDS)]
        # One system call for each, as from a server that sends tokens when it has them.
        for frame in (*reply.begin(), *texts, *reply.end()):
            self.transport.write(_chunked(frame))
        self.transport.write(b"0\r\n\r\n")


class Paced:
    """A stream that sends a chunk now and then."""

    def __init__(self, transport: asyncio.Transport, reply: Chat | Messages, chunks: int) -> None:
        self.transport = transport
        self._reply = reply
        self._left = chunks
        transport.write(_chunked(b"".join(reply.begin())))
        before, self._after = _chunked(reply.text(" t0000000000.0000 ")).split(b" t0000000000.0000 ")
        self._before = before

    def tick(self, now: bytes) -> bool:
        """False when it has ended."""
        if self.transport.is_closing():
            return False
        self._left -= 1
        self.transport.write(self._before + now + self._after)
        if self._left <= 0:
            self.transport.write(_chunked(b"".join(self._reply.end())) + b"0\r\n\r\n")
        return self._left > 0


class Upstream:
    """All connections."""

    def __init__(self) -> None:
        self.mode = Mode()
        self._slots: list[list[Paced]] = [[] for _ in range(_SLOTS)]

    def pace(self, stream: Paced) -> None:
        min(self._slots, key=len).append(stream)

    async def tick(self) -> None:
        due = monotonic()
        for at in count():
            due += PACE / _SLOTS
            await asyncio.sleep(max(0.0, due - monotonic()))
            now = b" t%015.4f " % monotonic()
            slot = at % _SLOTS
            self._slots[slot] = [stream for stream in self._slots[slot] if stream.tick(now)]


async def main() -> None:
    upstream = Upstream()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(upstream), "127.0.0.1", 0, backlog=2048)
    ticking = asyncio.ensure_future(upstream.tick())
    print(server.sockets[0].getsockname()[1], flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        upstream.mode = msgspec.json.decode(line, type=Mode)
        print("ok", flush=True)
    ticking.cancel()


if __name__ == "__main__":
    asyncio.run(main())
