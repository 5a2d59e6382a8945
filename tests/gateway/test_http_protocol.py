"""When what an application writes leaves the gateway's server."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import uvicorn

from segue.gateway.requests.web import RESPONSE
from segue.gateway.server.http_protocol import bounded_protocol
from segue.gateway.server.process import open_listener

PAUSE = 1.0


async def busy(scope: Any, receive: Any, send: Any) -> None:
    """Answers, and then keeps the loop busy, as other requests would."""
    await receive()
    if scope["path"] == "/plain":
        response = scope[RESPONSE]
        response.start(200, [])
        response.write(b"first", last=False)
        response.write(b"second", last=True)
        return
    streamed = scope["path"] == "/streamed"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-first", b"head")]})
    await send({"type": "http.response.body", "body": b"first", "more_body": streamed})
    time.sleep(PAUSE)
    if streamed:
        await send({"type": "http.response.body", "body": b"second", "more_body": True})
        time.sleep(PAUSE)
        await send({"type": "http.response.body", "body": b"third", "more_body": False})


@pytest.fixture
def port() -> Iterator[int]:
    listener = open_listener("127.0.0.1", 0)
    protocol = bounded_protocol(header_bytes=10_000, header_seconds=5, body_bytes=1000)
    server = uvicorn.Server(
        uvicorn.Config(busy, http=protocol, lifespan="off", log_config=None, access_log=False, ws="none")
    )
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()


def portions(port: int, path: str, last: bytes) -> list[tuple[bytes, float]]:
    """What a client gets at once, and the seconds until then."""
    with closing(socket.create_connection(("127.0.0.1", port))) as connection:
        connection.settimeout(10)
        connection.sendall(b"GET " + path.encode() + b" HTTP/1.1\r\nhost: here\r\n\r\n")
        began, received = time.monotonic(), b""
        found: list[tuple[bytes, float]] = []
        while last not in received:
            portion = connection.recv(1 << 16)
            assert portion
            received += portion
            found.append((portion, time.monotonic() - began))
        return found


@pytest.mark.parametrize(("path", "last"), [("/whole", b"first"), ("/streamed", b"0\r\n\r\n")])
def test_the_head_leaves_at_once_with_what_begins_the_body(port: int, path: str, last: bytes) -> None:
    portion, seconds = portions(port, path, last)[0]
    assert b"x-first: head" in portion
    assert b"first" in portion.partition(b"\r\n\r\n")[2]
    assert seconds < PAUSE


def test_no_portion_waits_for_what_the_loop_does_next(port: int) -> None:
    found = portions(port, "/streamed", b"0\r\n\r\n")
    assert [word for portion, _ in found for word in (b"first", b"second", b"third") if word in portion] == [
        b"first",
        b"second",
        b"third",
    ]
    assert len(found) == 3
    assert found[1][1] < 2 * PAUSE


@pytest.mark.parametrize(
    ("version", "body"), [("1.0", b"firstsecond"), ("1.1", b"5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n")]
)
def test_a_client_of_http_1_0_gets_a_body_without_chunks(port: int, version: str, body: bytes) -> None:
    with closing(socket.create_connection(("127.0.0.1", port))) as connection:
        connection.settimeout(10)
        connection.sendall(f"GET /plain HTTP/{version}\r\nhost: here\r\nconnection: close\r\n\r\n".encode())
        received = b""
        while portion := connection.recv(1 << 16):
            received += portion
    head, _, got = received.partition(b"\r\n\r\n")
    assert got == body
    assert (b"transfer-encoding" in head) is (version == "1.1")
