"""The stage: strict emulators of all providers, and the gateway in front of them, as the process that users start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from scripts.clients.note_model import NoteModel
from segue.emulators.emulator import Emulator, Entry
from segue.emulators.server import Served, serve

PATHS = {"openai": "/v1", "gemini": "/v1beta", "mistral": "/v1", "kimi": "/v1"}
PROVIDERS = ("openai", "anthropic", "gemini", "mistral", "kimi", "deepseek", "ollama")
_VERTEX = "/v1/projects/p/locations/global/publishers"
CLOUDS = {
    "bedrock": ("bedrock", ""),
    "bedrock-invoke": ("bedrock", ""),
    "bedrock-mantle": ("bedrock-mantle", ""),
    "claude-aws": ("claude-aws", ""),
    "vertex": ("vertex", f"{_VERTEX}/google"),
    "vertex-anthropic": ("vertex", f"{_VERTEX}/anthropic"),
    "azure-openai": ("azure", "/openai/v1"),
}
"""Clouds → their emulator, and the path there."""
PROVIDER_KEY = "sk-emulated"
FAMILIES = {
    "OpenAI Chat": "openai/gpt-4.1",
    "OpenAI Responses": "openai/gpt-5.5",
    "Anthropic": "anthropic/claude-sonnet-4-6",
    "Gemini": "gemini/gemini-3.5-flash",
    "Mistral": "mistral/mistral-large-latest",
    "Kimi": "kimi/kimi-k2.6",
    "DeepSeek": "deepseek/deepseek-v4-flash",
    "Ollama": "ollama/qwen3",
}
"""A model of each provider family."""
CLOUD_FAMILIES = {
    "Bedrock": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "Vertex": "vertex/gemini-3.5-flash",
    "Claude on Vertex": "vertex-anthropic/claude-sonnet-4-6",
    "Azure": "azure-openai/gpt-5.5",
}
"""And at clouds, for the clients of clouds."""
INTERACTIONS = "interactions/gemini-3.5-flash"
"""A model of Gemini's, asked on its stateful wire."""
TEAM = ("anthropic/claude-sonnet-4-6", "openai/gpt-5.5")
"""A profile with failover."""
RING = ("anthropic/claude-sonnet-4-6", "gemini/gemini-3.5-flash", "openai/gpt-5.5")
"""A profile with round robin: each turn of a session has another model."""


class Stage:
    """Emulators, a gateway, and a home for clients; all in one folder."""

    def __init__(self, folder: Path, api: Served, model: NoteModel) -> None:
        self.folder = folder
        self.api = api
        self.model = model
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "XDG_DATA_HOME": str(folder / "home" / "data"),
            "XDG_CONFIG_HOME": str(folder / "home" / "config"),
            "XDG_CACHE_HOME": str(folder / "home" / "cache"),
            "XDG_STATE_HOME": str(folder / "home" / "state"),
            "SEGUE_CONFIG": str(folder / "config.toml"),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "NO_COLOR": "1",
        }
        self._gateway: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> Stage:
        (self.folder / "home").mkdir(exist_ok=True)
        self.configure({})
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def configure(self, models: dict[str, str]) -> None:
        """`models`: names that clients ask for → routes, or the profiles of `TEAM` and `RING`."""
        lines = ["[gateway]", "port = 0", 'log = "json"', "[gateway.models]"]
        lines += [f'"{name}" = "{route}"' for name, route in models.items()]
        lines += ["[profiles.team]", f"members = {list(TEAM)}", "retry = { attempts = 2, first_pause = 0.1 }"]
        lines += ["[profiles.ring]", f"members = {list(RING)}", 'policy = "round_robin"']
        for name in PROVIDERS:
            lines += [f"[providers.{name}]", f'base_url = "{self.api.url(name)}{PATHS.get(name, "")}"']
            lines += [f'api_key = "{PROVIDER_KEY}"'] if name != "ollama" else []
        lines += [
            "[providers.interactions]",
            'like = "gemini"',
            'dialect = "gemini_interactions"',
            f'api_key = "{PROVIDER_KEY}"',
        ]
        lines += [f'base_url = "{self.api.url("gemini")}{PATHS["gemini"]}"']
        for name, (emulator, path) in CLOUDS.items():
            lines += [f"[providers.{name}]", f'base_url = "{self.api.url(emulator)}{path}"']
            lines += [f'api_key = "{PROVIDER_KEY}"', 'workspace = "wrkspc_01"']
        (self.folder / "config.toml").write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        with (self.folder / "gateway.log").open("a") as log:
            self._gateway = subprocess.Popen(
                [sys.executable, "-c", _SERVE],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self.environment,
            )
        if self._gateway.stdout is None:
            raise RuntimeError("no pipe")
        self.url = self._gateway.stdout.readline().strip()
        if not self.url:
            raise RuntimeError((self.folder / "gateway.log").read_text())

    def stop(self) -> None:
        if self._gateway is not None:
            self._gateway.terminate()
            self._gateway.wait(30)
            if self._gateway.stdout is not None:
                self._gateway.stdout.close()
            self._gateway = None

    def segue(self, *words: str) -> str:
        """Run a command of segue."""
        done = self._run(*words)
        if done.returncode:
            raise RuntimeError(f"segue {' '.join(words)}: {done.stderr}")
        return done.stdout

    def exit_code(self, *words: str) -> int:
        """How a command of segue ended."""
        return self._run(*words).returncode

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "segue", *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=self.environment,
        )

    def log(self, since: int) -> list[Entry]:
        """What the emulators were asked, after so many requests."""
        return list(self.api.emulator.log)[since:]

    @property
    def asked(self) -> int:
        return len(self.api.emulator.log)


_SERVE = """
import sys
from segue.cli.commands import serve
serve.print_status = lambda text: print(text.split()[2].rstrip("."), flush=True)
from segue.cli import main
sys.exit(main(["serve"]))
"""
"""`segue serve`, with its address on the standard output."""


@contextmanager
def open_stage(folder: Path) -> Iterator[Stage]:
    folder = folder.resolve()  # clients run in folders of their own
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "work").mkdir(exist_ok=True)
    model = NoteModel(folder / "note.txt")
    with (
        serve(emulator=Emulator(strict=True, responder=model, log_size=100_000)) as api,
        Stage(folder, api, model) as stage,
    ):
        # Clients of AWS sign, with the key of the gateway's account.
        api.emulator.secrets[PROVIDER_KEY] = PROVIDER_KEY
        yield stage
