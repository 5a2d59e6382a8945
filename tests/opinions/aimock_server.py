"""aimock, a mock of many providers' wires that nobody here wrote, out of npm."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

PACKAGE: Final = "@copilotkit/aimock"
START_SECONDS: Final = 60.0


def fetched_aimock(folder: Path) -> Path:
    """The newest one, without its scripts of installation."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    (folder / "package.json").write_text('{"private": true}\n')
    words = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", f"{PACKAGE}@latest"]
    subprocess.run(words, cwd=folder, check=True, timeout=300, stdout=subprocess.DEVNULL)  # noqa: S603
    return folder / "node_modules" / PACKAGE / "dist" / "cli.js"


@contextmanager
def running(program: Path, folder: Path, fixtures: list[dict[str, Any]]) -> Iterator[str]:
    """The server on a port of 127.0.0.1; its address."""
    file = folder / "fixtures.json"
    file.write_text(json.dumps({"fixtures": fixtures}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["node", str(program), "-p", str(port), "-h", "127.0.0.1", "-f", str(file), "-c", "5", "--strict"]
    log = folder / "aimock.log"
    with log.open("wb") as told:
        process = subprocess.Popen(words, stdout=told, stderr=told, env={"PATH": os.environ["PATH"]})  # noqa: S603
    try:
        _wait_for(port, process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(log.read_text("utf-8", "replace"))
