"""Providers that answer without an end, and what else a gateway runs out of: it costs a few times the limit, and no traceback."""

from __future__ import annotations

import json
import signal
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import repeat
from pathlib import Path
from typing import Final

import pytest

from cli.cli_runs import Home
from gateway.attacked_gateway import MIB, MODEL, AttackedGateway
from gateway.plain_provider import plain_provider

LIMIT: Final = 16 * MIB
CHAT = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
_SSE, _JSON = b"text/event-stream", b"application/json"


def _delta(text: str) -> bytes:
    return b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode()


def _call(text: str) -> bytes:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": text}}
    return b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}).encode()


ENDLESS = {
    "line": (_SSE, b"data: ", b"x" * 65_536),
    "stream": (_SSE, b"", _delta("word " * 200) * 50),
    "short portions": (_SSE, b"", _delta("a") * 1000),
    "arguments": (_SSE, b"", _call("1234567890" * 100) * 50),
    "body": (_JSON, b'{"choices":[{"message":{"content":"', b"x" * 65_536),
    "values": (_JSON, b'{"choices":[', b"{}," * 20_000),
}


@contextmanager
def hostile_provider(kind: bytes, start: bytes, portion: bytes) -> Iterator[str]:
    class Provider(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while (line := self.rfile.readline().lower()) not in (b"\r\n", b""):
                length = int(line[15:]) if line.startswith(b"content-length:") else length
            self.rfile.read(length)
            head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\nconnection: close\r\n\r\n" % kind
            with suppress(OSError):
                self.wfile.write(head + start)
                for data in repeat(portion):
                    self.wfile.write(data)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Provider) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("attack", ENDLESS)
def test_a_reply_without_an_end_takes_at_most_three_times_its_limit(attack: str, tmp_path: Path) -> None:
    limits = f"limits = {{ body_bytes = {LIMIT}, line_bytes = {LIMIT} }}"
    with hostile_provider(*ENDLESS[attack]) as url:
        gateway = AttackedGateway(Home(tmp_path / "home"), url, provider=limits)
        try:
            assert gateway.ask({**CHAT, "model": "nowhere/at-all", "n": -1}, "/v1/none")[0] == 404
            for path in ("/v1/chat/completions", "/v1/messages"):  # forwarded, and translated
                before = gateway.forget_peak()
                _, answer = gateway.ask({**CHAT, "stream": ENDLESS[attack][0] == _SSE}, path)
                assert b"larger than 16 MiB" in answer
                assert gateway.peak - before < 3 * LIMIT + 4 * MIB
            assert not [line for line in gateway.lines if "Traceback" in line]
        finally:
            gateway.stop()


@pytest.mark.timeout(60)
def test_settings_that_are_read_anew_again_and_again_open_no_more_files(tmp_path: Path) -> None:
    with plain_provider() as url:
        gateway = AttackedGateway(Home(tmp_path / "home"), url)
        try:
            counts: list[int] = []
            for number in range(1, 41):
                gateway.process.send_signal(signal.SIGHUP)
                deadline = time.monotonic() + 10
                while sum("read anew" in line for line in gateway.lines) < number:
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
                assert gateway.ask(CHAT)[0] == 200
                if number == 10:
                    time.sleep(0.5)  # the gateway before is closed when its requests have ended
                    counts.append(gateway.open_files)
            # SQLite keeps a few of closed connections for the next ones; these are used again.
            deadline = time.monotonic() + 5
            while gateway.open_files > counts[0] + 4:
                assert time.monotonic() < deadline, [*counts, gateway.open_files]
                time.sleep(0.05)
        finally:
            gateway.stop()


def test_without_files_for_connections_there_is_a_line_and_no_traceback(tmp_path: Path) -> None:
    with plain_provider() as url:
        gateway = AttackedGateway(Home(tmp_path / "home"), url, files=40)
        opened: list[socket.socket] = []
        try:
            assert gateway.ask(CHAT)[0] == 200
            opened += [gateway.connect() for _ in range(60)]
            time.sleep(1)
            for connection in opened:
                with suppress(OSError):
                    connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            time.sleep(0.5)
            for connection in opened:
                connection.close()
            time.sleep(1.5)
            assert gateway.ask(CHAT)[0] == 200, "it goes on when there are some again"
        finally:
            for connection in opened:
                connection.close()
            gateway.stop()
        assert not [line for line in gateway.lines if "Traceback" in line or "File " in line], gateway.lines
        assert 0 < sum("New connections wait" in line for line in gateway.lines) < 5
