"""A provider on the Chat wire in a process of its own: it reads whatever it gets, keeps nothing and says a word. So what a test
measures of a gateway, and of its other clients, is not the work of an emulator."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_USAGE = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
_WHOLE = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4.1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
    "usage": _USAGE,
}
_CHUNK = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4.1"}
_STREAM = (
    {**_CHUNK, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "ok"}}]},
    {**_CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": _USAGE},
)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            last = b""
            if length:
                left = int(length)
                while left:
                    portion = await reader.read(min(left, 1 << 20))
                    left -= len(portion)
                    last = (last + portion)[-200:]
                    head += portion[:200] if len(head) < 4000 else b""
            else:
                while size := int(await reader.readline(), 16):
                    last = (last + (await reader.readexactly(size + 2))[:-2])[-200:]
                await reader.readline()
            if b'"stream":true' in (head + last).replace(b" ", b""):
                body = b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in _STREAM)
                body, kind = body + b"data: [DONE]\n\n", b"text/event-stream"
            else:
                body, kind = json.dumps(_WHOLE).encode(), b"application/json"
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b"
                % (kind, len(body), body)
            )
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 22)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


@contextmanager
def plain_provider() -> Iterator[str]:
    """Its base URL."""
    process = subprocess.Popen(  # noqa: S603 - this very file
        [sys.executable, __file__], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    asyncio.run(main())
