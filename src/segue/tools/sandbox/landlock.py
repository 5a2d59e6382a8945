"""Landlock: the kernel lets a process give up the right to files, TCP ports and signals, for itself and all it starts.

A rule allows something beneath a path; whatever no rule allows is refused. There is no rule that forbids, so of a tree
with hidden places in it the parts around them are allowed one by one. https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import os
import stat

from segue.tools.sandbox.system_calls import system_call

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_BENEATH, _PORT = 1, 2

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_BIND_TCP, _CONNECT_TCP = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
READS = EXECUTE | READ_FILE | READ_DIR
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | _IOCTL_DEV
"""Rights that a file can have; the rest is about what is in a folder."""


def version() -> int:
    """The version of the interface; 0 without one."""
    try:
        return system_call(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    except OSError:
        return 0


def all_rights(abi: int) -> int:
    """Of files, as this version knows them."""
    known = {1: 13, 2: 14, 3: 15, 4: 15}
    return (1 << known.get(abi, 16)) - 1


def write_rights(abi: int) -> int:
    return all_rights(abi) & ~READS


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _NetworkPort(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


class Ruleset:
    """Rules until they are applied. `reads`: reading needs a rule as well; `ports`: TCP ports that may be connected to,
    None for all."""

    def __init__(self, abi: int, *, reads: bool, ports: list[int] | None) -> None:
        self.abi = abi
        self.handled = all_rights(abi) if reads else write_rights(abi)
        network = _BIND_TCP | _CONNECT_TCP if ports is not None and abi >= 4 else 0
        scoped = _ABSTRACT_SOCKETS | _SIGNALS if abi >= 6 else 0
        attributes = _RulesetAttributes(self.handled, network, scoped)
        size = 24 if abi >= 6 else 16 if abi >= 4 else 8
        self._fd = system_call(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0)
        for port in ports or () if network else ():
            rule = _NetworkPort(_CONNECT_TCP, port)
            system_call(_ADD_RULE, self._fd, _PORT, ctypes.byref(rule), 0)

    def allow(self, path: str, rights: int) -> None:
        """Rights on a file, or on a folder and all that is in it. A path that is not there is passed over."""
        try:
            parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            is_folder = stat.S_ISDIR(os.fstat(parent).st_mode)
            allowed = rights & self.handled & (-1 if is_folder else _ON_FILES)
            if allowed:
                rule = _PathBeneath(allowed, parent)
                system_call(_ADD_RULE, self._fd, _BENEATH, ctypes.byref(rule), 0)
        finally:
            os.close(parent)

    def allow_writes(self, path: str) -> None:
        """Everything but devices."""
        self.allow(path, all_rights(self.abi) & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV))

    def allow_device(self, path: str) -> None:
        self.allow(path, READ_FILE | READ_DIR | WRITE_FILE | _TRUNCATE | _IOCTL_DEV)

    def apply(self) -> None:
        """For this process and all that it starts. Needs no_new_privs, or to be an administrator."""
        system_call(_RESTRICT_SELF, self._fd, 0)
        os.close(self._fd)


def parts_around(hidden: list[str], start: str = "/") -> list[str]:
    """The largest parts of a tree with none of the hidden places in them. A link is not followed: where it leads is
    judged by itself."""
    found = []
    waiting = [start]
    while waiting:
        folder = waiting.pop()
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            path = f"{folder.rstrip('/')}/{name}"
            if path in hidden or os.path.islink(path):
                continue
            if any(one.startswith(f"{path}/") for one in hidden):
                waiting.append(path)
            else:
                found.append(path)
    return found
