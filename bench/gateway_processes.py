"""The processes of the gateway's benchmark: each is started, measured from outside, and ended."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import msgspec

from bench.gateway_load import KEY, Figures, Run
from bench.gateway_upstream import Mode

_ROOT = Path(__file__).parents[1]
_MEASURED, _OTHERS = 0, -1
"""Cores: one for what is measured, of which one process at a time is busy, and one for the provider and the clients."""


class Measured:
    """A process that serves on a port."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port
        # The clock of another process's CPU time, of all its threads.
        self._clock = (~process.pid << 3) | 2

    def cpu(self) -> float:
        return time.clock_gettime(self._clock)

    def memory(self) -> float:
        """Megabytes in use."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
        return int(kilobytes) / 1024


class Bench:
    """All processes of one run."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        upstream = self._start([sys.executable, "-m", "bench.gateway_upstream"], _OTHERS)
        self._upstream = upstream
        self.upstream_port = int(_line(upstream))
        self._load = self._start([sys.executable, "-m", "bench.gateway_load"], _OTHERS)
        _line(self._load)

    @cached_property
    def gateway(self) -> Measured:
        return self.open_gateway()

    @cached_property
    def bare(self) -> Measured:
        return self.open_bare()

    @cached_property
    def raw(self) -> Measured:
        return self.open_raw()

    @cached_property
    def litellm(self) -> Measured | None:
        """None if it is not installed."""
        return self._open_litellm()

    @cached_property
    def switchyard(self) -> Measured | None:
        """None if it is not installed."""
        return self._open_switchyard()

    def open_bare(self, under: tuple[str, ...] = ()) -> Measured:
        bare = self._start([*under, sys.executable, "-m", "bench.gateway_bare", self.upstream_url])
        return Measured(bare, int(_line(bare)))

    def open_raw(self, under: tuple[str, ...] = ()) -> Measured:
        raw = self._start([*under, sys.executable, "-m", "bench.gateway_raw", self.upstream_url])
        return Measured(raw, int(_line(raw)))

    @property
    def upstream_url(self) -> str:
        return f"http://127.0.0.1:{self.upstream_port}"

    def mode(self, mode: Mode) -> None:
        _send(self._upstream, msgspec.json.encode(mode))
        _line(self._upstream)

    def begin(self, run: Run) -> None:
        _send(self._load, msgspec.json.encode(run))

    def end(self) -> Figures:
        return msgspec.json.decode(_line(self._load), type=Figures)

    def run(self, run: Run) -> Figures:
        self.begin(run)
        return self.end()

    def cpu_of_others(self) -> float:
        """CPU seconds of the provider and the clients together: near a core they, and not the gateway, are the limit."""
        return sum(Measured(process, 0).cpu() for process in (self._upstream, self._load))

    def last_lines(self) -> str:
        """Of the gateways' logs."""
        logs = sorted(self._folder.glob("*/access.log"))
        return "\n".join(f"{log.parent.name}: {log.read_text()[-1_000:]}" for log in logs)

    def _start(
        self,
        command: list[str],
        core: int = _MEASURED,
        /,
        *,
        stderr: IO[bytes] | None = None,
        **environment: str,
    ) -> subprocess.Popen[bytes]:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[core]})  # a child inherits it
        try:
            process = subprocess.Popen(  # noqa: S603 - our own words
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=_ROOT,
                env={**os.environ, "NO_PROXY": "*", **environment},
            )
        finally:
            os.sched_setaffinity(0, cores)
        self._stack.callback(_end, process)
        return process

    def open_gateway(
        self,
        name: str = "gateway",
        *,
        limits: str = "",
        settings: str = "",
        under: tuple[str, ...] = (),
        **environment: str,
    ) -> Measured:
        """As an installation would run it: a caller with a key, an access log, the memory in a file. `limits` of the caller and
        more `settings`, as TOML. `under`: the words of a program that runs it."""
        folder = self._folder / name
        folder.mkdir()
        log = self._stack.enter_context((folder / "access.log").open("wb"))
        config = folder / "config.toml"
        patience = "timeouts = { connect = 600, first_byte = 600, idle = 600 }" if under else ""
        config.write_text(
            f"""[gateway]
port = 0
log = "text"
models = {{ "claude-*" = "openai/gpt-4.1" }}
[gateway.limits]
concurrent = 1000
lag = {3600 if under else 1}
[gateway.memory]
directory = "{folder}"
[gateway.callers.bench]
key_sha256 = "{hashlib.sha256(KEY.encode()).hexdigest()}"
{limits}
[providers.openai]
base_url = "{self.upstream_url}/v1"
api_key = "sk-upstream"
{patience}
[providers.anthropic]
base_url = "{self.upstream_url}"
api_key = "sk-upstream"
{patience}
{settings}
"""
        )
        process = self._start(
            [*under, sys.executable, "-m", "segue", "serve"],
            stderr=log,
            HOME=str(folder),
            SEGUE_CONFIG=str(config),
            XDG_DATA_HOME=str(folder),
            PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring",
            **environment,
        )
        for _ in range(3000):  # under valgrind, on a busy machine
            time.sleep(0.1)
            written = (folder / "access.log").read_text()
            if "Serving at " in written:
                address = written.partition("Serving at ")[2].split()[0].rstrip(".")
                return Measured(process, int(address.rpartition(":")[2]))
        raise RuntimeError(written)

    def _open_switchyard(self) -> Measured | None:
        """It is a library: `SWITCHYARD_PYTHON` names the Python of an environment that has it."""
        program = os.environ.get("SWITCHYARD_PYTHON") or sys.executable
        check = [program, "-c", "import switchyard_rust.server"]
        if subprocess.run(check, capture_output=True, check=False).returncode:  # noqa: S603 - our own words
            return None
        routes = self._folder / "routes.toml"
        routes.write_text(
            f"""schema_version = 1
[llm_clients.openai]
format = "openai_chat"
base_url = "{self.upstream_url}/v1"
api_key_env = "BENCH_KEY"
[targets.openai]
id = "gpt-4.1"
llm_client = "openai"
[routes.openai]
id = "claude-opus-5-5"
type = "passthrough"
target = "openai"
"""
        )
        port = self.upstream_port + 2
        serve = f"import time; from switchyard_rust.server import Server; _ = Server({str(routes)!r}, {port}); time.sleep(10**6)"
        log = self._stack.enter_context((self._folder / "switchyard.log").open("wb"))
        process = self._start([program, "-c", serve], stderr=log, BENCH_KEY="sk-upstream")
        return _answering(Measured(process, port), "/", seconds=30)

    def _open_litellm(self) -> Measured | None:
        program = shutil.which("litellm")
        if program is None:
            return None
        config = self._folder / "litellm.yaml"
        config.write_text(
            f"""model_list:
  - model_name: claude-opus-5-5
    litellm_params: {{model: openai/gpt-4.1, api_base: "{self.upstream_url}/v1", api_key: sk-upstream}}
litellm_settings:
  drop_params: true
  num_retries: 0
  use_chat_completions_url_for_anthropic_messages: true  # the wire that the provider here and the gateway speak
router_settings: {{num_retries: 0, disable_cooldowns: true, allowed_fails: 1000000}}
"""
        )
        port = self.upstream_port + 1
        log = self._stack.enter_context((self._folder / "litellm.log").open("wb"))
        process = self._start(
            [program, "--config", str(config), "--port", str(port), "--host", "127.0.0.1"],
            stderr=log,
            LITELLM_LOG="ERROR",
            LITELLM_MASTER_KEY=KEY,
        )
        return _answering(Measured(process, port), "/health/liveliness", seconds=240)


def _answering(started: Measured, path: str, *, seconds: int) -> Measured | None:
    """None if it has ended, or does not answer in time."""
    for _ in range(seconds):
        time.sleep(1)
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{started.port}{path}", timeout=1).close()
        except urllib.error.HTTPError:
            return started
        except (urllib.error.URLError, OSError):
            if started.process.poll() is not None:
                return None
        else:
            return started
    return None


@contextmanager
def open_bench() -> Iterator[Bench]:
    with TemporaryDirectory() as folder, ExitStack() as stack:
        yield Bench(stack, Path(folder))


def _send(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line + b"\n")
    process.stdin.flush()


def _line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"A process of the benchmark ended: {process.args!r}")
    return line


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
