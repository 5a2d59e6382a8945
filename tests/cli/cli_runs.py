"""Running segue as a user does: a home of its own, no keys, no network, real processes or this one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, final

import pytest
from msgspec import Struct

from segue.cli.main import main
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Piece, Reply, Say
from segue.emulators.model.responder import ScriptedResponder
from segue.emulators.server import Served

_KEPT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "COVERAGE_PROCESS_START")


@final
class Result(Struct, frozen=True):
    """What a run of segue left behind."""

    code: int
    out: str
    err: str


@final
class Home:
    """A user's home: config, data and a project of its own; nothing of the machine's gets in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.project = path / "project"
        (self.project / ".git").mkdir(parents=True)
        self.environment = {
            "HOME": str(path),
            "XDG_CONFIG_HOME": str(path / "config"),
            "XDG_DATA_HOME": str(path / "data"),
            "XDG_CACHE_HOME": str(path / "cache"),
            "XDG_STATE_HOME": str(path / "state"),
            "NO_PROXY": "*",
            "NO_COLOR": "1",
            "TERM": "xterm",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
            # Nobody listens on port 9: an Ollama that happens to run here is not this user's.
            "OLLAMA_HOST": "http://127.0.0.1:9",
        }

    @property
    def config_file(self) -> Path:
        return self.path / "config" / "segue" / "config.toml"

    def configure(self, text: str) -> Path:
        self.config_file.parent.mkdir(parents=True, exist_ok=True)
        self.config_file.write_text(text)
        return self.config_file

    def configure_project(self, text: str, name: str = "segue.toml") -> Path:
        file = self.project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def run(self, *words: str, stdin: str = "", **environment: str) -> Result:
        """In a process of its own."""
        done = subprocess.run(  # noqa: S603 - our own words
            [sys.executable, "-m", "segue", *words],
            input=stdin.encode(),
            capture_output=True,
            check=False,
            timeout=60,
            cwd=self.project,
            env=self.full(**environment),
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def full(self, **more: str) -> dict[str, str]:
        """The whole environment of a process."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {**kept, **self.environment, **more}

    def here(self, monkeypatch: pytest.MonkeyPatch, **environment: str) -> Here:
        """In this process, which is quicker."""
        for name in list(os.environ):
            if name not in _KEPT:
                monkeypatch.delenv(name)
        for name, value in {**self.environment, **environment}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(self.project)
        return Here(monkeypatch)


@final
class Cloud:
    """Emulated providers. OpenAI and Anthropic have keys in the environment; the others are reached by configuration."""

    def __init__(self, home: Home, served: Served) -> None:
        self.home = home
        self.served = served
        self.emulator = served.emulator
        home.environment |= {
            "OPENAI_API_KEY": "sk-test-openai-0123456789",
            "OPENAI_BASE_URL": f"{served.url('openai')}/v1",
            "SEGUE_PROVIDERS__OPENAI__MODEL": "gpt-4.1",  # on the Chat wire, which the tests read
            "ANTHROPIC_API_KEY": "sk-test-anthropic-0123456789",
            "ANTHROPIC_BASE_URL": served.url("anthropic"),
        }

    def without_keys(self) -> None:
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            self.home.environment.pop(name, None)

    def reply(self, *pieces: Piece | str, finish: Any = "auto", delay: float = 0.0) -> None:
        """What the next model that is asked replies."""
        said = tuple(Say(piece) if isinstance(piece, str) else piece for piece in pieces)
        responder = self.emulator.responder
        assert isinstance(responder, ScriptedResponder)
        responder.add(Reply(pieces=said, finish=finish, delay=delay))

    def fail(self, **fault: Any) -> None:
        self.emulator.faults.append(Fault(**fault))

    def bodies(self) -> list[dict[str, Any]]:
        """What was asked, oldest first."""
        return [entry.body for entry in self.emulator.log if entry.body]


@final
class Here:
    """Runs main() in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...] = ()) -> None:
        self._monkeypatch = monkeypatch
        self._words = words

    def with_words(self, *words: str) -> Here:
        """The same, with more words at the end of each command line."""
        return Here(self._monkeypatch, words)

    def forget(self, *names: str) -> None:
        """Leave variables out of the environment."""
        for name in names:
            self._monkeypatch.delenv(name, raising=False)

    def __call__(self, *words: str, stdin: str | bytes = "") -> Result:
        out, err = io.BytesIO(), io.BytesIO()
        streams = [io.TextIOWrapper(raw, "utf-8", write_through=True) for raw in (out, err)]
        with self._monkeypatch.context() as patch:
            piped = stdin.encode() if isinstance(stdin, str) else stdin
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped), "utf-8"))
            patch.setattr(sys, "stdout", streams[0])
            patch.setattr(sys, "stderr", streams[1])
            code = main([*words, *self._words])
            return Result(int(code), out.getvalue().decode(), err.getvalue().decode())
