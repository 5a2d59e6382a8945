"""Bodies that are pushed: each portion by a plain call, whichever client carries the request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from segue.errors import TransportError
from segue.transports.http import HttpTransport
from segue.transports.reply_meter import MeteredResponse
from segue.transports.transport import ReplyLimits, Timeouts, WireRequest, in_turn

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.fixture(params=[True, False], ids=["direct", "aiohttp"])
def transport(request: pytest.FixtureRequest) -> Callable[[], HttpTransport]:
    return partial(HttpTransport, direct=request.param)


async def pushed(
    transport: HttpTransport,
    serve: Callable[[asyncio.StreamWriter], Awaitable[None]],
    use: Callable[[MeteredResponse], Awaitable[None]],
    timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
) -> int:
    """Ask a server twice, and use both answers. The number of connections that it took."""
    connections = 0
    serving: list[asyncio.Task[None] | None] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        serving.append(asyncio.current_task())
        try:
            while await reader.readline():
                await reader.readuntil(b"\r\n\r\n")
                await serve(writer)
        except asyncio.CancelledError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    request = WireRequest(method="GET", url=f"http://127.0.0.1:{port}/", timeouts=timeouts)
    try:
        for _ in range(2):
            async with transport(request) as answer:
                await use(MeteredResponse(answer, request, ReplyLimits()))
    finally:
        server.close()
        await transport.close()
        for task in serving:
            assert task is not None
            task.cancel()
            await task
    return connections


def test_a_body_arrives_whole_however_slow_its_listener_is(transport: Callable[[], HttpTransport]) -> None:
    size, got = 3 << 20, list[bytes]()

    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"".join(chunk(b"x" * 65_535 + b"\n") for _ in range(size >> 16)) + END)
        await writer.drain()

    async def use(answer: MeteredResponse) -> None:
        busy = False

        async def slowly() -> None:
            nonlocal busy
            busy = True
            await asyncio.sleep(0.001)
            busy = False

        def take(portion: bytes) -> Awaitable[None] | None:
            assert not busy  # nobody gets more while it is waited for
            got.append(portion)
            return slowly() if len(got) % 3 else None

        await answer.push(take)

    assert asyncio.run(pushed(transport(), serve, use)) == 1
    assert len(b"".join(got)) == 2 * size


def test_what_a_listener_raises_ends_the_push_and_the_rest_can_be_read(
    transport: Callable[[], HttpTransport],
) -> None:
    class OverError(Exception):
        pass

    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(b"data: 1\n\n"))
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.write(chunk(b"data: 2\n\n") + END)

    async def use(answer: MeteredResponse) -> None:
        def take(portion: bytes) -> None:
            raise OverError(portion)

        with pytest.raises(OverError, match="data: 1"):
            await answer.push(take)
        await answer.read_rest()

    assert asyncio.run(pushed(transport(), serve, use)) == 1  # the connection was used again


def test_silence_ends_a_push_and_a_slow_listener_is_no_silence(
    transport: Callable[[], HttpTransport],
) -> None:
    got: list[bytes] = []

    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(b"data: 1\n\n"))
        await writer.drain()
        await asyncio.sleep(3600)

    async def use(answer: MeteredResponse) -> None:
        async def slowly() -> None:
            await asyncio.sleep(0.2)
            got.append(b"waited")

        def take(portion: bytes) -> Awaitable[None]:
            got.append(portion)
            return slowly()

        await answer.push(take)

    with pytest.raises(TransportError) as raised:
        asyncio.run(pushed(transport(), serve, use, Timeouts(idle=0.1)))
    assert raised.value.code == "idle_timeout"
    assert got == [b"data: 1\n\n", b"waited"]


def test_steps_are_plain_calls_until_one_has_to_be_waited_for() -> None:
    taken: list[int] = []

    async def wait() -> None:
        taken.append(-1)

    def steps(waits: int) -> Awaitable[None] | None:
        def step(number: int) -> Awaitable[None] | None:
            taken.append(number)
            return wait() if number == waits else None

        return in_turn(step(number) for number in range(3))

    assert steps(waits=9) is None
    assert taken == [0, 1, 2]
    taken.clear()
    rest = steps(waits=1)
    assert taken == [0, 1]
    assert rest is not None
    asyncio.run(rest)  # type: ignore[arg-type]  # a coroutine
    assert taken == [0, 1, -1, 2]
