"""The sandbox of one chat: its mode, what the user has allowed beside it, and how a command is run within it."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final, get_args

from segue.errors import UsageError
from segue.system.child_process import ChildProcess, child_environment
from segue.system.worker_threads import in_thread
from segue.tools.sandbox.git_places import AbsentGuard, GitGuard
from segue.tools.sandbox.mechanisms import NO_MECHANISM, PROXY_PORT, mechanism_here
from segue.tools.sandbox.network_proxy import NetworkProxy
from segue.tools.sandbox.policy import (
    EVERY_HOST,
    Grant,
    SandboxLimits,
    SandboxMode,
    SandboxPolicy,
    make_policy,
)
from segue.tools.sandbox.refusals import Blocked, find_blocked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from segue.conversation.blocks import ToolCall
    from segue.events import Decision
    from segue.tools.sandbox.mechanisms import Mechanism

AskGrant: TypeAlias = "Callable[[ToolCall, Blocked], Awaitable[Decision]]"

_HAND_OVER_SECONDS: Final = 10.0
_PROXY_NAMES: Final = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")


def grant_for(blocked: Blocked) -> Grant:
    """What a command needs that was kept from something: the folder of a file that it would have made."""
    writable = [path if Path(path).exists() else str(Path(path).parent) for path in blocked.writes]
    hosts = blocked.hosts or ((EVERY_HOST,) if blocked.network else ())
    return Grant(tuple(dict.fromkeys(writable)), blocked.reads, hosts)


class Sandbox:
    """Whatever a tool starts runs in it, unless its mode is "off" or the system has no mechanism for it."""

    def __init__(
        self,
        workspace: str | Path,
        mode: SandboxMode = "workspace",
        *,
        grant: Grant | None = None,
        hidden: Iterable[str] = (),
        variables: Iterable[str] = (),
        limits: SandboxLimits | None = None,
        mechanism: Mechanism | None = None,
    ) -> None:
        """`grant`: what is allowed beside the usual. `variables`: names of the environment that commands get beside the usual ones. `mechanism`: this one, untried."""
        if mode not in get_args(SandboxMode):
            raise UsageError(
                f'"{mode}" is no mode of the sandbox.',
                code="bad_sandbox_mode",
                hint=f"One of: {', '.join(get_args(SandboxMode))}.",
            )
        self.workspace = Path(workspace).resolve()
        self.mode: SandboxMode = mode
        self.variables = tuple(variables)
        self.granted = grant or Grant()
        """By the settings, and by the user for this session."""
        self.ask: AskGrant | None = None
        """Who can ask the user to allow what was blocked; None if nobody can."""
        self._hidden = tuple(hidden)
        self._limits = limits or SandboxLimits()
        self._mechanism = mechanism
        self._temporary = ""

    @property
    def mechanism(self) -> Mechanism:
        """What holds commands here; it is tried the first time, which takes as long as a command."""
        if self._mechanism is None:
            self._mechanism = mechanism_here()
        return self._mechanism

    @property
    def confines(self) -> bool:
        """Whether commands run inside."""
        return self.mode != "off" and self.mechanism.holds

    @property
    def is_missing(self) -> bool:
        """Whether it is wanted and cannot be had."""
        return self.mode != "off" and not self.mechanism.holds

    def summary(self, *, asks: bool = True) -> str:
        """What commands may do, in a few words. `asks`: where nothing holds them, the user is asked about each."""
        if self.mode == "off":
            return "no sandbox: commands can do what you can do"
        if not self.mechanism.holds:
            held = "every command is asked about" if asks else "commands can do what you can do, unasked"
            return f"no sandbox works here: {held}"
        where = "write in the workspace" if self.mode == "workspace" else "write nothing"
        return f"sandbox: commands {where}, see no keys, {_network_words(self.granted.hosts)}"

    def temporary(self) -> str:
        """The folder for temporary files of all commands of this chat; it goes with it."""
        if not self._temporary:
            self._temporary = os.path.realpath(tempfile.mkdtemp(prefix="segue-"))
            weakref.finalize(self, shutil.rmtree, self._temporary, ignore_errors=True)
        return self._temporary

    def policy(
        self, *, read_only: bool = False, more: Grant | None = None, caches: bool = False
    ) -> SandboxPolicy:
        """For the next command. `read_only`: whatever the mode is and the user has allowed for the session, it writes nothing
        but temporary files and sends nothing. `more`: what the user has allowed for this one."""
        usual = Grant(readable=self.granted.readable) if read_only else self.granted
        return make_policy(
            "read-only" if read_only else self.mode,
            self.workspace,
            self.temporary(),
            grant=usual if more is None else usual.plus(more),
            hidden=self._hidden,
            caches=caches,
            limits=self._limits,
        )

    async def start(
        self, words: Sequence[str], policy: SandboxPolicy | None, *, variables: dict[str, str], **streams: Any
    ) -> ConfinedProcess:
        """Start a program. Without a policy it runs outside. `variables`: more than it gets anyway. Raises OSError."""
        environment = child_environment(more=self.variables)
        if policy is None:
            child = await ChildProcess.start(words, env=environment | variables, **streams)
            return ConfinedProcess(child, None, (), [])
        mechanism = await in_thread(lambda: self.mechanism)
        return await start_confined(mechanism, words, policy, environment | variables, **streams)


async def start_confined(
    mechanism: Mechanism,
    words: Sequence[str],
    policy: SandboxPolicy,
    environment: dict[str, str],
    *,
    lasting: bool = False,
    **streams: Any,
) -> ConfinedProcess:
    """Start a program within a policy, with a proxy where its network needs one. `lasting`: it runs beside the user, whose own
    changes of git's settings must not be undone when it ends; so its policy lets it write none. Raises OSError."""
    refused: dict[str, None] = {}
    proxy = NetworkProxy(policy.hosts, refused.setdefault)
    guarded = bool(policy.writable) and not lasting
    guards = await in_thread(lambda: _guards(policy)) if guarded else ()
    port = 0
    ours: socket.socket | None = None
    theirs: socket.socket | None = None
    if policy.is_open or not mechanism.holds:
        pass
    elif mechanism.name in ("namespaces", "bubblewrap"):
        ours, theirs = socket.socketpair()
        port = PROXY_PORT
    elif mechanism.limits_hosts and (policy.hosts or mechanism.name == "seatbelt"):
        port = await proxy.start()
    control = -1 if theirs is None else theirs.fileno()
    command = mechanism.command(policy, words, control=control, port=0 if theirs is not None else port)
    given = environment | _own_variables(mechanism, policy, port)
    try:
        passed = () if control < 0 else (control,)
        child = await ChildProcess.start(command, env=given, pass_fds=passed, cwd=policy.folder, **streams)
    except BaseException:
        await proxy.close()
        if ours is not None:
            ours.close()
        raise
    finally:
        if theirs is not None:
            theirs.close()
    serving = None if ours is None else asyncio.ensure_future(_serve(ours, proxy))
    running = ConfinedProcess(child, proxy, guards, refused)
    running.serving = serving
    return running


def _guards(policy: SandboxPolicy) -> tuple[GitGuard | AbsentGuard, ...]:
    return GitGuard(policy.folder), AbsentGuard(map(Path, policy.absent), policy.folder)


async def _serve(ours: socket.socket, proxy: NetworkProxy) -> None:
    """Wait for the listener that the launcher makes inside the command's network, and serve it."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    ours.setblocking(False)  # noqa: FBT003
    loop.add_reader(ours, ready.set)
    try:
        await asyncio.wait_for(ready.wait(), _HAND_OVER_SECONDS)
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    except (TimeoutError, OSError):
        return
    finally:
        loop.remove_reader(ours)
        ours.close()
    for descriptor in descriptors:
        await proxy.start(socket.socket(fileno=descriptor))


@final
class ConfinedProcess:
    """A running program, its way to the network, and what is looked at after it has ended."""

    def __init__(
        self,
        child: ChildProcess,
        proxy: NetworkProxy | None,
        guards: Iterable[GitGuard | AbsentGuard],
        refused: Iterable[str],
    ) -> None:
        self.child = child
        self.serving: asyncio.Future[None] | None = None
        self._proxy = proxy
        self._guards = tuple(guards)
        self._refused = refused
        self._undone: list[str] = []

    async def close(self) -> None:
        """After the end of the program."""
        if self.serving is not None:
            self.serving.cancel()
            with suppress(asyncio.CancelledError):
                await self.serving
        if self._proxy is not None:
            await self._proxy.close()
        guards, self._guards = self._guards, ()
        for guard in guards:
            with suppress(OSError):
                self._undone += await in_thread(guard.enforce)

    def blocked(self, output: str, policy: SandboxPolicy) -> Blocked:
        """What it was kept from, by what it printed and by what was seen."""
        return find_blocked(output, policy, list(self._refused), self._undone)


def _own_variables(mechanism: Mechanism, policy: SandboxPolicy, port: int) -> dict[str, str]:
    """Where its temporary files and caches go, and how it gets to the network."""
    if not mechanism.holds:
        return {}
    temporary = "/tmp" if mechanism.hides_sockets else policy.temporary  # noqa: S108 - its own under this name
    found = {"TMPDIR": temporary}
    if policy.own_caches:
        found |= {"XDG_CACHE_HOME": f"{temporary}/.cache", "npm_config_cache": f"{temporary}/.cache/npm"}
    if not policy.writable:
        found["GIT_OPTIONAL_LOCKS"] = "0"
    if port:
        found |= dict.fromkeys(_PROXY_NAMES, f"http://127.0.0.1:{port}")
        local = [name for name in ("localhost", "127.0.0.1", "::1") if not _names_host(policy.hosts, name)]
        found |= {"NO_PROXY": ",".join(local), "no_proxy": ",".join(local), "NODE_USE_ENV_PROXY": "1"}
    return found


def _names_host(hosts: Iterable[str], name: str) -> bool:
    return any(host == name or host.startswith(f"{name}:") for host in hosts)


def _network_words(hosts: tuple[str, ...]) -> str:
    if EVERY_HOST in hosts:
        return "use the network"
    return f"reach {', '.join(hosts)} only" if hosts else "have no network"


def without_sandbox(workspace: str | Path) -> Sandbox:
    """One that holds nothing, for whoever has asked for none."""
    return Sandbox(workspace, "off", mechanism=NO_MECHANISM)


def grant_of_words(words: Iterable[str]) -> Grant:
    """Paths, which begin with / or ~ or a dot, may be written; everything else is a host."""
    given = list(words)
    paths = tuple(str(Path(word).expanduser()) for word in given if word.startswith(("/", "~", ".")))
    hosts = tuple(word for word in given if not word.startswith(("/", "~", ".")))
    return Grant(paths, paths, hosts)
