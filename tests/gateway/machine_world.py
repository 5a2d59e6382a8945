"""Two gateways on one SQLite file, restarted at will, and a model that remembers whom it answered with which thoughts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gateway.world import CLOUD_ROUTES, ROUTES, GatewayWorld, providers_at
from segue.emulators.model.model_reply import Call, Piece, Prompt, Reply, Say, Think
from segue.gateway.app import Gateway
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore

PROFILES: dict[str, Any] = {
    "team": {
        "members": [ROUTES[name] for name in ("anthropic", "gemini", "responses", "chat")],
        "policy": "round_robin",
    },
    "backup": {"members": [ROUTES["anthropic"], ROUTES["responses"]], "policy": "failover"},
}
MAKERS = {
    "azure-openai": "openai",
    "azure-anthropic": "anthropic",
    "vertex": "gemini",
    "vertex-anthropic": "anthropic",
    CLOUD_ROUTES["bedrock_messages"]: "anthropic",
    "bedrock-invoke": "anthropic",
    "bedrock-mantle": "openai",
    "claude-aws": "anthropic",
}
"""Whose models the emulators of clouds play, by provider or by route."""
_ASKED = re.compile(r"(\w+): look (\d)")


class LookingModel:
    """Looks as often as the user asked for, two cities at a time where it may."""

    def __init__(self) -> None:
        self.answered: dict[str, tuple[str, bool]] = {}
        """Who asked → the provider that answered last, and whether it thought."""

    def reply(self, prompt: Prompt) -> Reply:
        asked = _ASKED.findall(prompt.text)
        who, wanted = (asked[-1][0], int(asked[-1][1])) if asked else ("", 0)
        self.answered[who] = prompt.provider, prompt.thinking
        thoughts: list[Piece] = [Think("Let me see.")] if prompt.thinking else []
        left = wanted - len(prompt.results)
        if left <= 0 or not prompt.tools:
            return Reply(pieces=(*thoughts, Say(f"I know {len(prompt.results)} results. " * 20)))
        calls = [Call("weather", {"city": city}) for city in ("Rome", "Oslo")]
        return Reply(pieces=(*thoughts, Say("I will look. " * 20), *calls[: left if prompt.parallel else 1]))

    def reset(self) -> None:
        """Nothing but notes for the test."""


class TwoGateways(GatewayWorld):
    """`gateway` is the one that gets the next request: see `use`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[int, Gateway] = {}
        self.model = LookingModel()
        super().__init__(responder=self.model, profiles=PROFILES)

    def restart(self) -> None:
        for number in (0, 1):
            self._running[number] = self._new()
        self.use(0)

    def _new(self) -> Gateway:
        store = SQLiteMemoryStore(
            self._folder / "memory.db", max_bytes=1 << 26, max_records=10_000, keep_seconds=3600
        )
        memory = Memory(store, InstallationKey(b"k" * 32))
        return Gateway(self.config, providers_at(self.app), memory, on_report=self.reports.append)

    def use(self, number: int) -> None:
        self.gateway = self._running[number]

    async def restart_one(self, number: int) -> None:
        used = self.gateway is self._running[number]
        await self._running[number].close()
        self._running[number] = self._new()
        if used:
            self.use(number)

    async def close(self) -> None:
        for gateway in self._running.values():
            await gateway.close()


def seals_in(provider: str, body: Any) -> int:
    """How many replies in a request hold what only their provider can have made."""
    match provider:
        case "anthropic":
            return sum(
                any(
                    block.get("type") == "thinking" and block.get("signature") for block in message["content"]
                )
                for message in body["messages"]
                if message["role"] == "assistant" and isinstance(message["content"], list)
            )
        case "openai":
            return sum(
                item.get("type") == "reasoning" and bool(item.get("encrypted_content"))
                for item in body.get("input", ())
            )
        case _:
            return 0
