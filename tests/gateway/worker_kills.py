"""Workers of one gateway that are killed under load, while agents work through it: `make worker-kills` kills 200.

Each agent has a conversation of its own, on a wire that cannot hold the signatures of the model. A reply that broke off is asked
for again. No request may be refused, and every reply that an agent has seen to its end keeps its signature, whoever serves the next one.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from cli.cli_runs import Home
from gateway.crashes import MortalGateway, SlowModel, ask, signatures_in
from segue.emulators.emulator import Emulator
from segue.emulators.server import serve

WORKERS: Final = 3
AGENTS: Final = 6
TURNS: Final = 12
"""After which an agent begins anew, so that requests stay small."""
AGE: Final = 3.0
"""Seconds that a worker lives at least. One that dies at once serves nobody, and is replaced after a pause."""
MOST_TRIES: Final = 60
"""Of one request. A worker that is replaced needs seconds on a busy machine."""


class KilledWorkers(Struct):
    """What happened."""

    kills: int = 0
    whole: int = 0
    """Replies that came to their end."""
    broken_off: int = 0
    signatures: int = 0
    """In last requests of conversations."""
    missing: int = 0
    """Of replies that were seen to their end, and which the provider did not get back."""
    refused: int = 0
    """Requests that the provider did not take."""


class _Agent:
    """One conversation after another, until it is told to stop."""

    def __init__(self, name: str, port: int, over: threading.Event, emulator: Emulator) -> None:
        self.name = name
        self.found = KilledWorkers()
        self.error: BaseException | None = None
        self._port = port
        self._over = over
        self._emulator = emulator

    def run(self) -> None:
        try:
            number = 0
            while not self._over.is_set():
                number += 1
                self._converse(f"{self.name}.{number}")
        except BaseException as error:
            self.error = error

    def _converse(self, title: str) -> None:
        messages: list[dict[str, Any]] = []
        for turn in range(TURNS):
            messages.append({"role": "user", "content": f"{title}: look at number {turn}."})
            while messages[-1]["role"] != "assistant" or messages[-1].get("tool_calls"):
                if messages[-1].get("tool_calls"):
                    messages += [
                        {"role": "tool", "tool_call_id": call["id"], "content": f"number {turn}"}
                        for call in messages[-1]["tool_calls"]
                    ]
                messages.append(self._reply(messages))
            if self._over.is_set():
                break
        last = next(
            entry.body
            for entry in reversed(list(self._emulator.log))
            if entry.body and f"{title}:" in str(entry.body["messages"][0])
        )
        # The last reply is in no request yet.
        kept, seen = signatures_in(last), sum(one["role"] == "assistant" for one in messages) - 1
        self.found.signatures += kept
        self.found.missing += seen - kept

    def _reply(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        for _ in range(MOST_TRIES):
            reply = ask(self._port, messages)
            if reply is not None:
                self.found.whole += 1
                return reply
            self.found.broken_off += 1
            time.sleep(0.1)
        raise AssertionError(f"{self.name} got no reply in {MOST_TRIES} tries")


@contextmanager
def _agents(port: int, emulator: Emulator) -> Iterator[list[_Agent]]:
    over = threading.Event()
    agents = [_Agent(f"agent{number}", port, over, emulator) for number in range(AGENTS)]
    threads = [threading.Thread(target=agent.run, daemon=True) for agent in agents]
    for thread in threads:
        thread.start()
    try:
        yield agents
    finally:
        over.set()
        for thread in threads:
            thread.join()


def kill_workers(place: Path, kills: int, seed: int) -> KilledWorkers:
    chance, found = random.Random(seed), KilledWorkers()
    emulator = Emulator(strict=True, responder=SlowModel(), log_size=10_000)
    with serve(emulator=emulator) as api:
        gateway = MortalGateway(Home(place), api, workers=WORKERS)
        gateway.start()
        try:
            with _agents(gateway.port, emulator) as agents:
                seen: dict[int, float] = {}
                while found.kills < kills and not any(agent.error for agent in agents):
                    time.sleep(chance.uniform(0.2, 1.0))
                    now = time.monotonic()
                    seen = {pid: seen.get(pid, now) for pid in _children_of(gateway.pid)}
                    if workers := [pid for pid, since in seen.items() if now - since >= AGE]:
                        with suppress(ProcessLookupError):
                            os.kill(chance.choice(workers), signal.SIGKILL)
                            found.kills += 1
        finally:
            gateway.stop()
    for agent in agents:
        if agent.error is not None:
            raise agent.error
        for name in ("whole", "broken_off", "signatures", "missing"):
            setattr(found, name, getattr(found, name) + getattr(agent.found, name))
    found.refused = sum(entry.verdict == "refused" for entry in emulator.log)
    return found


def _children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=28)
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="segue-worker-kills-") as place:
        found = kill_workers(Path(place), asked.kills, asked.seed)
    sys.stdout.write(
        f"{found.kills} kills of {WORKERS} workers in {time.monotonic() - began:.0f} s (seed {asked.seed}): {found.whole} whole "
        f"replies, {found.broken_off} broken off and asked for again, {found.refused} requests refused, {found.signatures} "
        f"signatures kept, {found.missing} missing\n"
    )
    sys.exit(1 if found.missing or found.refused else 0)


if __name__ == "__main__":
    main()
