"""The gateway as a process: drain, reload, bounds, TLS. Real signals, real sockets."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

SAMPLE = Path(__file__).with_name("sample_server.py")


class Gateway:
    def __init__(self, file: Path, settings: dict[str, Any]) -> None:
        self.file = file
        self.configure(settings)
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, str(SAMPLE), str(file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        assert self.process.stderr is not None
        self._reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr or ()))
        self._reader.start()
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url, self.lines

    def configure(self, settings: dict[str, Any]) -> None:
        self.file.write_text(json.dumps({"name": "one", "port": 0, "log": "json", **settings}))

    def get(self, path: str, **headers: str) -> tuple[int, bytes, Any]:
        request = urllib.request.Request(self.url + path, headers=headers)  # noqa: S310 - loopback
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310
                return reply.status, reply.read(), reply.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read(), error.headers

    def wait_for(self, words: str) -> str:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if words in line:
                    return line
            time.sleep(0.01)
        raise AssertionError(f"no line with {words} in {self.lines}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(15)
        self._reader.join(5)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


Starter = Callable[..., Gateway]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    started: list[Gateway] = []

    def start_one(**settings: Any) -> Gateway:
        started.append(Gateway(tmp_path / "settings.json", settings))
        return started[-1]

    yield start_one
    for gateway in started:
        if not gateway.process.stdout or not gateway.process.stdout.closed:
            gateway.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One for the tests that leave it as it was."""
    limits = {"header_bytes": 10_000, "body_timeout": 0.5}
    gateway = Gateway(tmp_path_factory.mktemp("gateway") / "settings.json", {"limits": limits})
    yield gateway
    assert gateway.stop() == 0


def test_a_reply_under_way_ends_before_the_gateway_does(start: Starter) -> None:
    gateway = start()
    received: list[bytes] = []
    thread = threading.Thread(target=lambda: received.append(gateway.get("/slow")[1]))
    thread.start()
    time.sleep(0.3)
    gateway.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    address = urlsplit(gateway.url)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=5)
    thread.join(10)
    assert b"9\none draining\n" in received[0]
    assert gateway.stop() == 0
    assert "closed one" in "".join(gateway.lines)


def test_replies_that_take_too_long_are_cut_when_the_gateway_ends(start: Starter) -> None:
    gateway = start(limits={"drain": 0.3})
    address = urlsplit(gateway.url)
    with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=5) as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
        assert connection.recv(100)
        began = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - began < 8


def test_the_settings_are_read_anew_while_a_request_runs(start: Starter) -> None:
    gateway = start()
    received: list[bytes] = []
    thread = threading.Thread(target=lambda: received.append(gateway.get("/held")[1]))
    thread.start()
    time.sleep(0.2)
    gateway.configure({"name": "two"})
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait_for("read anew")
    assert gateway.get("/x")[1].startswith(b"two\n")
    assert not [line for line in gateway.lines if "closed one" in line]
    gateway.file.with_name("release").touch()
    thread.join(10)
    assert received == [b"one\n"]
    gateway.wait_for("closed one")
    gateway.configure({"name": "wrong"})
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait_for("the old ones hold: The name is wrong.")
    assert gateway.get("/x")[1].startswith(b"two\n")
    assert gateway.stop(signal.SIGINT) == 0


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 5000 + b"\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 500_000, b"431"),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 50_000, b"431"),
        (b"GET / HTTP/1.1\r\nx: ", b"408"),
        (b"", b"408"),
        (b"\x16\x03\x01garbage\r\n\r\n", b"400"),
    ],
)
def test_headers_are_bounded_in_size_and_time(gateway: Gateway, sent: bytes, status: bytes) -> None:
    address = urlsplit(gateway.url)
    with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=5) as connection:
        with suppress(OSError):  # it may be refused before all of it was sent
            connection.sendall(sent)
        try:
            assert connection.recv(1000).split(b" ")[1] == status
        except ConnectionResetError:
            assert len(sent) > 100_000
    assert gateway.get("/healthz")[0] == 200


@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_a_body_arrives_whole_in_however_many_pieces_it_is_sent(gateway: Gateway, pieces: int) -> None:
    body = b"".join(b"%d," % number for number in range(40_000))
    size = len(body) // pieces + 1
    address = urlsplit(gateway.url)
    connection = HTTPConnection(str(address.hostname), int(address.port or 0), timeout=5)
    with closing(connection):
        connection.putrequest("POST", "/echo")
        connection.putheader("content-length", str(len(body)))
        connection.endheaders()
        for start in range(0, len(body), size):
            connection.send(body[start : start + size])
            time.sleep(0.01)
        assert connection.getresponse().read() == body + b"one\n"


@pytest.mark.skipif(sys.platform != "linux", reason="limits another process")
def test_a_gateway_without_files_for_connections_reports_it_once(start: Starter) -> None:
    import resource

    gateway = start()
    most = len(list(Path(f"/proc/{gateway.process.pid}/fd").iterdir())) + 3
    resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (most, most))
    address = urlsplit(gateway.url)
    waiting = [socket.create_connection((address.hostname, address.port or 0)) for _ in range(10)]
    gateway.wait_for("ulimit -n")
    time.sleep(1.5)  # the loop has tried again
    for connection in waiting:
        connection.close()
    assert gateway.get("/")[0] == 200
    assert len(gateway.lines) == 1


def test_the_gateway_serves_https(start: Starter, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (tmp_path / "c.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (tmp_path / "k.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    gateway = start(tls_certificate=str(tmp_path / "c.pem"), tls_key=str(tmp_path / "k.pem"))
    assert gateway.url.startswith("https://")
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    def check() -> None:
        with urllib.request.urlopen(gateway.url + "/healthz", context=context, timeout=5) as reply:  # noqa: S310
            assert reply.status == 200

    check()
    place = ("127.0.0.1", int(urlsplit(gateway.url).port or 0))
    for _ in range(20):
        with closing(socket.create_connection(place, timeout=10)) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            with suppress(ConnectionResetError):
                assert not plain.recv(100).startswith(b"HTTP"), "nothing is served without TLS"
    silent = [socket.create_connection(place, timeout=10) for _ in range(200)]
    check()
    for connection in silent:
        connection.close()
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname = False
    old.verify_mode = ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with closing(socket.create_connection(place, timeout=10)) as connection, pytest.raises(OSError):
        old.wrap_socket(connection)
