"""A gateway in this process for the clients and frameworks of a test, strict emulators behind it, and no socket anywhere."""

from __future__ import annotations

import socket
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import structs

from gateway.world import ROUTES, AgentModel
from segue.emulators import Emulator, Reply, Think
from segue.emulators.emulator import Entry
from segue.emulators.model.model_reply import Prompt
from segue.gateway import GatewayApplication, InProcessTransport, gateway_app, in_process_transport
from segue.testing import emulated_providers

SEALING = {name: ROUTES[name] for name in ("gemini", "responses")}
"""Models that seal thoughts which nobody has asked for."""
_SEALS = ("signature", "thoughtSignature", "encrypted_content")
_FORBIDDEN = {"socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname"}
_watching: list[list[str]] = []


class ThinkingModel(AgentModel):
    """Counts its thoughts, no two of which are the same."""

    def __init__(self) -> None:
        self.thoughts: Counter[str] = Counter()

    def reply(self, prompt: Prompt) -> Reply:
        reply = super().reply(prompt)
        self.thoughts[prompt.model] += any(isinstance(piece, Think) for piece in reply.pieces)
        thought = Think(f"Thought {self.thoughts.total()}.")
        return structs.replace(
            reply, pieces=tuple(thought if isinstance(piece, Think) else piece for piece in reply.pieces)
        )


class InProcessWorld:
    """A gateway without a server, and its transport."""

    def __init__(self, config: Any = None, *, responder: Any = None, memory: Path | None = None) -> None:
        self.model = ThinkingModel()
        self.emulator = Emulator(strict=True, responder=responder or self.model, log_size=10_000)
        self._config, self._memory = config, memory
        self.restart()

    def restart(self) -> None:
        """Another gateway before the same providers, with the same memory."""
        self.app: GatewayApplication = gateway_app(
            self._config, providers=emulated_providers(self.emulator), memory=self._memory
        )
        self.transport: InProcessTransport = in_process_transport(self.app)

    def __enter__(self) -> InProcessWorld:
        return self

    def __exit__(self, *_: object) -> None:
        self.app.close()

    def refusals(self) -> list[str]:
        return [
            f"{entry.provider}: {entry.message}" for entry in self.emulator.log if entry.verdict == "refused"
        ]

    def requests_to(self, route: str) -> list[Entry]:
        provider, _, model = route.partition("/")
        return [
            entry
            for entry in self.emulator.log
            if entry.provider == provider and model in f"{entry.path} {(entry.body or {}).get('model')}"
        ]

    def seals_of_last(self, route: str) -> int:
        """Distinct seals in the last request that a route got."""
        return len(set(_seals_in(self.requests_to(route)[-1].body)))

    def thoughts_of(self, route: str) -> int:
        """Replies of a route in which its model thought."""
        return self.model.thoughts[route.partition("/")[2]]

    def idle_soon(self) -> bool:
        """Whether the gateway has no request that runs, after a while."""
        gateway = self.app._gateway
        deadline = time.monotonic() + 5
        while gateway is not None and gateway.running and time.monotonic() < deadline:
            time.sleep(0.02)
        return gateway is not None and not gateway.running

    def check_return(self, home: str, *, before: int) -> None:
        """No request was refused, and the model that came back got all seals of its replies `before` the last turn."""
        assert self.refusals() == []
        assert before > 0, "the model has sealed nothing"
        assert self.seals_of_last(home) >= before


def _seals_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (held for name, held in value.items() if name in _SEALS and isinstance(held, str))
        value = list(value.values())
    for held in value if isinstance(value, list) else ():
        yield from _seals_in(held)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    # A pair of connected pipes is how an event loop wakes itself up.
    made = event == "socket.__new__" and arguments[1] not in (getattr(socket, "AF_UNIX", None), -1)
    if event in _FORBIDDEN or made:
        for seen in _watching:
            seen.append(f"{event}{arguments[1:]}")
        seen.append("".join(traceback.format_stack(limit=6)))
        raise PermissionError(f"No socket may be opened here: {event}")


sys.addaudithook(_hook)


@contextmanager
def no_sockets() -> Iterator[None]:
    """Whoever opens a socket, connects it, or looks a name up, fails."""
    seen: list[str] = []
    _watching.append(seen)
    try:
        yield
    finally:
        _watching.remove(seen)
    assert seen == [], "\n".join(seen)
