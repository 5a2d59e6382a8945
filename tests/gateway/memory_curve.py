"""The memory of a gateway over very many requests of conversations that grow and begin anew, as a curve in text.

`make memory-curve` sends 200,000. What rises at first is what is kept for the next requests of conversations; then it is flat.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from cli.cli_runs import Home
from gateway.attacked_gateway import CALLER, MIB, MODEL, AttackedGateway
from gateway.limited_callers import key_of
from gateway.plain_provider import plain_provider

CLIENTS: Final = 4
MOST_MESSAGES: Final = 100
_WORDS: Final = "Some words of a user, and what a tool has found in a file of the project. " * 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--points", type=int, default=20)
    asked = parser.parse_args()
    with plain_provider() as url, tempfile.TemporaryDirectory() as place:
        # A machine that does other things as well must not end it: what is measured is memory, not speed.
        gateway = AttackedGateway(Home(Path(place) / "home"), url, "[gateway.limits]\nlag = 60\n")
        try:
            _draw(gateway, asked.requests, asked.points)
        finally:
            gateway.stop()


def _draw(gateway: AttackedGateway, requests: int, points: int) -> None:
    began, sent = time.monotonic(), 0
    while sent < requests:
        count = max(1, requests // points // CLIENTS)
        threads = [threading.Thread(target=_converse, args=(gateway, count, sent)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sent += count * CLIENTS
        size = gateway.memory // MIB
        line = f"{sent:9,d} requests {time.monotonic() - began:7.0f} s {size:5d} MiB {gateway.open_files:4d} files "
        sys.stdout.write(line + "#" * (size // 4) + "\n")
        sys.stdout.flush()


def _converse(gateway: AttackedGateway, count: int, salt: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    headers = {"content-type": "application/json", "authorization": f"Bearer {key_of(CALLER)}"}
    messages: list[dict[str, Any]] = []
    for number in range(count):
        if len(messages) >= MOST_MESSAGES:
            messages = []
        name = f"{salt} {threading.get_ident()} {number}"
        messages.append({"role": "user", "content": f"{name} {_WORDS}"})
        body = {"model": MODEL, "messages": messages, "stream": number % 2 == 0}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
        messages.append({"role": "assistant", "content": "ok"})
    connection.close()


if __name__ == "__main__":
    main()
