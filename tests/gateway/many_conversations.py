"""Very many conversations of one client at once: `make conversations` begins 10,000 and continues each.

Nobody's conversation is lost, memory stays within what is set, and a request does not take longer because there are many others.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from cli.cli_runs import Home
from gateway.attacked_gateway import CALLER, MIB, AttackedGateway
from gateway.crashes import SlowModel, folded_reply, signatures_in
from gateway.limited_callers import key_of
from segue.emulators.emulator import Emulator
from segue.emulators.server import serve

MODEL: Final = "anthropic/claude-sonnet-4-6"
"""Signs its thoughts, which a client of the Chat wire cannot hold: who remembers a conversation has them."""


class ManyConversations(Struct):
    """What happened."""

    count: int
    known: int = 0
    """Of them, whose first reply was put back with its signature when they were continued."""
    first_ms: float = 0.0
    """The median of the first hundredth of all requests."""
    last_ms: float = 0.0
    memory: list[int] = []
    """Of the process in bytes, after each tenth."""
    stored: int = 0
    """Bytes on the disk at the end."""


class _Client:
    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"content-type": "application/json", "authorization": f"Bearer {key_of(CALLER)}"}
        self.milliseconds: list[float] = []

    def send(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        body = {"model": MODEL, "messages": messages, "stream": True, "reasoning_effort": "high"}
        began = time.perf_counter()
        self._connection.request("POST", "/v1/chat/completions", json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        data = answer.read()
        self.milliseconds.append(1000 * (time.perf_counter() - began))
        assert answer.status == 200, data
        return folded_reply(data)

    def close(self) -> None:
        self._connection.close()


def converse(place: Path, count: int) -> ManyConversations:
    found = ManyConversations(count)
    emulator = Emulator(strict=True, responder=SlowModel(delay=0.0), log_size=4)
    with serve(emulator=emulator) as api:
        home = Home(place / "home")
        url, provider = api.url("openai"), f'[providers.anthropic]\nbase_url = "{api.url("anthropic")}"\n'
        gateway = AttackedGateway(
            home,
            url,
            "[gateway.limits]\nlag = 60\n",
            provider=provider + 'api_key = "sk-emulated"\n',
        )
        client = _Client(gateway.port)
        try:
            _converse(client, gateway, emulator, found)
        finally:
            client.close()
            gateway.stop()
        found.stored = sum(file.stat().st_size for file in place.rglob("*.db*"))
    return found


def _converse(
    client: _Client, gateway: AttackedGateway, emulator: Emulator, found: ManyConversations
) -> None:
    tenth = max(1, found.count // 5)  # each conversation has two requests
    replies: list[dict[str, Any]] = []
    for number in range(found.count):
        replies.append(client.send([_question(number)]))
        if (number + 1) % tenth == 0:
            found.memory.append(gateway.memory)
    for number, reply in enumerate(replies):
        client.send([_question(number), reply, {"role": "user", "content": "And then?"}])
        found.known += signatures_in(emulator.log[-1].body)
        if (number + 1) % tenth == 0:
            found.memory.append(gateway.memory)
    some = max(1, len(client.milliseconds) // 100)
    found.first_ms = statistics.median(client.milliseconds[:some])
    found.last_ms = statistics.median(client.milliseconds[found.count - some : found.count])


def _question(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"This is conversation {number}. What do you think of it?"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="segue-conversations-") as place:
        found = converse(Path(place), asked.count)
    curve = ", ".join(str(size // MIB) for size in found.memory)
    sys.stdout.write(
        f"{found.count} conversations of one client in {time.monotonic() - began:.0f} s: {found.known} continued with their first "
        f"reply as it was; {found.first_ms:.1f} ms a request at first, {found.last_ms:.1f} with all others there; memory {curve} MiB; "
        f"{found.stored / MIB:.0f} MiB stored\n"
    )
    sys.exit(0 if found.known == found.count else 1)


if __name__ == "__main__":
    main()
