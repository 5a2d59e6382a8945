"""What the sandbox kept a command from, as far as it can be known: hosts by the proxy, paths by what programs print.

The kernel says no without telling us. A program that is refused mostly prints the path and the error; whether it was the
sandbox is then decided by the policy, not by the words.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

if TYPE_CHECKING:
    from segue.tools.sandbox.policy import SandboxPolicy

_MAX_SEARCHED: Final = 60_000
_MAX_TOLD: Final = 8
_REFUSAL: Final = r"(?:Permission denied|Read-only file system|Operation not permitted|EACCES|EROFS|EPERM)"
_PATH: Final = r"(?P<path>(?:~|\.{1,2})?/[^\s:'\"`’‘,;()<>|]+|(?:[\w.@+-]+/)+[^\s:'\"`’‘,;()<>|/]+|(?<=['\"`‘])[^'\"`’\n]{1,200}(?=['\"`’]))"
_BEFORE: Final = re.compile(rf"{_PATH}['\"`’]?: {_REFUSAL}")
_AFTER: Final = re.compile(rf"{_REFUSAL}[^\n/'\"`]{{0,40}}['\"`‘]?{_PATH}")
_HIDDEN: Final = re.compile(rf"{_PATH}['\"`’]?: No such file or directory")
_HOST: Final = re.compile(
    r"(?:[Cc]ould not resolve (?:host(?:name)?|proxy):? |getaddrinfo (?:ENOTFOUND|EAI_AGAIN) |[Uu]nknown host:? "
    r"|[Ff]ailed to (?:resolve|lookup address information for) |lookup |resolve '?|ssh: connect to host )"
    r"['\"]?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*\.[A-Za-z0-9-]+)"
)
_NETWORK: Final = re.compile(
    r"Network is unreachable|Temporary failure in name resolution|Name or service not known|ENETUNREACH|EAI_AGAIN"
    r"|nodename nor servname provided"
)
_CALL: Final = re.compile(
    r"(?P<what>ptrace|mount|unshare|io_uring_\w+|setns|chroot|clone|keyctl|bpf)\b[^\n]{0,60}?"
    r"(?:Operation not permitted|Function not implemented|permission denied)",
    re.IGNORECASE,
)


@final
class Blocked(Struct, frozen=True):
    """What a command tried and could not do."""

    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    network: bool = False
    """It tried to use the network in a way that names no host, or that no proxy can serve."""
    calls: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    """What was taken away after it had ended."""

    def __bool__(self) -> bool:
        return bool(self.writes or self.reads or self.hosts or self.network or self.calls or self.undone)

    @property
    def can_be_allowed(self) -> bool:
        """Whether the user could allow it: not calls, nor what was taken away."""
        return bool(self.writes or self.reads or self.hosts or self.network)

    def lines(self) -> list[str]:
        """One for each kind, as the user and the model read them."""
        network = ["the network"] if self.network and not self.hosts else []
        kinds = (
            ("write", self.writes),
            ("read", self.reads),
            ("connect to", (*self.hosts, *network)),
            ("call", self.calls),
            ("leave behind", self.undone),
        )
        return [f"{verb} {', '.join(things)}" for verb, things in kinds if things]


def find_blocked(output: str, policy: SandboxPolicy, hosts: list[str], undone: list[str]) -> Blocked:
    """`hosts`: those that the proxy refused; `undone`: what was taken away afterwards."""
    text = output[-_MAX_SEARCHED:]
    paths = {_whole(found["path"], policy) for found in (*_BEFORE.finditer(text), *_AFTER.finditer(text))}
    gone = {_whole(found["path"], policy) for found in _HIDDEN.finditer(text)}
    reads = {path for path in paths | gone if policy.hides(path) and os.path.lexists(path)}
    writes = {path for path in paths - reads if not policy.may_write(path) and _is_place(path)}
    named = [] if policy.is_open else [found["host"] for found in _HOST.finditer(text)]
    asked = [host for host in dict.fromkeys([*hosts, *named]) if host]
    return Blocked(
        writes=_told(writes),
        reads=_told(reads),
        hosts=tuple(asked[:_MAX_TOLD]),
        network=not policy.is_open and not asked and _NETWORK.search(text) is not None,
        calls=tuple(dict.fromkeys(found["what"].lower() for found in _CALL.finditer(text)))[:_MAX_TOLD],
        undone=tuple(undone),
    )


def _whole(path: str, policy: SandboxPolicy) -> str:
    return os.path.realpath(os.path.join(policy.folder, os.path.expanduser(path)))  # noqa: PTH111, PTH118


def _is_place(path: str) -> bool:
    """A path that is there, or whose folder is: others are words that look like one."""
    return os.path.isdir(os.path.dirname(path)) and not path.startswith(("/proc/", "/sys/", "/dev/"))  # noqa: PTH112, PTH120


def _told(paths: set[str]) -> tuple[str, ...]:
    return tuple(sorted(paths)[:_MAX_TOLD])
