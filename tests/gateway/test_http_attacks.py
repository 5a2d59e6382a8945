"""HTTP that is sent to fill the memory or to hold a connection, most of it by clients without a key."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cli.cli_runs import Home
from gateway.attacked_gateway import CALLER, MIB, AttackedGateway, attacked, read_answer
from gateway.limited_callers import key_of
from gateway.plain_provider import plain_provider

HEADER_BYTES = 20_000
BODY_BYTES = 2 * MIB
BODY_SECONDS = 1.0
SETTINGS = f"limits = {{ header_bytes = {HEADER_BYTES}, body_bytes = {BODY_BYTES}, body_timeout = {BODY_SECONDS} }}\n"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n"
CHAT = json.dumps({"model": "openai/gpt-4.1", "messages": [{"role": "user", "content": "hi"}]}).encode()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedGateway]:
    with attacked(tmp_path_factory.mktemp("attacked"), SETTINGS) as (gateway, _):
        yield gateway


@pytest.fixture(scope="module")
def accepting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedGateway]:
    """Before a provider that answers for every model."""
    with plain_provider() as url:
        gateway = AttackedGateway(Home(tmp_path_factory.mktemp("accepting") / "home"), url)
        yield gateway
        gateway.stop()


def authorization() -> bytes:
    return f"authorization: Bearer {key_of(CALLER)}\r\n".encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def flood(connection: socket.socket, portion: bytes, most: int) -> int:
    """How many bytes could be sent."""
    sent = 0
    with suppress(OSError):
        while sent < most:
            connection.sendall(portion)
            sent += len(portion)
    return sent


@pytest.mark.parametrize(
    "portion",
    [b"a: b\r\n" * 10_000, b"x" * 65_536, b"some-name: " + b"v" * 4_000 + b"\r\n"],
    ids=["many", "one without an end", "long"],
)
def test_trailers_are_bounded(gateway: AttackedGateway, portion: bytes) -> None:
    before = gateway.forget_peak()
    with gateway.connect() as connection:
        connection.sendall(CHUNKED + b"\r\n" + chunk(CHAT) + b"0\r\n")
        sent = flood(connection, portion, 40 * MIB)
        received = read_answer(connection)
    assert sent < 16 * MIB
    assert gateway.peak - before < 8 * MIB
    assert received.startswith((b"HTTP/1.1 401 ", b"HTTP/1.1 431 ")) or not received


def test_a_trailer_is_no_header(gateway: AttackedGateway) -> None:
    with gateway.connect() as connection:
        connection.sendall(
            CHUNKED + b"connection: close\r\n\r\n" + chunk(CHAT) + b"0\r\n" + authorization() + b"\r\n"
        )
        assert read_answer(connection).startswith(b"HTTP/1.1 401 ")

    with gateway.connect() as connection:
        connection.sendall(
            CHUNKED
            + authorization()
            + b"connection: close\r\n\r\n"
            + chunk(CHAT)
            + b"0\r\nx-checksum: 1\r\n\r\n"
        )
        assert read_answer(connection).startswith(b"HTTP/1.1 200 ")


def test_thousands_of_tiny_headers_are_refused(gateway: AttackedGateway) -> None:
    before = gateway.forget_peak()
    opened = [gateway.connect() for _ in range(20)]
    for connection in opened:
        connection.sendall(POST + b"a:\r\n" * 4_000)
    answers = []
    for connection in opened:
        connection.sendall(b"content-length: 0\r\n\r\n")
        with suppress(TimeoutError):
            answers.append(read_answer(connection)[:12])
        connection.close()
    assert set(answers) == {b"HTTP/1.1 431"}
    assert gateway.peak - before < 8 * 20 * 16_000 + MIB


def test_pipelined_requests_are_bounded(gateway: AttackedGateway) -> None:
    """Each would be a request that waits, with all that belongs to one: a hundred times its bytes."""
    before = gateway.forget_peak()
    request = b"GET /healthz HTTP/1.1\r\n\r\n"
    with gateway.connect() as connection:
        connection.sendall(request * 40_000)
        received = read_answer(connection)
    assert gateway.peak - before < 8 * len(request) * 40_000
    assert received.count(b"HTTP/1.1 ") < 100


def test_a_few_pipelined_requests_are_answered(gateway: AttackedGateway) -> None:
    request = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    with gateway.connect() as connection:
        connection.sendall(request * 7 + request.replace(b"host: x", b"connection: close"))
        assert read_answer(connection).count(b"HTTP/1.1 200 ") == 8


@pytest.mark.parametrize(
    "length", [b"content-length: 4000000000\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n"]
)
def test_after_a_refusal_no_more_than_one_body_is_read(gateway: AttackedGateway, length: bytes) -> None:
    with gateway.connect() as connection:
        connection.sendall(POST + length)
        sent = flood(connection, chunk(b" " * 65_536), 40 * MIB)
        received = read_answer(connection)
    # What the kernel holds on both sides is sent, too.
    assert sent < BODY_BYTES + 16 * MIB
    assert received.startswith((b"HTTP/1.1 401 ", b"HTTP/1.1 413 ")) or not received


def test_after_a_refusal_a_body_that_drips_is_not_waited_for(gateway: AttackedGateway) -> None:
    with gateway.connect() as connection:
        connection.sendall(POST + b"content-length: 1000\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 401 ")
        began = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - began < 5:
                connection.sendall(b" ")
                time.sleep(0.1)
        assert BODY_SECONDS / 2 < time.monotonic() - began < 4


def test_a_client_that_sends_all_of_its_body_first_reads_why_it_is_refused(gateway: AttackedGateway) -> None:
    body = b" " * (BODY_BYTES - 1000)
    with gateway.connect() as connection:
        for _ in range(3):
            connection.sendall(POST + b"content-length: %d\r\n\r\n" % len(body) + body)
            answer = connection.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 401 ")
            time.sleep(0.1)


def test_empty_lines_hold_no_connection(gateway: AttackedGateway) -> None:
    with gateway.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
        began = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - began < 5:
                connection.sendall(b"\r\n")
                time.sleep(0.1)
        assert time.monotonic() - began < 4


def test_a_refusal_of_headers_reaches_a_client_that_is_still_sending(gateway: AttackedGateway) -> None:
    with gateway.connect() as connection:
        with suppress(ConnectionError):
            connection.sendall(POST + b"x-large: " + b"v" * (MIB) + b"\r\n")
        assert b"HTTP/1.1 431 " in read_answer(connection)


NAMES = [
    "gpt\n4",
    "gpt\r\nx-evil: 1",
    "gpt\x00",
    "\x7f",
    "gpt\x1b[31m",
    "openai/gpt\n4",
    "openai/\x01",
    "openai/gpt\r\n\r\n",
    "ﷺ",
    "\ud800",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat"])
def test_whatever_a_model_is_called_there_is_an_answer(
    accepting: AttackedGateway, name: str, path: str
) -> None:
    asked = {"model": name, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "input": "hi"}
    body = json.dumps(asked).encode()
    with accepting.connect() as connection:
        start = POST.replace(b"/v1/chat/completions", path.encode()) + authorization()
        connection.sendall(start + b"connection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        head, _, answer = read_answer(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 ")
    assert b"x-evil: 1" not in head.split(b"\r\n")
    assert answer.strip()


def test_whatever_the_headers_of_a_provider_hold_there_is_an_answer(tmp_path: Path) -> None:
    reply = {
        "id": "1",
        "object": "chat.completion",
        "model": "gpt-4.1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    body = json.dumps(reply).encode()
    odd = [b"a\x01b", b"\x1b[31m", b"\x7f", b"\xff\xfe", b"a\tb", b"x" * 7000]
    left = [*odd]

    class Provider(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while (line := self.rfile.readline().lower()) not in (b"\r\n", b""):
                length = int(line[15:]) if line.startswith(b"content-length:") else length
            self.rfile.read(length)
            value = left.pop(0) if left else b""
            self.wfile.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
                b"x-ratelimit-odd: %b\r\nopenai-processing-ms: %b\r\ncontent-length: %d\r\n\r\n%b"
                % (value, value, len(body), body)
            )

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Provider) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        gateway = AttackedGateway(Home(tmp_path / "home"), f"http://127.0.0.1:{server.server_address[1]}/v1")
        try:
            statuses = [gateway.ask(CHAT)[0] for _ in odd]
        finally:
            gateway.stop()
            server.shutdown()
    # What is not HTTP at all is the provider's failure, and said to be.
    assert set(statuses) <= {200, 502, 503}
    assert 200 in statuses
