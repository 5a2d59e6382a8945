"""Every way out that we know is tried from inside, by each mechanism that this system has."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from segue.system.child_process import SHELL, child_environment
from segue.tools.sandbox.mechanisms import Mechanism, candidates, trial
from segue.tools.sandbox.policy import SandboxPolicy, make_policy
from segue.tools.sandbox.sandbox import start_confined
from tools.sandbox.escapes import ESCAPES, LEFT_BEHIND
from tools.sandbox.lasting_folders import lasting_folder

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mechanisms of Linux"),
    pytest.mark.timeout(120),
]

MECHANISMS = ("namespaces", "bubblewrap", "landlock")
SECRET = "SECRET-of-the-user"


@lru_cache
def mechanism(name: str) -> Mechanism:
    found = next((one for one in candidates() if one.name == name), None)
    if found is None:
        pytest.skip(f"{name} is not installed, or not in this kernel")
    if problem := trial(found):
        pytest.skip(f"{name} does not work here: {problem}")
    return found


class World:
    """A home with keys, a workspace, servers of all kinds and a process to attack, all outside of the sandbox."""

    def __init__(self, base: Path, elsewhere: Path, stack: ExitStack) -> None:
        self.base = base
        self.received: list[str] = []
        self.home, self.outside, self.work = base / "home", base / "outside", base / "work"
        for folder in (self.home, self.outside, self.work, base / "runtime", elsewhere / "agent"):
            folder.mkdir(parents=True)
        for name in (".ssh/id_key", ".local/share/segue/keys.json", ".mozilla/cookies", ".bash_history"):
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(SECRET)
        (self.home / ".bashrc").write_text("# mine\n")
        (self.outside / "file").write_text("mine\n")
        (elsewhere / "file").write_text(SECRET)
        (self.work / ".mcp.json").write_text("{}")
        subprocess.run(["git", "init", "-q", self.work], check=True, env=child_environment())
        self.victim = stack.enter_context(
            subprocess.Popen([SHELL, "-c", "sleep 600"], env={"KEY": SECRET, "PATH": os.environ["PATH"]})
        )
        stack.callback(self.victim.kill)
        ours, theirs = os.openpty()
        stack.callback(os.close, ours)
        stack.callback(os.close, theirs)
        unix, stream, datagram = socket.AF_UNIX, socket.SOCK_STREAM, socket.SOCK_DGRAM
        abstract = f"segue-escapes-{os.getpid()}-{time.monotonic_ns()}"
        self.description: dict[str, Any] = {
            "home": str(self.home),
            "outside": str(self.outside),
            "work": str(self.work),
            "file": str(self.outside / "file"),
            "temporary_file": str(elsewhere / "file"),
            "victim": self.victim.pid,
            "terminal": os.ttyname(theirs),
            "terminal_device": os.fstat(theirs).st_rdev,
            "tcp": self._serve(stack, socket.AF_INET, stream, ("0.0.0.0", 0))[1],  # noqa: S104
            "tcp6": self._serve(stack, socket.AF_INET6, stream, ("::1", 0))[1],
            "udp": self._serve(stack, socket.AF_INET, datagram, ("127.0.0.1", 0))[1],
            "udp6": self._serve(stack, socket.AF_INET6, datagram, ("::1", 0))[1],
            "address": own_address(),
            "abstract": abstract,
            "docker": self._serve(stack, unix, stream, str(self.outside / "docker.sock")),
            "bus": self._serve(stack, unix, stream, str(base / "runtime" / "bus")),
            "agent": self._serve(stack, unix, stream, str(elsewhere / "agent" / "agent.1")),
            "work_socket": self._serve(stack, unix, stream, str(self.work / "app.sock")),
            "log": self._serve(stack, unix, datagram, str(self.outside / "log")),
        }
        self._serve(stack, unix, stream, f"\0{abstract}")

    def _serve(self, stack: ExitStack, family: int, kind: int, address: Any) -> Any:
        server = stack.enter_context(socket.socket(family, kind))
        server.bind(address)
        if kind == socket.SOCK_STREAM:
            server.listen()
        named = server.getsockname()

        def receive() -> None:
            with suppress(OSError):
                while True:
                    if kind == socket.SOCK_STREAM:
                        server.accept()[0].close()
                    else:
                        _, sender = server.recvfrom(100)
                        if family != socket.AF_UNIX:
                            server.sendto(b"yes", sender)
                    self.received.append(repr(named))

        thread = threading.Thread(target=receive, daemon=True)
        thread.start()
        stack.callback(server.shutdown, socket.SHUT_RDWR) if kind == socket.SOCK_STREAM else None
        return named

    def policy(self, temporary: Path) -> SandboxPolicy:
        hidden = [str(self.base / "runtime")]
        return make_policy("workspace", self.work, temporary, home=self.home, hidden=hidden)


def own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(one.getsockname()[0])


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    """Not in a temporary folder: of these the sandbox has its own, and what is not seen is no proof."""
    made = lasting_folder()
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module", params=MECHANISMS)
def attempts(
    request: pytest.FixtureRequest, base: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Mechanism, World, dict[str, str]]]:
    held_by = mechanism(request.param)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARMLESS_LOOKING", SECRET)
        world = World(base / held_by.name, elsewhere, stack)
        temporary = tmp_path_factory.mktemp("temporary")
        yield held_by, world, asyncio.run(try_all(held_by, world, temporary))


async def try_all(held_by: Mechanism, world: World, temporary: Path) -> dict[str, str]:
    script = world.work / "escapes.py"
    script.write_text((Path(__file__).parent / "escapes.py").read_text())
    policy = world.policy(temporary)
    running = await start_confined(
        held_by,
        (sys.executable, str(script), json.dumps(world.description)),
        policy,
        child_environment() | {"HOME": str(world.home)},
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.STDOUT,
    )
    with os.fdopen(running.child.output, "rb") as output:
        printed = (await asyncio.to_thread(output.read)).decode()
    await running.child.process.wait()
    running.child.end()
    await running.close()
    found: dict[str, str] = json.loads(printed.strip().splitlines()[-1])
    await asyncio.to_thread(look_at_what_is_left, world, found)
    return found


def look_at_what_is_left(world: World, found: dict[str, str]) -> None:
    hook = world.work / ".git" / "hooks" / "post-commit"
    settings = (world.work / ".git" / "config").read_text()
    sizes = []
    for _ in range(2):
        time.sleep(0.4)
        left = world.work / "outlived"
        sizes.append(left.stat().st_size if left.exists() else 0)
    for name, escaped in (
        ("leave_a_git_hook", hook.exists()),
        ("leave_a_setting_of_git", "fsmonitor" in settings),
        ("outlive_the_command", sizes[0] != sizes[1]),
    ):
        if escaped:
            found[name] = "escaped"


@pytest.mark.parametrize("name", ESCAPES)
def test_no_way_out_is_open(attempts: tuple[Mechanism, World, dict[str, str]], name: str) -> None:
    held_by, _, found = attempts
    known = ESCAPES[name]
    stopped_by = known.without_namespaces if held_by.name == "landlock" else known.stopped_by
    if not stopped_by:
        pytest.skip("not promised without namespaces; docs/security.md says so")
    assert found[name].startswith("held"), found[name]


def test_at_least_sixty_ways_are_tried_and_what_stops_each_is_known() -> None:
    assert len(ESCAPES) >= 60
    assert all(known.stopped_by for known in ESCAPES.values())
    assert sum(not known.without_namespaces for known in ESCAPES.values()) <= 4
    assert set(ESCAPES) > LEFT_BEHIND


def test_outside_everything_is_as_it_was(attempts: tuple[Mechanism, World, dict[str, str]]) -> None:
    held_by, world, _ = attempts
    assert (world.outside / "file").read_text() == "mine\n"
    assert (world.home / ".bashrc").read_text() == "# mine\n"
    assert sorted(path.name for path in world.outside.iterdir()) == ["docker.sock", "file", "log"]
    assert world.received == []
    assert world.victim.poll() is None
    if held_by.name != "landlock":
        assert (world.work / ".mcp.json").read_text() == "{}"


def test_without_a_sandbox_the_same_attempts_succeed(
    base: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Else the others would prove nothing: a few of each kind, all harmless."""
    names = [
        *("write_a_new_file_outside", "read_an_ssh_key", "read_a_temporary_file_of_another_program"),
        *(
            "connect_by_tcp",
            "send_by_udp",
            "connect_to_an_abstract_socket",
            "connect_to_the_socket_of_docker",
        ),
        *("connect_to_the_agent_of_ssh", "send_to_the_log_of_the_system", "write_a_shell_start_file"),
        *(
            "become_another_by_a_setuid_program",
            "read_the_environment_of_a_process",
            "change_the_time_of_a_file_outside",
        ),
    ]
    with ExitStack() as stack:
        world = World(base / "open", tmp_path_factory.mktemp("open"), stack)
        script = Path(__file__).parent / "escapes.py"
        done = subprocess.run(
            [sys.executable, str(script), json.dumps(world.description), *names],
            capture_output=True,
            check=True,
            env=child_environment() | {"HOME": str(world.home)},
        )
    found = json.loads(done.stdout)
    assert {name: told for name, told in found.items() if told != "escaped"} == {}
