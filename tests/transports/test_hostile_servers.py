"""What servers do that they should not, and what they may do and hardly do. Both clients, ours and aiohttp's, are held to the same."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.errors import SegueError, TransportError
from segue.transports.direct_session import KEEP_SECONDS, DirectSession, address_of
from segue.transports.http import HttpTransport
from segue.transports.transport import Timeouts, WireRequest
from transports.raw_server import Serve, certificate, server

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
LIMITS = Timeouts(connect=5, first_byte=10, idle=10)


@pytest.fixture(params=["direct", "aiohttp"])
def transport(request: pytest.FixtureRequest) -> Callable[[], HttpTransport]:
    """A new one; `direct`: by our own client."""
    return partial(HttpTransport, direct=request.param == "direct")


async def request_of(reader: asyncio.StreamReader) -> bytes:
    """One request, whole."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return head + (await reader.readexactly(int(size[0][15:])) if size else b"")


def saying(*portions: bytes, stays: bool = False, pause: float = 0.0) -> Serve:
    """Answers each request with these bytes; `stays`: and waits for the next one."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request_of(reader)
            for portion in portions:
                writer.write(portion)
                await writer.drain()
                await asyncio.sleep(pause)
            if not stays:
                return

    return answer


async def told(transport: HttpTransport, url: str, **fields: Any) -> tuple[int, bytes]:
    request = WireRequest(url=url, **{"method": "POST", "body": b"{}", "timeouts": LIMITS, **fields})
    async with transport(request) as answer:
        return answer.status, await answer.read()


def outcome(
    make: Callable[[], HttpTransport], answer: Serve, **fields: Any
) -> tuple[int, bytes] | SegueError:
    async def main() -> tuple[int, bytes] | SegueError:
        async with server(answer) as url:
            try:
                return await asyncio.wait_for(told(make(), url, **fields), 30)
            except SegueError as error:
                return error

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("said", "body"),
    [
        (OK + b"content-length: 0\r\n\r\n", b""),
        (OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (OK + b"\r\nuntil the end", b"until the end"),
        (b"HTTP/1.0 200 OK\r\n\r\nold", b"old"),
        (b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nhi", b"hi"),
        (CHUNKED + b"2\r\nhi\r\n0\r\n\r\n", b"hi"),
        (CHUNKED + b"2;name=value\r\nhi\r\n0\r\n\r\n", b"hi"),
        (CHUNKED + b"2  \r\nhi\r\n0\r\n\r\n", b"hi"),
        (CHUNKED + b"2\r\nhi\r\n0\r\nx-late: yes\r\nx-later: 9\r\n\r\n", b"hi"),
        (OK + b"x-folded: one\r\n two\r\ncontent-length: 2\r\n\r\nhi", b"hi"),
        (b"HTTP/1.1 200 OK\ncontent-length: 2\n\nhi", b"hi"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"content-length: 2\r\n\r\nhi", b"hi"),
        (b"HTTP/1.1 103 Hints\r\nlink: </x>\r\n\r\n" * 3 + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n", b"hi"),
        (OK + b"x-strange: caf\xc3\xa9 \xff\r\ncontent-length: 2\r\n\r\nhi", b"hi"),
    ],
)
def test_an_answer_is_read_however_it_is_written(
    transport: Callable[[], HttpTransport], said: bytes, body: bytes
) -> None:
    assert outcome(transport, saying(said)) == (200, body)
    one_by_one = [said[at : at + 1] for at in range(len(said))]
    assert outcome(transport, saying(*one_by_one)) == (200, body)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\r\n\r\n",
        b"HTTP/1.1",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/9.9 200 OK\r\ncontent-length: 2\r\n\r\nhi",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        OK + b"content-length: -1\r\n\r\nhi",
        OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\nhi!",
        OK + b"content-length: 99999999999999999999999\r\n\r\nhi",
        OK + b"content-length: 10\r\n\r\nhi",
        OK + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        CHUNKED + b"zz\r\nhi\r\n0\r\n\r\n",
        CHUNKED + b"-2\r\nhi\r\n0\r\n\r\n",
        CHUNKED + b"ffffffffffffffffff\r\nhi\r\n0\r\n\r\n",
        CHUNKED + b"2\r\nhi!\r\n0\r\n\r\n",
        CHUNKED + b"2\r\nhi\r\n",
        CHUNKED + b"2\r\nhi\r\n0\r\n",
        OK + b"x-long: " + b"x" * 70_000 + b"\r\ncontent-length: 2\r\n\r\nhi",
        OK + b"".join(b"x-%d: y\r\n" % number for number in range(200)) + b"content-length: 2\r\n\r\nhi",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n\x00\x00\x00",
    ],
)
def test_what_is_no_answer_is_an_error_of_the_connection(
    transport: Callable[[], HttpTransport], said: bytes
) -> None:
    error = outcome(transport, saying(said))
    if isinstance(error, tuple):  # aiohttp takes an answer that switches protocols for one without a body
        assert error == (101, b"")
        assert transport().__dict__["_direct"] is False
        return
    assert isinstance(error, TransportError)
    assert error.code == "connection_broken"
    assert not error.unbilled


WHOLE = (
    (OK + b"content-length: 11\r\n\r\nhello there", b"hello there"),
    (CHUNKED + b"6\r\nhello \r\n5\r\nthere\r\n0\r\nx: y\r\n\r\n", b"hello there"),
    (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"content-length: 2\r\n\r\nhi", b"hi"),
)


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize(("said", "body"), WHOLE)
def test_an_answer_that_is_cut_anywhere_is_never_taken_for_a_whole_one(
    transport: Callable[[], HttpTransport], said: bytes, body: bytes, reset: bool
) -> None:
    cut = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(said[:cut])
        await writer.drain()
        if reset:
            await asyncio.sleep(0.01)  # else what was sent would be lost, too
            writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def main() -> None:
        nonlocal cut
        made = transport()
        async with server(answer) as url:
            for place in range(len(said)):
                cut = place
                with pytest.raises(TransportError) as caught:
                    await told(made, url)
                assert caught.value.code == "connection_broken"
            cut = len(said)
            if not reset:
                assert await told(made, url) == (200, body)

    asyncio.run(main())


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=300), max_size=20),
    cuts=st.lists(st.integers(1, 400), max_size=30),
    direct=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_chunks_cut_at_any_places_are_the_body(chunks: list[bytes], cuts: list[int], direct: bool) -> None:
    said = CHUNKED + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    portions = []
    for size in cuts:
        portions.append(said[:size])
        said = said[size:]
    portions.append(said)
    made = partial(HttpTransport, direct=direct)
    assert outcome(made, saying(*filter(None, portions))) == (200, b"".join(chunks))


def counted(answer: Serve) -> tuple[list[None], Serve]:
    """And how many connections it was asked on."""
    connections: list[None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(None)
        await answer(reader, writer)

    return connections, serve


@pytest.mark.parametrize(
    ("said", "uses"),
    [
        (OK + b"content-length: 2\r\n\r\nhi", 1),
        (CHUNKED + b"2\r\nhi\r\n0\r\nlate: yes\r\n\r\n", 1),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 1),
        (b"HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\nno", 1),
        (OK + b"content-length: 2\r\nconnection: close\r\n\r\nhi", 4),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi", 4),
        (OK + b"content-length: 2\r\n\r\nhi" + OK + b"content-length: 4\r\n\r\nevil", 4),
        (OK + b"content-length: 2\r\n\r\nhi and more", 4),
    ],
)
def test_a_connection_is_used_again_only_if_the_answer_left_it_clean(
    transport: Callable[[], HttpTransport], said: bytes, uses: int
) -> None:
    connections, serve = counted(saying(said, stays=True))
    if said.endswith(b"more"):
        transport = HttpTransport  # aiohttp's client fails with such an answer

    async def main() -> list[tuple[int, bytes]]:
        made = transport()
        answers = []
        async with server(serve) as url:
            for _ in range(4):
                answers.append(await told(made, url))
                await asyncio.sleep(0.01)
        return answers

    answers = asyncio.run(main())
    assert len(set(answers)) == 1
    assert b"evil" not in answers[0][1]
    assert len(connections) == uses


def test_what_arrives_on_a_kept_connection_unasked_is_nobodys_answer() -> None:
    """With our client: aiohttp's takes it for the answer to the next request."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(OK + b"content-length: 5\r\n\r\nfirst")
        await asyncio.sleep(0.05)
        writer.write(OK + b"content-length: 4\r\n\r\nevil")
        await reader.read()

    async def main() -> list[tuple[int, bytes]]:
        made = HttpTransport()
        async with server(answer) as url:
            first = await told(made, url)
            await asyncio.sleep(0.15)
            return [first, await told(made, url)]

    assert asyncio.run(main()) == [(200, b"first")] * 2


def test_a_kept_connection_that_the_server_closed_is_not_asked(
    transport: Callable[[], HttpTransport],
) -> None:
    connections, serve = counted(saying(OK + b"content-length: 2\r\n\r\nhi"))

    async def main() -> None:
        made = transport()
        async with server(serve) as url:
            for _ in range(3):
                assert await told(made, url) == (200, b"hi")
                await asyncio.sleep(0.05)

    asyncio.run(main())
    assert len(connections) == 3


@pytest.mark.parametrize(("method", "again"), [("GET", True), ("DELETE", True), ("POST", False)])
def test_a_kept_connection_that_closes_under_a_request_is_replaced_only_if_asking_twice_is_harmless(
    transport: Callable[[], HttpTransport], method: str, again: bool
) -> None:
    requests = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        while True:
            await reader.readuntil(b"\r\n\r\n")
            requests += 1
            if requests == 2:
                return
            writer.write(OK + b"content-length: 2\r\n\r\nhi")

    async def main() -> tuple[int, bytes] | str:
        made = transport()
        async with server(answer) as url:
            await told(made, url, method=method, body=b"")
            try:
                return await told(made, url, method=method, body=b"")
            except TransportError as error:
                return error.code

    assert asyncio.run(main()) == ((200, b"hi") if again else "connection_broken")
    assert requests == (3 if again else 2)


def test_requests_side_by_side_have_connections_of_their_own(transport: Callable[[], HttpTransport]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            body = (await request_of(reader)).partition(b"\r\n\r\n")[2]
            await asyncio.sleep(0.02)
            writer.write(OK + b"content-length: %d\r\n\r\n%s" % (len(body), body))

    async def main() -> list[tuple[int, bytes]]:
        made = transport()
        async with server(answer) as url:
            asked = [b"%d" % number for number in range(40)]
            return [
                answer
                for _ in range(3)
                for answer in await asyncio.gather(*(told(made, url, body=body) for body in asked))
            ]

    assert asyncio.run(main()) == [(200, b"%d" % number) for number in range(40)] * 3


def test_an_error_before_the_request_was_read_is_read_all_the_same(
    transport: Callable[[], HttpTransport],
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too large\r\ncontent-length: 9\r\n\r\ntoo large")
        await writer.drain()
        await reader.read(1 << 22)
        await asyncio.sleep(0.2)

    assert outcome(transport, answer, body=b"x" * 20_000_000) == (413, b"too large")


def test_a_long_request_arrives_whole_although_its_server_reads_slowly(
    transport: Callable[[], HttpTransport],
) -> None:
    body = bytes(range(256)) * 40_000

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"content-length: %d" % len(body) in head.lower()
        got = b""
        while len(got) < len(body):
            await asyncio.sleep(0.001)
            got += await reader.read(200_000)
        writer.write(OK + b"content-length: 4\r\n\r\n" + (b"same" if got == body else b"else"))

    assert outcome(transport, answer, body=body) == (200, b"same")


def test_a_server_has_to_wait_for_a_reader_that_takes_its_time(
    transport: Callable[[], HttpTransport],
) -> None:
    """What nobody reads does not fill the memory."""
    sent = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await request_of(reader)
        writer.write(CHUNKED)
        for _ in range(400):
            writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            await writer.drain()
            sent += 65_536
        writer.write(b"0\r\n\r\n")

    async def main() -> tuple[int, int]:
        made = transport()
        async with server(answer) as url, made(WireRequest(url=url, timeouts=LIMITS)) as reply:
            portions = reply.portions()
            first = len(await anext(portions))
            await asyncio.sleep(0.3)
            stalled = sent
            return stalled, first + sum([len(portion) async for portion in portions])

    stalled, received = asyncio.run(main())
    assert stalled < 12_000_000  # most of it in the kernel's buffers
    assert received == 400 * 65_536


@pytest.mark.parametrize(
    "endless",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        OK + b"x-long: " + b"x" * 60_000,
        CHUNKED + b"2;" + b"x" * 60_000,
        CHUNKED + b"2\r\nhi\r\n0\r\nx-trailer: " + b"x" * 60_000,
    ],
    ids=["interim", "head", "extension", "trailer"],
)
def test_what_never_ends_is_given_up(endless: bytes) -> None:
    """By our client after some bytes; aiohttp's is held to the time alone."""
    made = partial(HttpTransport, direct=True)
    said = [endless, *[endless if endless.endswith(b"\r\n\r\n") else b"x" * 60_000] * 400]
    error = outcome(made, saying(*said), timeouts=Timeouts(first_byte=5, idle=5))
    assert isinstance(error, TransportError)
    assert error.code == "connection_broken"


def test_framing_without_content_is_silence(transport: Callable[[], HttpTransport]) -> None:
    said = [CHUNKED + b"2\r\nhi\r\n", *[b"0", *[b"0"] * 40]]
    error = outcome(transport, saying(*said, pause=0.05), timeouts=Timeouts(idle=0.3))
    assert isinstance(error, TransportError)
    assert error.code == "idle_timeout"


def test_a_closed_transport_ends_what_is_under_way(transport: Callable[[], HttpTransport]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(CHUNKED + b"2\r\nhi\r\n")
        await reader.read()

    async def main() -> str:
        made = transport()
        async with server(answer) as url, made(WireRequest(url=url, timeouts=LIMITS)) as reply:
            portions = reply.portions()
            assert await anext(portions) == b"hi"
            await made.close()
            with pytest.raises(TransportError) as caught:
                await asyncio.wait_for(anext(portions), 5)
            return caught.value.code

    assert asyncio.run(main()) == "connection_broken"


@pytest.mark.parametrize(
    ("host", "certified", "name"),
    [
        ("127.0.0.1", "127.0.0.1", None),
        ("localhost", "127.0.0.1", "localhost"),  # the subject of the certificate
        ("127.0.0.1", "127.0.0.9", None),
    ],
)
def test_a_certificate_counts_for_its_host_alone(
    transport: Callable[[], HttpTransport],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    certified: str,
    name: str | None,
) -> None:
    file, key = certificate(tmp_path, certified)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    named: list[str | None] = []
    context.sni_callback = lambda _, name, __: named.append(name)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    connections, serve = counted(saying(CHUNKED + b"2\r\nhi\r\n0\r\n\r\n", stays=True))

    async def main() -> list[tuple[int, bytes]]:
        made = transport()
        async with server(serve, context) as url:
            named_url = url.replace("127.0.0.1", host)
            answers = [await told(made, named_url, body=b"x" * 600_000) for _ in range(3)]
            await made.close()
            return answers

    if certified == "127.0.0.9":
        with pytest.raises(TransportError) as caught:
            asyncio.run(main())
        assert caught.value.code == "CONNECTION_FAILED"
        assert caught.value.message.endswith("is not trusted: it is for another host.")
        assert caught.value.unbilled
    else:
        assert asyncio.run(main()) == [(200, b"hi")] * 3
        assert len(connections) == 1
        assert named == [name]


def test_a_server_without_tls_is_no_secure_one(transport: Callable[[], HttpTransport]) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"content-length: 2\r\n\r\nhi")

    async def main() -> SegueError:
        async with server(answer) as url:
            with pytest.raises(TransportError) as caught:
                await told(transport(), url.replace("http:", "https:"))
            return caught.value

    error = asyncio.run(main())
    assert error.code == "CONNECTION_FAILED"
    assert "no secure connection" in error.message
    assert error.unbilled


def test_a_request_is_written_in_the_same_way_by_both() -> None:
    heads: list[dict[bytes, bytes]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = (await request_of(reader)).partition(b"\r\n\r\n")[0].split(b"\r\n")
        fields = {line.partition(b":")[0].lower(): line.partition(b":")[2].strip() for line in lines}
        heads.append({b"": first, **fields})
        writer.write(OK + b"content-length: 0\r\nconnection: close\r\n\r\n")

    async def main() -> None:
        async with server(answer) as url:
            for path in ("", "/v1/x?key=a%20b&c=d", "?only=query"):
                for fields in (
                    {"body": b"{}", "headers": {"X-Key": "é", "content-type": "application/json"}},
                    {"body": b"{}", "headers": {"User-Agent": "other", "accept-encoding": "identity"}},
                    {"body": b"", "headers": {}},
                    {"body": b"", "headers": {}, "method": "GET"},
                    {"body": b"", "headers": {"Host": "elsewhere.test"}, "method": "DELETE"},
                ):
                    for direct in (True, False):
                        made = HttpTransport(direct=direct)
                        await told(made, url + path, **fields)
                        await made.close()

    asyncio.run(main())
    assert len(heads) == 30
    for ours, theirs in zip(heads[::2], heads[1::2], strict=True):
        assert ours == theirs


@pytest.mark.parametrize(
    "url",
    [
        "http://me:secret@host/",
        "http://host.:80/",
        "http://bücher.example/",
        "http://host:0/",
        "http://host:65536/",
        "http://host/a b",
        "http://host/ü",
        "http://host/x#part",
        "http://host/a/../b",
        "http://host\\evil/",
        "http://[fe80::1%25eth0]/",
        "ftp://host/",
        "HTTP://host/",
        "host",
    ],
)
def test_our_client_declines_what_is_not_written_as_most_addresses_are(url: str) -> None:
    assert address_of(url) is None
    assert not DirectSession.takes(WireRequest(url=url))


@pytest.mark.parametrize("name", ["transfer-encoding", "Content-Length", "Upgrade", "connection", "expect"])
def test_our_client_declines_headers_that_would_change_how_a_request_is_framed(name: str) -> None:
    assert not DirectSession.takes(WireRequest(url="http://host/", headers={name: "1"}))
    assert DirectSession.takes(WireRequest(url="http://host/", headers={"x-key": "1"}))
    assert not DirectSession.takes(WireRequest(url="http://host/", method="HEAD"))


def test_an_address_never_shows_its_query() -> None:
    address = address_of("https://host/v1?key=secret")
    assert address is not None
    assert "secret" not in repr(address)


def test_connections_that_nobody_uses_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEEP_SECONDS == 15.0  # aiohttp's
    monkeypatch.setattr("segue.transports.direct_session.KEEP_SECONDS", 0.1)

    async def main() -> None:
        gone = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request_of(reader)
            writer.write(OK + b"content-length: 2\r\n\r\nhi")
            assert await reader.read() == b""
            gone.set()

        async with server(answer) as url:
            await told(HttpTransport(direct=True), url)
            await asyncio.wait_for(gone.wait(), 2)

    asyncio.run(main())
