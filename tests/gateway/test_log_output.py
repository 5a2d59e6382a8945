"""A log whose reader is slow or hangs holds up no request. Before, the gateway stopped as soon as a pipe was full: after 64 KB."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

import pytest

from cli.cli_runs import Home
from segue.gateway.server.log_output import MOST_BYTES, LogOutput, patient_log

_PIPE_BYTES = 1 << 16
_LONG_PATH = "/nowhere/" + "x" * 2000


@contextmanager
def unread(place: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A gateway whose log goes into a pipe, of which only the first line is read; and its port."""
    home = Home(place)
    home.configure("[gateway]\nport = 0\n")
    words = [sys.executable, "-m", "segue", "serve"]
    with subprocess.Popen(  # noqa: S603 - this very program
        words, stderr=subprocess.PIPE, env=home.full(), cwd=home.project
    ) as process:
        assert process.stderr is not None
        try:
            first = process.stderr.readline().decode()
            yield process, int(first.split()[2].rstrip(".").rpartition(":")[2])
        finally:
            process.kill()


def ask(port: int, path: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".encode())
        return connection.recv(20)


def test_requests_are_answered_while_nobody_reads_the_log(tmp_path: Path) -> None:
    with unread(tmp_path) as (process, port):
        requests = 3 * _PIPE_BYTES // len(_LONG_PATH)
        for _ in range(requests):
            assert ask(port, _LONG_PATH).startswith(b"HTTP/1.1 404")
        lines: list[bytes] = []
        assert process.stderr is not None
        reader = threading.Thread(target=lines.extend, args=(process.stderr,), daemon=True)
        reader.start()
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        reader.join(20)
        assert sum(b" 404 " in line for line in lines) == requests, "all of it waited for a reader"


def test_a_gateway_ends_while_nobody_reads_the_log(tmp_path: Path) -> None:
    with unread(tmp_path) as (process, port):
        for _ in range(3 * _PIPE_BYTES // len(_LONG_PATH)):
            ask(port, _LONG_PATH)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@contextmanager
def piped() -> Iterator[tuple[int, TextIOWrapper]]:
    reading, writing = os.pipe()
    try:
        with open(writing, "w", encoding="utf-8") as stream:  # noqa: PTH123 - a pipe
            yield reading, stream
    finally:
        os.close(reading)


def read_until(file: int, last: bytes) -> bytes:
    read = b""
    while last not in read:
        portion = os.read(file, 1 << 16)
        assert portion
        read += portion
    return read


def test_what_waits_for_a_reader_is_bounded_and_lost_lines_are_counted() -> None:
    line, count = "y" * 999 + "\n", 3 * MOST_BYTES // 1000
    with piped() as (reading, stream):
        output = LogOutput(stream)
        began = time.monotonic()
        for _ in range(count):
            output.write(line)
        assert time.monotonic() - began < 5
        assert output._held <= MOST_BYTES
        # A thread that gets its turn in between reports twice.
        whole = lost = 0
        read = b""
        while whole + lost < count:
            read += read_until(reading, b"too slow.\n")
            whole = read.count(line.encode())
            lost = sum(int(one.split()[0]) for one in read.splitlines() if one.endswith(b"too slow."))
    assert whole + lost == count
    assert MOST_BYTES - _PIPE_BYTES <= whole * len(line) <= MOST_BYTES + 2 * _PIPE_BYTES


@pytest.mark.parametrize(("line", "fitting"), [("x" * MOST_BYTES + "\n", 0), ("y" * 65_535 + "\n", 16)])
def test_how_much_was_lost_is_written_before_the_log_is_closed(line: str, fitting: int) -> None:
    with piped() as (reading, stream):
        output, read = LogOutput(stream), bytearray()
        for _ in range(fitting):
            output.write(line)
        time.sleep(0.2)  # the thread is in the midst of writing them
        output.write(line)
        reader = threading.Thread(target=lambda: read.extend(read_until(reading, b"end\n")), daemon=True)
        reader.start()
        output.close()
        os.write(stream.fileno(), b"end\n")
        reader.join(10)
    *_, lost, end = bytes(read).splitlines()
    assert end == b"end"
    assert lost.endswith(b"too slow.")


def test_lines_of_many_threads_arrive_whole_and_in_order() -> None:
    with piped() as (reading, stream):
        output = LogOutput(stream)

        def write(name: str) -> None:
            for number in range(200):
                output.write(f"{name} {number}\n")

        threads = [threading.Thread(target=write, args=(f"t{number}",)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        output.close()
        output.write("end\n")
        lines = read_until(reading, b"end\n").decode().splitlines()
    for number in range(5):
        assert [line for line in lines if line.startswith(f"t{number} ")] == [
            f"t{number} {each}" for each in range(200)
        ]


def test_text_that_cannot_be_encoded_is_written_with_escapes() -> None:
    with piped() as (reading, stream):
        LogOutput(stream).write("\ud800 é\n")
        assert read_until(reading, b"\n") == b"\\ud800 \xc3\xa9\n"


def test_a_reader_that_has_gone_ends_nothing() -> None:
    reading, writing = os.pipe()
    with open(writing, "w", encoding="utf-8") as stream:  # noqa: PTH123 - a pipe
        os.close(reading)
        output = LogOutput(stream)
        output.write("a\n")
        output.close()
        output.write("b\n")
        output.close()
        assert output._held == 0


def test_the_standard_error_is_as_before_afterwards(capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():
        before = sys.stderr
        with patient_log():
            assert isinstance(sys.stderr, LogOutput)
        assert sys.stderr is before
