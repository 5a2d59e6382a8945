"""How a policy is held here: the command line that starts a program within it, for each mechanism, and which one works.

namespaces   mounts, processes and network of its own; with Landlock and seccomp as far as the kernel has them
bubblewrap   the same by bwrap, where ordinary users may not make namespaces
landlock     Landlock and seccomp alone: a container, mostly
seatbelt     macOS
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from msgspec import Struct

import segue
from segue.system.child_process import SHELL, child_environment
from segue.tools.sandbox.policy import SandboxPolicy, make_policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.tools.sandbox.policy import SandboxPolicy


# The language of macOS: everything is allowed but writing, hidden places, the network and other processes. The last rule that fits
# decides, so what is allowed again stands behind what is denied.
_HEAD: Final = """(version 1)
(allow default)
(deny file-write*)
(deny network*)
(deny process-info* (target others))
(deny signal (target others))
(allow signal (target same-sandbox))
(deny mach-priv-task-port)
(deny system-privilege)
(deny iokit-open)
(deny appleevent-send)
(deny mach-lookup (global-name "com.apple.securityd"))
(deny mach-lookup (global-name "com.apple.SecurityServer"))
(deny mach-lookup (global-name "com.apple.pasteboard.1"))
(deny mach-lookup (global-name "com.apple.coreservices.launchservicesd"))
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/ptmx")
    (regex #"^/dev/ttys[0-9]+$") (regex #"^/dev/fd/"))"""
_INET: Final = """(allow network-bind (local ip "localhost:*"))
(allow network-inbound (local ip "localhost:*"))"""


def seatbelt_profile(policy: SandboxPolicy, port: int = 0) -> str:
    """For sandbox-exec. `port`: where the proxy listens on this machine; 0 without one."""
    lines = [_HEAD]
    lines += [f"(deny file-read* file-write* {_beneath(path)})" for path in policy.hidden]
    lines += [f"(allow file-read* {_beneath(path)})" for path in (*policy.readable, *policy.writable)]
    lines += [
        f"(allow file-write* {_beneath(path)})" for path in (*policy.writable, policy.temporary) if path
    ]
    lines += [f"(allow file-read* {_beneath(policy.temporary)})"] if policy.temporary else []
    lines += [f"(deny file-write* {_beneath(path)})" for path in policy.protected]
    inner = [path for path in policy.hidden if any(path.startswith(f"{place}/") for place in policy.writable)]
    lines += [f"(deny file-read* file-write* {_beneath(path)})" for path in inner]
    if policy.is_open:
        lines.append("(allow network*)")
    else:
        lines.append(_INET)
        if port:
            lines.append(f'(allow network-outbound (remote ip "localhost:{port}"))')
    return "\n".join(lines) + "\n"


def _beneath(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'(subpath "{escaped}")'


MechanismName: TypeAlias = Literal["namespaces", "bubblewrap", "landlock", "seatbelt", "none"]

PROXY_PORT: Final = 3128
_SECONDS: Final = 20.0
_SOURCE: Final = str(Path(segue.__file__).parent.parent)
_LAUNCH: Final = (
    "import sys; sys.path[:0] = [sys.argv.pop(1)]; from segue.tools.sandbox.launcher import main; main()"
)
_TRIAL: Final = 'echo > "$1/inside" && ! echo > "$2/outside"'
"""Writes where it may, and tries to where it may not."""


@final
class Mechanism(Struct, frozen=True, kw_only=True):
    """What holds here."""

    name: MechanismName
    landlock: int = 0
    """The version of its interface; 0 without."""
    seccomp: bool = False
    why: str = ""
    """Why none of them works, if none does."""

    @property
    def holds(self) -> bool:
        return self.name != "none"

    @property
    def has_own_network(self) -> bool:
        """Whether a command reaches nothing but the proxy, whatever it does."""
        return self.name in ("namespaces", "bubblewrap", "seatbelt")

    @property
    def limits_hosts(self) -> bool:
        """Whether hosts can be allowed one by one."""
        return self.has_own_network or (self.landlock >= 4 and self.seccomp)

    @property
    def hides_sockets(self) -> bool:
        """Whether the temporary folder is the command's own under its usual name."""
        return self.name in ("namespaces", "bubblewrap")

    def command(
        self, policy: SandboxPolicy, words: Sequence[str], *, control: int = -1, port: int = 0
    ) -> tuple[str, ...]:
        """The command line that runs a program within the policy. `control`: a socket that gets the listener of the proxy;
        `port`: where the proxy listens on this machine, for mechanisms without a network of their own."""
        match self.name:
            case "none":
                return tuple(words)
            case "seatbelt":
                return ("/usr/bin/sandbox-exec", "-p", seatbelt_profile(policy, port), "--", *words)
            case "bubblewrap":
                return (*_bubblewrap(policy), *self._launcher(policy, words, control, port, inside=True))
            case "namespaces" | "landlock":
                return self._launcher(policy, words, control, port, inside=False)

    def _launcher(
        self, policy: SandboxPolicy, words: Sequence[str], control: int, port: int, *, inside: bool
    ) -> tuple[str, ...]:
        own = self.name == "namespaces"
        network = "open" if policy.is_open else "tcp" if port and not self.has_own_network else "none"
        options = {
            "namespaces": "1" if own else "",
            "inside": "1" if inside else "",
            "landlock": str(self.landlock),
            "seccomp": "1" if self.seccomp else "",
            "temporary": policy.temporary,
            "network": network,
            "port": str(port) if port else "",
            "control": str(control) if control >= 0 else "",
            "folder": policy.folder,
            "memory": str(policy.limits.memory),
            "processes": str(policy.limits.processes),
        }
        many = {
            "write": policy.writable,
            "read": policy.readable,
            "protect": policy.protected,
            "hide": policy.hidden,
        }
        return (
            *(sys.executable, "-I", "-S", "-c", _LAUNCH, _SOURCE),
            *(word for name, value in options.items() if value for word in (f"--{name}", value)),
            *(word for name, paths in many.items() for path in paths for word in (f"--{name}", path)),
            "--",
            *words,
        )


NO_MECHANISM: Final = Mechanism(name="none")


@lru_cache(maxsize=1)
def mechanism_here() -> Mechanism:
    """The first mechanism that was tried and held, or none and why."""
    reasons = []
    for one in candidates():
        problem = trial(one)
        if not problem:
            return one
        reasons.append(f"{one.name}: {problem}")
    return Mechanism(name="none", why="; ".join(reasons) or f"there is none for {sys.platform}")


def candidates() -> list[Mechanism]:
    """What this system may have, the best first, untried."""
    if sys.platform == "darwin":
        return [Mechanism(name="seatbelt")]
    if not sys.platform.startswith("linux"):
        return []
    from segue.tools.sandbox import landlock, seccomp  # noqa: PLC0415 - calls of this system only

    version, filtered = min(landlock.version(), 7), seccomp.is_known_machine()
    found = [Mechanism(name="namespaces", landlock=version, seccomp=filtered)]
    if shutil.which("bwrap"):
        found.append(Mechanism(name="bubblewrap", landlock=version, seccomp=filtered))
    if version and filtered:
        found.append(Mechanism(name="landlock", landlock=version, seccomp=filtered))
    return found


def trial(mechanism: Mechanism) -> str:
    """Why a mechanism does not hold a command here; empty if it does."""
    with tempfile.TemporaryDirectory(prefix="segue-") as folder:
        inside, outside, temporary = (
            Path(folder, name).resolve() for name in ("inside", "outside", "temporary")
        )
        for one in (inside, outside, temporary):
            one.mkdir()
        policy = make_policy("workspace", inside, temporary)
        words = mechanism.command(policy, (SHELL, "-c", _TRIAL, "sh", str(inside), str(outside)))
        try:
            done = subprocess.run(  # noqa: S603 - our own words
                words,
                env=child_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode or not (inside / "inside").exists() or (outside / "outside").exists():
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it held nothing"]
            return lines[-1][:200]
    return ""


def _bubblewrap(policy: SandboxPolicy) -> tuple[str, ...]:
    """What the namespaces of our own launcher do, in the words of bwrap. The launcher runs inside, for the rest."""
    from segue.tools.sandbox.namespaces import sockets  # noqa: PLC0415 - calls of this system only

    network = () if policy.is_open else ("--unshare-net",)
    covered = [path for path in policy.hidden if os.path.isdir(path) and path not in ("/tmp", "/var/tmp")]  # noqa: PTH112, S108
    files = [path for path in policy.hidden if os.path.isfile(path)]  # noqa: PTH113
    steps: list[tuple[str, tuple[str, ...]]] = [
        *((path, ("--tmpfs", path)) for path in covered),
        *((path, ("--ro-bind", "/dev/null", path)) for path in (*files, *sockets())),
        *((path, ("--bind", policy.temporary, path)) for path in ("/tmp", "/var/tmp")),  # noqa: S108
        *((path, ("--ro-bind", path, path)) for path in policy.readable),
        *((path, ("--bind", path, path)) for path in policy.writable),
        *((path, ("--ro-bind", path, path)) for path in policy.protected),
    ]
    # The outer ones first: what is inside another lies on top of it.
    ordered = sorted(steps, key=lambda step: step[0].count("/") if step[0] != "/" else 0)
    return (
        *(shutil.which("bwrap") or "bwrap", "--unshare-user-try", "--unshare-pid", "--unshare-ipc", *network),
        *("--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *(word for _, words in ordered for word in words),
        *("--chdir", policy.folder, "--"),
    )
