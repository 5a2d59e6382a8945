"""Emulated providers with batch endpoints, and a clock that tests move."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from segue.batch import Batch, Pace, read_lines
from segue.emulators.emulator import Emulator
from segue.emulators.model.model_reply import Reply, Say
from segue.emulators.model.responder import ScriptedResponder
from segue.emulators.server import Served, serve
from segue.providers.config import ProviderConfig
from segue.providers.registry import KnownProviders, default_registry
from segue.routing.retry import RetrySettings

MODELS = {
    "openai": "gpt-4.1",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
    "mistral": "mistral-small-latest",
}
RESPONSES_MODEL = "openai/gpt-5.4"
PATHS = {"openai": "/v1", "anthropic": "", "gemini": "/v1beta", "mistral": "/v1", "kimi": "/v1"}
CREATED = {
    "openai": "/v1/batches",
    "anthropic": "/v1/messages/batches",
    "gemini": ":batchGenerateContent",
    "mistral": "/v1/batch/jobs",
}
QUICK = Pace(
    first_look=0.01,
    longest_pause=0.05,
    settling=0.05,
    retry=RetrySettings(attempts=4, first_pause=0.01, longest_pause=1.0),
)
DAY = 86_400.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


class World(Struct):
    """Providers of ours that lead to emulated ones."""

    served: Served
    clock: Clock
    directory: Path

    @property
    def emulator(self) -> Emulator:
        return self.served.emulator

    def providers(self) -> KnownProviders:
        configs = {
            name: ProviderConfig(base_url=f"{self.served.url(name)}{path}") for name, path in PATHS.items()
        }
        keys = {f"{name.upper()}_API_KEY": "k" for name in PATHS} | {"MOONSHOT_API_KEY": "k"}
        return default_registry(configs, keys, keyring=False)

    def batch(self, lines: str, model: str, **more: object) -> Batch:
        requests = read_lines(lines.encode(), folder=self.directory)
        return Batch.create(requests, model, self.directory, providers=self.providers(), **more)  # type: ignore[arg-type]

    def created(self, provider: str) -> int:
        """How many batches were created at a provider."""
        return sum(
            entry.method == "POST" and entry.status == 200 and entry.path.endswith(CREATED[provider])
            for entry in self.emulator.log
        )


@contextmanager
def emulated(directory: Path, clock: Clock | None = None) -> Iterator[World]:
    clock = clock or Clock()
    rules = [(f"question {n}$", Reply(pieces=(Say(f"answer {n}"),))) for n in range(200)]
    emulator = Emulator(clock=clock, responder=ScriptedResponder(rules=rules), log_size=100_000)
    with serve(emulator=emulator) as served:
        yield World(served, clock, directory)


def prompts(count: int) -> str:
    return "".join(f'{{"prompt": "question {n}"}}\n' for n in range(count))
