"""Gives up what the policy does not allow, then becomes the program. Started by itself, as a process of its own.

    python -I -S -c '…' [--write PATH …] -- PROGRAM ARGUMENT …

It imports nothing but the smallest modules: this is time that every command takes. Whatever cannot be given up ends
it before the program starts, with exit code 125.
"""

from __future__ import annotations

import os
import sys

from segue.tools.sandbox import landlock, namespaces, seccomp
from segue.tools.sandbox.system_calls import (
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_CAPBSET_DROP,
    PR_SET_NO_NEW_PRIVS,
    prctl,
    set_signal,
)

FAILED = 125
"""Exit code where the limits could not be set."""
MARK = "segue sandbox: "
"""What its own errors begin with."""
_MANY = ("write", "read", "protect", "hide")
_ONE = (
    "namespaces",
    "inside",
    "landlock",
    "seccomp",
    "temporary",
    "network",
    "port",
    "control",
    "folder",
    "memory",
    "processes",
)
_KEPT_RIGHTS = (0, 1, 3, 4, 6, 7)
"""Of an administrator, within what files allow: owners, modes, groups and users; what package managers need."""
_LAST_RIGHT = 63
_DEVICES = namespaces.DEVICES
_TERMINALS = ("pts", "ptmx")
"""Only where they are the command's own: else those of the user would be among them."""
_OWN = ("/tmp", "/var/tmp", "/dev")
"""Folders of which a command has a part of its own only."""


class LauncherOptions:
    """What the words before `--` say."""

    def __init__(self, words: list[str]) -> None:
        self.many: dict[str, list[str]] = {name: [] for name in _MANY}
        self.one: dict[str, str] = dict.fromkeys(_ONE, "")
        while words and words[0] != "--":
            name, value = words.pop(0)[2:], words.pop(0)
            if name in self.many:
                self.many[name].append(value)
            else:
                self.one[name] = value
        self.command = words[1:]

    def number(self, name: str) -> int:
        return int(self.one[name] or 0)


def main() -> None:
    limits = LauncherOptions(sys.argv[1:])
    try:
        _confine(limits)
    except OSError as error:
        _fail(f"cannot limit the command: {error}")
    try:
        os.execvp(limits.command[0], limits.command)
    except OSError as error:
        _fail(f"{limits.command[0]}: {error.strerror}", 127)


def _fail(what: str, code: int = FAILED) -> None:
    os.write(2, f"{MARK}{what}\n".encode(errors="surrogateescape"))
    os._exit(code)


def _confine(limits: LauncherOptions) -> None:
    many, network = limits.many, limits.one["network"]
    control = int(limits.one["control"] or -1)
    inside = bool(limits.number("namespaces") or limits.number("inside"))
    if limits.number("namespaces"):
        namespaces.enter(
            writable=many["write"],
            readable=many["read"],
            protected=many["protect"],
            hidden=many["hide"],
            temporary=limits.one["temporary"],
            network=network == "open",
            control=control,
        )
    elif inside and control >= 0:
        namespaces.hand_over_listener(control)
    os.closerange(3, 65_536)
    os.chdir(limits.one["folder"])
    _limit_resources(limits, inside=inside)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if abi := limits.number("landlock"):
        _restrict_files(limits, abi, inside=inside)
    _drop_rights()
    if limits.number("seccomp"):
        reach = "open" if inside or network == "open" else network or "none"
        seccomp.apply(network=reach, unix_sockets=inside or network == "open")


def _restrict_files(limits: LauncherOptions, abi: int, *, inside: bool) -> None:
    """Inside namespaces what is hidden is hidden already, and rules for writing are a second wall."""
    many, port = limits.many, limits.number("port")
    ports = None if inside or limits.one["network"] == "open" else [port] if port else []
    rules = landlock.Ruleset(abi, reads=not inside, ports=ports)
    temporary = ["/tmp", "/var/tmp", "/dev/shm"] if inside else [limits.one["temporary"]]
    hidden = [] if inside else [*many["hide"], *_OWN]
    for path in (*many["write"], *temporary):
        within = [place for place in hidden if place.startswith(f"{path.rstrip('/')}/")]
        for part in landlock.parts_around(within, path) if within else [path]:
            rules.allow_writes(part)
    for path in _DEVICES:
        rules.allow_device(f"/dev/{path}")
    for path in _TERMINALS if inside else ():
        rules.allow_device(f"/dev/{path}")
    if not inside:
        rules.allow("/", landlock.READ_DIR)
        for path in (*landlock.parts_around(hidden), *many["read"]):
            rules.allow(path, landlock.READS)
    rules.apply()


def _limit_resources(limits: LauncherOptions, *, inside: bool) -> None:
    """Memory is counted for each process. Processes are counted for a user, and only those inside where there are
    namespaces: elsewhere all that the user runs would count."""
    import resource  # noqa: PLC0415

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, wanted in (
        (resource.RLIMIT_DATA, limits.number("memory")),
        (resource.RLIMIT_NPROC, limits.number("processes") if inside else 0),
    ):
        _, most = resource.getrlimit(kind)
        if wanted:
            least = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
            resource.setrlimit(kind, (least, least))


def _drop_rights() -> None:
    """An administrator stays one of files only, and only where the mounts and rules let him."""
    for number in (1, 2, 3, 13, 15):
        set_signal(number, 0)
    if os.geteuid() != 0:
        return
    for right in range(_LAST_RIGHT + 1):
        if right not in _KEPT_RIGHTS:
            try:
                prctl(PR_CAPBSET_DROP, right)
            except OSError:
                break  # the kernel knows no more
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
