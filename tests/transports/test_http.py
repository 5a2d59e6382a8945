from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import ssl
import sys
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from segue.errors import SegueError, TransportError, UsageError
from segue.transports.http import DEFAULT_TRANSPORT, HttpTransport
from segue.transports.transport import Timeouts, WireRequest
from transports.raw_server import certificate, server, unreached

OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"


@pytest.fixture(params=["direct", "aiohttp"], autouse=True)
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test is about both clients: what one does, the other does too."""
    make = partial(HttpTransport, direct=request.param == "direct")
    monkeypatch.setitem(globals(), "HttpTransport", make)
    monkeypatch.setitem(globals(), "DEFAULT_TRANSPORT", make())
    return str(request.param)


async def head_of(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


async def ask(url: str, **fields: Any) -> bytes:
    async with DEFAULT_TRANSPORT(WireRequest(url=url, **fields)) as answer:
        return await answer.read()


async def refusal(url: str, **fields: Any) -> SegueError:
    with pytest.raises(SegueError) as caught:
        await ask(url, **fields)
    return caught.value


def test_one_connection_carries_one_request_after_another() -> None:
    connections = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await head_of(reader)
            writer.write(OK + b"content-length: 2\r\n\r\nhi")

    async def main() -> None:
        async with server(answer) as url:
            assert [await ask(url, method="GET") for _ in range(5)] == [b"hi"] * 5

    asyncio.run(main())
    assert connections == 1


def test_one_transport_serves_one_loop_after_another_and_leaves_nothing_open() -> None:
    transport = HttpTransport()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(OK + b"content-length: 2\r\n\r\nhi")
        await reader.read()

    async def main() -> None:
        async with server(answer) as url, transport(WireRequest(url=url, method="GET")) as told:
            assert await told.read() == b"hi"

    for _ in range(3):
        asyncio.run(main())  # an unclosed session or socket would be a warning, and so an error
    assert not transport._pools


def test_a_closed_transport_can_be_used_again() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(OK + b"connection: close\r\n\r\nhi")

    async def main() -> None:
        transport = HttpTransport()
        async with server(answer) as url:
            for _ in range(2):
                async with transport(WireRequest(url=url, method="GET")) as told:
                    assert await told.read() == b"hi"
                await transport.close()

    asyncio.run(main())


def test_leaving_before_the_end_hangs_up_at_once() -> None:
    async def main() -> None:
        gone = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await head_of(reader)
            writer.write(OK + b"transfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")
            assert await reader.read() == b""
            gone.set()

        async with server(answer) as url:
            async with DEFAULT_TRANSPORT(WireRequest(url=url, method="GET")) as told:
                assert await anext(told.portions()) == b"first"
            await asyncio.wait_for(gone.wait(), 1)

    asyncio.run(main())


def test_a_cancelled_wait_hangs_up_at_once() -> None:
    async def main() -> None:
        asked, gone = asyncio.Event(), asyncio.Event()

        async def answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            await head_of(reader)
            asked.set()
            assert await reader.read() == b""
            gone.set()

        async with server(answer) as url:
            asking = asyncio.ensure_future(ask(url, method="GET"))
            await asked.wait()
            asking.cancel()
            await asyncio.wait_for(gone.wait(), 1)
            with pytest.raises(asyncio.CancelledError):
                await asking

    asyncio.run(main())


@pytest.mark.requirement("Property 16")
def test_nobody_listening_is_told_with_the_address_but_without_what_may_be_secret_in_it() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        error = asyncio.run(refusal(f"http://me:secret@127.0.0.1:{port}/v1/chat?key=secret"))
    assert isinstance(error, TransportError)
    assert error.code == "CONNECTION_FAILED"
    assert f"http://127.0.0.1:{port}/v1/chat" in error.message
    assert "secret" not in str(error)


def test_an_unknown_host_cannot_be_connected_to() -> None:
    error = asyncio.run(refusal("http://nobody.invalid/v1"))
    assert error.code == "CONNECTION_FAILED"


@pytest.mark.parametrize("url", ["", "ollama", "ftp://host/x", "http://", "http://[::1", "http://h:port/"])
def test_what_is_no_address_is_refused_before_anything_is_sent(url: str) -> None:
    error = asyncio.run(refusal(url))
    assert isinstance(error, UsageError)
    assert error.code == "bad_url"


def test_a_header_that_cannot_be_sent_is_refused_without_showing_it() -> None:
    async def answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def main() -> SegueError:
        async with server(answer) as url:
            return await refusal(url, headers={"x-key": "secret\nsecret"})

    error = asyncio.run(main())
    assert isinstance(error, UsageError)
    assert error.code == "bad_header"
    assert "secret" not in str(error)


def test_a_connection_that_is_not_taken_up_times_out() -> None:
    with unreached() as url:
        error = asyncio.run(refusal(url, timeouts=Timeouts(connect=0.2)))
    assert error.code == "connect_timeout"
    assert "timeouts.connect" in error.hint


def test_a_request_that_is_cancelled_before_it_is_connected_says_that_it_costs_nothing() -> None:
    async def main(url: str) -> BaseException:
        asking = asyncio.ensure_future(refusal(url))
        await asyncio.sleep(0.1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await asking
        return caught.value

    with unreached() as url:
        left = asyncio.run(main(url))
    assert isinstance(left.__cause__, TransportError)
    assert left.__cause__.unbilled


def test_a_request_that_is_cancelled_when_it_is_sent_may_cost_something() -> None:
    async def never(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del writer
        await asyncio.sleep(5)

    async def main() -> BaseException:
        async with server(never) as url:
            asking = asyncio.ensure_future(refusal(url))
            await asyncio.sleep(0.3)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await asking
            return caught.value

    assert asyncio.run(main()).__cause__ is None


@pytest.mark.parametrize(
    ("told", "timeouts", "code"),
    [
        (b"", Timeouts(first_byte=0.1), "first_byte_timeout"),
        (OK + b"transfer-encoding: chunked\r\n\r\n", Timeouts(first_byte=0.1), "first_byte_timeout"),
        (
            OK + b"transfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n",
            Timeouts(first_byte=5, idle=0.1),
            "idle_timeout",
        ),
        (OK + b"transfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n", Timeouts(total=0.1), "total_timeout"),
        (b"", Timeouts(total=0.1), "total_timeout"),
    ],
)
def test_each_wait_has_a_limit_of_its_own(told: bytes, timeouts: Timeouts, code: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(told)
        await reader.read()

    async def main() -> SegueError:
        async with server(answer) as url:
            return await refusal(url, method="GET", timeouts=timeouts)

    error = asyncio.run(main())
    assert error.code == code
    assert error.remedy == "wait"


@pytest.mark.parametrize(
    ("timeouts", "code"),
    [
        (Timeouts(first_byte=0.05, whole_reply=0.15), "whole_reply_timeout"),
        (Timeouts(first_byte=0.15, whole_reply=0.05), "first_byte_timeout"),
        (Timeouts(first_byte=0.05, whole_reply=None, total=0.15), "total_timeout"),
        (Timeouts(first_byte=None, whole_reply=0.05, total=0.15), "total_timeout"),
    ],
)
def test_a_whole_reply_is_waited_for_as_long_as_the_longer_of_both_limits(
    timeouts: Timeouts, code: str
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        await reader.read()

    async def main() -> tuple[SegueError, float]:
        async with server(answer) as url:
            began = monotonic()
            return await refusal(url, method="GET", timeouts=timeouts, whole=True), monotonic() - began

    error, seconds = asyncio.run(main())
    assert error.code == code
    assert seconds >= 0.15
    assert f"timeouts.{code.removesuffix('_timeout')}" in error.hint


def test_a_slow_but_steady_answer_is_waited_for() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n")
        for _ in range(8):
            await asyncio.sleep(0.05)
            writer.write(b"1\r\nx\r\n")
        writer.write(b"0\r\n\r\n")

    async def main() -> bytes:
        async with server(answer) as url:
            return await ask(url, method="GET", timeouts=Timeouts(first_byte=0.25, idle=0.25))

    assert asyncio.run(main()) == b"x" * 8


def test_a_reader_that_takes_its_time_is_no_silence_of_the_server() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        await asyncio.sleep(0.3)
        writer.write(b"6\r\nsecond\r\n")
        await reader.read()

    async def main() -> list[bytes | str]:
        received: list[bytes | str] = []
        async with server(answer) as url:
            limits = Timeouts(first_byte=5, idle=0.2)
            async with DEFAULT_TRANSPORT(WireRequest(url=url, method="GET", timeouts=limits)) as told:
                portions = told.portions()
                received.append(await anext(portions))
                await asyncio.sleep(0.3)  # longer than silence may last
                received.append(await anext(portions))
                with pytest.raises(TransportError) as caught:
                    await anext(portions)
                received.append(caught.value.code)
        return received

    assert asyncio.run(main()) == [b"first", b"second", "idle_timeout"]


def test_a_cancelled_reader_is_cancelled_although_the_wait_has_a_limit() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        await reader.read()

    async def main() -> None:
        async with server(answer) as url:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await ask(url, method="GET", timeouts=Timeouts(idle=5))

    asyncio.run(main())


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        OK + b"content-length: 100\r\n\r\nonly this",
        OK + b"transfer-encoding: chunked\r\n\r\n64\r\nonly this",
        b"SSH-2.0-OpenSSH_9.9\r\n",
    ],
)
def test_an_answer_that_breaks_off_is_no_answer(told: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(told)

    async def main() -> SegueError:
        async with server(answer) as url:
            return await refusal(url, method="GET")

    error = asyncio.run(main())
    assert isinstance(error, TransportError)
    assert error.code == "connection_broken"


def test_a_compressed_answer_is_unpacked() -> None:
    packed = gzip.compress(b"hello " * 100)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"gzip" in await head_of(reader)
        writer.write(OK + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed) + packed)

    async def main() -> bytes:
        async with server(answer) as url:
            return await ask(url, method="GET")

    assert asyncio.run(main()) == b"hello " * 100


def test_a_redirect_is_not_followed_for_it_would_carry_the_key_along() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 307 There\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n")

    async def main() -> int:
        async with server(answer) as url, DEFAULT_TRANSPORT(WireRequest(url=url)) as told:
            return told.status

    assert asyncio.run(main()) == 307


def test_the_proxy_of_the_environment_is_used_unless_the_host_is_exempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heads: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await head_of(reader))
        writer.write(OK + b"connection: close\r\n\r\nby proxy")

    async def direct(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(OK + b"connection: close\r\n\r\ndirect")

    async def main() -> None:
        async with server(proxy) as proxy_url, server(direct) as url:
            monkeypatch.setenv("HTTP_PROXY", proxy_url.removeprefix("http://"))
            monkeypatch.delenv("NO_PROXY", raising=False)
            monkeypatch.delenv("no_proxy", raising=False)
            assert await ask("http://api.example.test/v1?x=1", method="GET") == b"by proxy"
            assert heads[0].startswith(b"GET http://api.example.test/v1?x=1 ")
            # An address of this machine that does not look like one.
            anywhere = url.replace("127.0.0.1", "0.0.0.0")  # noqa: S104 - asked, not bound
            assert await ask(anywhere, method="GET") == b"by proxy"
            monkeypatch.setenv("NO_PROXY", "0.0.0.0,localhost")
            assert await ask(anywhere, method="GET") == b"direct"

    asyncio.run(main())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_on_this_machine_is_never_asked_through_a_proxy(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(OK + b"connection: close\r\n\r\ndirect")

    async def main() -> bytes:
        async with server(answer) as url:
            return await ask(url.replace("127.0.0.1", host), method="GET")

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert asyncio.run(main()) == b"direct"


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_the_certificates_of_the_environment_are_trusted_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    file, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(OK + b"connection: close\r\n\r\nhi")

    async def get(url: str) -> bytes:
        async with HttpTransport()(WireRequest(url=url, method="GET")) as told:
            return await told.read()

    async def main() -> None:
        async with server(answer, context) as url:
            with pytest.raises(TransportError) as caught:
                await get(url)
            assert caught.value.code == "CONNECTION_FAILED"
            assert "the server's certificate is not trusted: self" in caught.value.message
            monkeypatch.setenv(variable, str(file))
            assert await get(url) == b"hi"

    asyncio.run(main())


def test_certificates_that_cannot_be_read_are_an_error_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))

    async def main() -> SegueError:
        with pytest.raises(UsageError) as caught:
            async with HttpTransport()(WireRequest(url="https://127.0.0.1:9/")):
                pass
        return caught.value

    error = asyncio.run(main())
    assert error.code == "bad_certificates"
    assert "SSL_CERT_FILE" in error.hint


def test_a_request_shows_neither_its_headers_nor_its_query() -> None:
    request = WireRequest(
        url="https://me:pass@host/v1?key=secret", headers={"authorization": "Bearer secret"}, body=b"secret"
    )
    assert repr(request) == "WireRequest(POST https://host/v1, 6 bytes)"


def test_a_request_that_is_cancelled_while_it_connects_leaves_no_open_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unraised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraised.append)

    async def give_up(url: str, turns: int) -> None:
        asking = asyncio.ensure_future(ask(url, method="GET"))
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def main() -> None:
        async with server(serve) as url:
            for turns in range(8):
                for _ in range(30):
                    await give_up(url, turns)

    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        asyncio.run(main())
        gc.collect()
    assert [str(one.exc_value) for one in unraised] == []
