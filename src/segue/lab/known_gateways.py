"""Gateways that the lab configures and starts by itself (gateways.toml)."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from segue.lab.laboratory import GatewayUnderTest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.emulators.server import Served

KEY = "sk-lab-client"
_START_SECONDS = 120.0
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TMPDIR", "NODE_PATH", "SYSTEMROOT")
"""A gateway under test needs no key of ours, and must not read the user's own settings."""


class GatewayError(RuntimeError):
    """A gateway is not installed, or does not start."""


class KnownGateway(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one gateway is configured and started."""

    page: str
    program: str
    command: tuple[str, ...]
    ready: str
    """A path that answers once it serves."""
    doors: Mapping[str, str]
    models: Mapping[str, str]
    environment: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    behind: Mapping[str, tuple[str, ...]] | None = None
    claims: frozenset[str] = frozenset()
    version: tuple[str, ...] = ("--version",)


def known_gateways() -> dict[str, KnownGateway]:
    data = tomllib.loads((files("segue.lab") / "gateways.toml").read_text("utf-8"))
    return msgspec.convert(data, dict[str, KnownGateway])


@contextmanager
def started(name: str, served: Served, *, program: str = "") -> Iterator[GatewayUnderTest]:
    """The gateway on a free port, configured with the emulated providers; it ends with the block."""
    known = known_gateways()[name]
    found = _program(known, program)
    with TemporaryDirectory(prefix="segue-lab-") as folder:
        port = _free_port()
        words = {
            "port": str(port),
            "folder": folder,
            "key": KEY,
            **{provider: served.url(provider) for provider in ("openai", "anthropic", "gemini")},
        }
        for file, text in known.files.items():
            path = Path(folder, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.format(**words).lstrip())
        environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        environment |= {"HOME": folder, "NO_PROXY": "*"}
        environment |= {variable: text.format(**words) for variable, text in known.environment.items()}
        log = Path(folder, "gateway.log")
        command = [*found, *(word.format(**words) for word in known.command)]
        process = _start(command, environment, log)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(process, url + known.ready, log)
            yield GatewayUnderTest(
                name=name,
                url=url,
                key=KEY,
                version=_version(found, known, environment),
                doors=known.doors,
                models=known.models,
                behind=known.behind,
                claims=known.claims,
            )
        finally:
            _end(process)


def _start(command: list[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        try:
            return subprocess.Popen(  # noqa: S603 - the program that the user asked to test
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=log.parent,
                start_new_session=True,
            )
        except OSError as error:
            raise GatewayError(f"{command[0]} cannot be started: {error}.") from error


def _program(known: KnownGateway, program: str) -> list[str]:
    if program:
        return [program]
    if known.program == "segue":
        return [sys.executable, "-m", "segue"]
    found = shutil.which(known.program)
    if found is None:
        raise GatewayError(
            f"{known.program} is not installed. How to install it: {known.page}. --program names one that is not in PATH."
        )
    return [found]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise GatewayError(f"The gateway ended at once:\n{log.read_text('utf-8', 'replace')[-2000:]}")
        if answers(url):
            return
        time.sleep(0.2)
    raise GatewayError(f"The gateway does not answer at {url}:\n{log.read_text('utf-8', 'replace')[-2000:]}")


def answers(url: str) -> bool:
    """Whether somebody serves there, whatever the answer is."""
    try:
        urllib.request.urlopen(url, timeout=2).close()  # noqa: S310 - an address that the user gave
    except urllib.error.HTTPError as error:
        error.close()
        return error.code not in (502, 503, 504)
    except (OSError, ValueError):
        return False
    return True


def _version(program: list[str], known: KnownGateway, environment: Mapping[str, str]) -> str:
    try:
        printed = subprocess.run(  # noqa: S603
            [*program, *known.version], capture_output=True, timeout=60, env=environment, check=False
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next((word.strip("v,") for word in printed.split() if word.strip("v,")[:1].isdigit()), "")


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it started."""
    for signal in (15, 9):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            continue
        return
