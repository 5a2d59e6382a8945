"""What a server may do to a connection that is used again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from segue.errors import TransportError
from segue.transports import connections
from segue.transports.http import HttpTransport
from segue.transports.transport import Timeouts, WireRequest

OK = b"HTTP/1.1 200 OK\r\n"
LARGE = b"x" * (8 << 20)


async def served(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    ask: Callable[[HttpTransport, str], Awaitable[None]],
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    transport = HttpTransport()
    try:
        await ask(transport, f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1")
    finally:
        await transport.close()
        listening.close()


async def body_of(transport: HttpTransport, url: str, **fields: object) -> bytes:
    async with transport(WireRequest(url=url, **fields)) as answer:  # type: ignore[arg-type]
        return await answer.read()


def test_an_interim_answer_precedes_the_real_one() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")
            writer.write(OK + b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n")

    async def ask(transport: HttpTransport, url: str) -> None:
        assert [await body_of(transport, url, method="GET") for _ in range(2)] == [b"hi"] * 2

    asyncio.run(served(answer, ask))


def test_what_nobody_asked_for_ends_the_connection_and_no_request() -> None:
    connected = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connected
        connected += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"content-length: 2\r\n\r\nhi")
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.write(OK + b"content-length: 4\r\n\r\nevil")
        assert await reader.read() == b""

    async def ask(transport: HttpTransport, url: str) -> None:
        for _ in range(2):
            assert await body_of(transport, url, method="GET") == b"hi"
            await asyncio.sleep(0.05)

    asyncio.run(served(answer, ask))
    assert connected == 2


@pytest.mark.parametrize("told", [413, 200])
def test_a_server_may_answer_before_it_has_the_whole_request(told: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d Early\r\ncontent-length: 2\r\n\r\nhi" % told)
        await writer.drain()
        await asyncio.sleep(0.05)

    async def ask(transport: HttpTransport, url: str) -> None:
        for _ in range(2):
            async with transport(WireRequest(url=url, body=LARGE)) as answered:
                assert (answered.status, await answered.read()) == (told, b"hi")

    asyncio.run(served(answer, ask))


def test_a_large_request_arrives_whole_and_lets_others_work_meanwhile() -> None:
    got: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            got.append(len(await reader.readexactly(size)))
            writer.write(OK + b"content-length: 2\r\n\r\nhi")

    async def ask(transport: HttpTransport, url: str) -> None:
        large = asyncio.ensure_future(body_of(transport, url, body=LARGE))
        await asyncio.sleep(0)
        assert await body_of(transport, url, body=b"small") == b"hi"
        assert await large == b"hi"
        assert await body_of(transport, url, body=LARGE) == b"hi"

    asyncio.run(served(answer, ask))
    assert sorted(got) == [5, len(LARGE), len(LARGE)]


def test_a_server_that_takes_no_request_is_not_waited_for_beyond_the_limit() -> None:
    async def answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.5)

    async def ask(transport: HttpTransport, url: str) -> None:
        with pytest.raises(TransportError) as caught:
            await body_of(transport, url, body=LARGE * 4, timeouts=Timeouts(first_byte=0.2))
        assert caught.value.code == "first_byte_timeout"

    asyncio.run(served(answer, ask))


def test_a_body_that_is_not_read_is_not_fetched_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_WAITING", 1 << 16)
    sent = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"content-length: %d\r\n\r\n" % (64 << 20))
        for _ in range(64):
            writer.write(bytes(1 << 20))
            await writer.drain()
            sent += 1

    async def ask(transport: HttpTransport, url: str) -> None:
        async with transport(WireRequest(url=url, method="GET")) as answered:
            await asyncio.sleep(0.2)
            assert sent < 40
            assert len(await answered.read()) == 64 << 20

    asyncio.run(served(answer, ask))
    assert sent == 64


def test_an_endless_head_is_no_answer() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        while True:
            writer.write(b"x-more: " + b"y" * 60_000 + b"\r\n")
            await writer.drain()

    async def ask(transport: HttpTransport, url: str) -> None:
        with pytest.raises(TransportError) as caught:
            await body_of(transport, url, method="GET")
        assert caught.value.code == "connection_broken"

    asyncio.run(served(answer, ask))


def test_connections_that_nobody_uses_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "KEEP_SECONDS", 0.05)

    async def main() -> None:
        closed = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK + b"content-length: 2\r\n\r\nhi")
            assert await reader.read() == b""
            closed.set()

        async def ask(transport: HttpTransport, url: str) -> None:
            assert await body_of(transport, url, method="GET") == b"hi"
            await asyncio.wait_for(closed.wait(), 2)

        await served(answer, ask)

    asyncio.run(main())


def test_a_name_and_password_in_the_address_are_sent_as_such() -> None:
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK + b"content-length: 0\r\n\r\n")

    async def ask(transport: HttpTransport, url: str) -> None:
        await body_of(transport, url.replace("://", "://me:p%40ss@"), method="GET")

    asyncio.run(served(answer, ask))
    assert b"authorization: Basic bWU6cEBzcw==\r\n" in heads[0]
    assert b"@127" not in heads[0]
