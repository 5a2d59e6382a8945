"""Requests that are sent to fill the memory or to stop the process, by callers with a key: the others are served as before."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from cli.cli_runs import Home
from gateway.attacked_gateway import CALLER, MIB, MODEL, OTHER, AttackedGateway, read_answer
from gateway.limited_callers import key_of
from gateway.plain_provider import plain_provider

LAG = 1.0
HELD = 40 * MIB
WARM = 16 * MIB
"""What is kept for the next requests of conversations: it must not hide what is kept by mistake."""
SETTINGS = f"limits = {{ held_bytes = {HELD}, warm_bytes = {WARM}, body_bytes = {6 * MIB}, lag = {LAG} }}\n"
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedGateway]:
    with plain_provider() as url:
        home = Home(tmp_path_factory.mktemp("attacked") / "home")
        gateway = AttackedGateway(
            home, url, SETTINGS, callers={CALLER: "", OTHER: "", "one": "concurrent = 1"}
        )
        try:
            assert gateway.ask(CHAT)[0] == 200
            yield gateway
        finally:
            gateway.stop()


def head(caller: str, length: int) -> bytes:
    return (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n"
        f"authorization: Bearer {key_of(caller)}\r\ncontent-length: {length}\r\n\r\n"
    ).encode()


def messages_of(count: int) -> bytes:
    one = b'{"role":"user","content":""}'
    return b'{"model":"%b","messages":[%b]}' % (MODEL.encode(), b",".join([one] * count))


@contextmanager
def other_callers(gateway: AttackedGateway) -> Iterator[list[float]]:
    """Seconds that each small request of another caller takes meanwhile."""
    seconds: list[float] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            began = time.monotonic()
            assert gateway.ask(CHAT, caller=OTHER)[0] == 200
            seconds.append(time.monotonic() - began)
            time.sleep(0.01)

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        try:
            yield seconds
        finally:
            over.set()
        asking.result()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (messages_of(200_000), "too_many_values"),
        (messages_of(25_000), "too_many_messages"),
        (b'{"model":"m","messages":[],"x":[%b]}' % b",".join([b"{}"] * 500_000), "too_many_values"),
        (b'{"model":"m","messages":[{"role":"user","content":"%b"}]}' % (b"{}," * MIB), "too_many_values"),
        (
            json.dumps({**CHAT, "x": {str(number): 1 for number in range(200_001)}}).encode(),
            "too_many_values",
        ),
    ],
    ids=["values", "messages", "empty values", "values in a text", "keys"],
)
def test_a_body_of_very_many_values_is_refused_before_it_is_read(
    gateway: AttackedGateway, body: bytes, code: str
) -> None:
    before = gateway.forget_peak()
    with other_callers(gateway) as seconds:
        status, answer = gateway.ask(body)
        time.sleep(0.05)
    assert status == 413
    assert json.loads(answer)["error"]["code"] == code
    assert gateway.peak - before < 8 * len(body) + 4 * MIB
    assert max(seconds) < LAG


@pytest.mark.parametrize("text", ["x" * (3 * MIB), "x" * (3 * MIB) + "😀", "word, word " * 40_000])
def test_what_is_read_of_a_large_body_is_bounded_and_others_need_not_wait(
    gateway: AttackedGateway, text: str
) -> None:
    body = json.dumps(
        {"model": MODEL, "messages": [{"role": "user", "content": text}]}, ensure_ascii=False
    ).encode()
    before = gateway.forget_peak()
    with other_callers(gateway) as seconds:
        for _ in range(3):
            assert gateway.ask(body)[0] == 200
    assert gateway.peak - before < 16 * len(body) + 4 * MIB
    assert max(seconds) < LAG


def test_arguments_of_very_many_values_do_not_hold_others_up(gateway: AttackedGateway) -> None:
    arguments = json.dumps({"values": [{}] * 100_000})
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ]
    with other_callers(gateway) as seconds:
        assert gateway.ask({"model": MODEL, "messages": messages})[0] == 200
    assert max(seconds) < LAG


def test_all_bodies_together_stay_within_one_budget_and_a_caller_within_its_half(
    gateway: AttackedGateway,
) -> None:
    """Twelve bodies that never end: beyond its half of the budget the caller is refused, and another is served."""
    size = 5 * MIB
    before = gateway.forget_peak()
    opened: list[socket.socket] = []
    try:
        for _ in range(12):
            connection = gateway.connect()
            opened.append(connection)
            with suppress(ConnectionError):
                connection.sendall(head(CALLER, size) + b" " * (size - 1))
        assert gateway.ask(CHAT, caller=OTHER)[0] == 200
        time.sleep(0.3)
        assert gateway.peak - before < 4 * HELD
        refused = 0
        for connection in opened:
            connection.settimeout(0.2)
            with suppress(TimeoutError):
                answer = read_answer(connection)
                refused += answer.startswith((b"HTTP/1.1 503", b"HTTP/1.1 529")) or not answer
        assert refused >= 12 - HELD // 2 // size
    finally:
        for connection in opened:
            connection.close()
    time.sleep(0.3)
    assert (
        gateway.ask(
            b'{"model":"%b","messages":[{"role":"user","content":"%b"}]}' % (MODEL.encode(), b"x" * size)
        )[0]
        == 200
    )


def test_how_many_requests_a_caller_may_have_is_asked_before_its_body_is_read(
    gateway: AttackedGateway,
) -> None:
    with gateway.connect() as first, gateway.connect() as second:
        first.sendall(head("one", 1000))
        time.sleep(0.2)
        second.sendall(head("one", 1000))
        answer = second.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 429 ")
        assert b"requests at a time" in answer
    time.sleep(0.2)
    for _ in range(20):  # one behind the other
        assert gateway.ask(CHAT, caller="one")[0] == 200


@pytest.mark.timeout(60)
def test_complete_background_replies_keep_no_input(gateway: AttackedGateway) -> None:
    text = "word " * 600_000

    def start(number: int) -> str:
        body = {"model": MODEL, "background": True, "input": f"{number} {text}"}
        status, answer = gateway.ask(body, "/v1/responses", caller=CALLER if number % 2 else OTHER)
        assert status == 200, answer
        return str(json.loads(answer)["id"])

    def completed(reply_id: str, caller: str) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=10)
        try:
            connection.request(
                "GET", f"/v1/responses/{reply_id}", headers={"authorization": f"Bearer {key_of(caller)}"}
            )
            return bool(json.loads(connection.getresponse().read())["status"] == "completed")
        finally:
            connection.close()

    def make(count: int) -> None:
        for number in range(count):
            reply_id = start(number)
            deadline = time.monotonic() + 5
            while not completed(reply_id, CALLER if number % 2 else OTHER):
                assert time.monotonic() < deadline
                time.sleep(0.01)

    make(12)  # what is kept for the next requests of a conversation is full by then
    before = gateway.memory
    make(16)
    assert gateway.memory - before < 16 * len(text) / 2
