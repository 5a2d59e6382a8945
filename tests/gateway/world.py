"""A gateway in this process, the strict emulators behind it, and clients of every wire in front of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from segue.config.schema import Config, GatewaySettings, ProfileSettings
from segue.emulators.app import App
from segue.emulators.emulator import Emulator, Entry
from segue.emulators.model.model_reply import Call, Piece, Prompt, Reply, Say, Think
from segue.gateway.app import Gateway
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.gateway.telemetry.report import RequestReport
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.registry import KnownProviders, default_registry
from segue.routing.retry import RetrySettings
from segue.transports.asgi import AsgiTransport
from segue.transports.transport import WireRequest
from strategies.provider_places import CLOUDS, mount_of

ROUTES: Mapping[str, str] = {
    "chat": "openai/gpt-4.1",
    "responses": "openai/gpt-5.5",
    "anthropic": "anthropic/claude-sonnet-4-6",
    "gemini": "gemini/gemini-3.5-flash",
    "mistral": "mistral/mistral-large-latest",
    "kimi": "kimi/kimi-k2.6",
    "ollama": "ollama/qwen3",
    "converse": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}
"""A model on each wire."""
CLOUD_ROUTES: Mapping[str, str] = {
    "azure": "azure-openai/gpt-5.5",
    "azure_claude": "azure-anthropic/claude-sonnet-4-6",
    "vertex": "vertex/gemini-3.5-flash",
    "vertex_claude": "vertex-anthropic/claude-sonnet-4-6",
    "bedrock_messages": "bedrock/us.anthropic.claude-opus-4-7",
    "bedrock_invoke": "bedrock-invoke/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "mantle": "bedrock-mantle/openai.gpt-5.5",
    "claude_aws": "claude-aws/claude-sonnet-4-6",
}
"""The same wires at clouds."""
INTERACTIONS = "interactions/gemini-3.5-flash"
"""A model of Gemini's that is asked on its stateful wire."""
EVERY_ROUTE = (*ROUTES.values(), *CLOUD_ROUTES.values())
_PATHS = {"openai": "/v1", "gemini": "/v1beta", "mistral": "/v1", "kimi": "/v1"}
ADDRESSES = {
    name: f"http://emulator/{name}{_PATHS.get(name, '')}"
    for name in ("openai", "anthropic", "gemini", "mistral", "kimi", "ollama", "bedrock")
} | {name: f"http://emulator/{cloud}{path}" for name, (cloud, path) in CLOUDS.items()}
_NO_RETRY = RetrySettings(attempts=1, first_pause=0.01)


class AgentModel:
    """A model that looks things up when asked to, thinks where it can, and counts its results."""

    def reply(self, prompt: Prompt) -> Reply:
        thoughts: list[Piece] = [Think("Let me see what is asked for.")] if prompt.thinking else []
        if prompt.results or not prompt.tools or "look" not in prompt.text:
            return Reply(pieces=(*thoughts, Say(f"I know: {len(prompt.results)} results.")))
        cities = [Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"})]
        return Reply(pieces=(*thoughts, Say("I will look."), *cities[: 2 if prompt.parallel else 1]))

    def reset(self) -> None:
        """Nothing is remembered."""


class GatewayResponse(msgspec.Struct):
    """What a client got."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


def providers_at(app: App, **changed: ProviderConfig) -> KnownProviders:
    configs = {
        name: ProviderConfig(base_url=url, api_key=Secret("sk-emulated"), workspace="wrkspc_01")
        for name, url in ADDRESSES.items()
    }
    configs["interactions"] = ProviderConfig(
        base_url=ADDRESSES["gemini"],
        api_key=Secret("sk-emulated"),
        like="gemini",
        dialect="gemini_interactions",
    )
    configs |= changed
    return default_registry(configs, environ={}, transport=AsgiTransport(app), keyring=False)


class GatewayWorld:
    """Everything that a test of the gateway needs."""

    def __init__(self, *, responder: Any = None, **settings: Any) -> None:
        self.emulator = Emulator(strict=True, responder=responder or AgentModel(), log_size=10_000)
        self.app = App(self.emulator)
        self.reports: list[RequestReport] = []
        profiles = settings.pop("profiles", {})
        self.config = Config(
            aliases={"fast": ROUTES["chat"]},
            profiles={
                name: ProfileSettings(retry=_NO_RETRY, **profile) for name, profile in profiles.items()
            },
            gateway=GatewaySettings(**settings),
        )
        self.store = SQLiteMemoryStore(max_bytes=1 << 26, max_records=10_000, keep_seconds=3600)
        self.restart()

    def restart(self) -> None:
        """Another gateway on the same store."""
        memory = Memory(self.store, InstallationKey(b"k" * 32))
        self.gateway = Gateway(self.config, providers_at(self.app), memory, on_report=self.reports.append)

    async def ask(
        self,
        path: str,
        body: Any = None,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        app: Any = None,
    ) -> GatewayResponse:
        """One request, its response whole."""
        request = WireRequest(
            method=method,
            url=f"http://127.0.0.1{path}",
            headers={"content-type": "application/json", **(headers or {})},
            body=b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode(),
        )
        async with AsgiTransport(app or self.gateway)(request) as answer:
            return GatewayResponse(answer.status, answer.headers, await answer.read())

    def refusals(self) -> list[Entry]:
        return [entry for entry in self.emulator.log if entry.verdict == "refused"]

    def asked(self, route: str) -> list[Entry]:
        """The requests that a route got."""
        provider, _, model = route.partition("/")
        return [
            entry
            for entry in self.emulator.log
            if entry.provider == mount_of(provider)
            and (model in entry.path or model in str((entry.body or {}).get("model")))
        ]


class WholeWorld(GatewayWorld):
    """One whose providers are sent everything each time: what they get can be compared."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(provider_state="never", **settings)


class InteractionsWorld(GatewayWorld):
    """One that asks Gemini itself on its stateful wire."""

    def restart(self) -> None:
        memory = Memory(self.store, InstallationKey(b"k" * 32))
        gemini = ProviderConfig(
            base_url=ADDRESSES["gemini"], api_key=Secret("sk-emulated"), dialect="gemini_interactions"
        )
        providers = providers_at(self.app, gemini=gemini)
        self.gateway = Gateway(self.config, providers, memory, on_report=self.reports.append)
