"""Namespaces of Linux: a process sees its own mounts, processes and network, and none of ours.

The disk is read-only but for what may be written; hidden places are covered with an empty folder, temporary folders and
devices are the sandbox's own, and sockets of other programs are covered, too: connecting to one is neither reading nor
writing for the kernel. The network has a loopback interface and nothing behind it.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct

from segue.tools.sandbox.system_calls import (
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    call,
    prctl,
    set_signal,
    system_call,
)

_NEW_MOUNTS, _NEW_IPC, _NEW_USER, _NEW_PROCESSES, _NEW_NETWORK = (
    0x00020000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_AT_CWD, _EMPTY_PATH, _RECURSIVE, _CLONE, _CLOSE_ON_EXEC = -100, 0x1000, 0x8000, 1, os.O_CLOEXEC
_MOVE_FROM_EMPTY_PATH = 4
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_PROGRAMS = 1, 2, 4, 8
_WHOLE_TREE, _PRIVATE = 0x4000, 1 << 18
_ADMINISTRATOR = 21
"""CAP_SYS_ADMIN."""
_INTERFACE_FLAGS, _UP = 0x8914, 1
_SIGNALS_OF_THE_GROUP = (1, 2, 3, 15)
_KILL = 9
PROXY_PORT = 3128
"""Of the loopback interface inside, where the proxy of the network listens."""
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = (("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1"))
_MORE_LINKS = (("stderr", "/proc/self/fd/2"), ("ptmx", "pts/ptmx"))
_MAX_SOCKETS = 1_000


def enter(
    *,
    writable: list[str],
    readable: list[str],
    protected: list[str],
    hidden: list[str],
    temporary: str,
    network: bool,
    control: int,
) -> None:
    """Returns in a process inside; the one that was called waits for it and ends as it ended. `network`: ours is used;
    else the listener of the proxy is handed to `control`, a socket, or -1."""
    outside = sockets()
    _leave_ours(network=network)
    if not network:
        _start_loopback()
        if control >= 0:
            hand_over_listener(control)
    reading, writing = os.pipe()
    inside = os.fork()
    if inside:
        os.close(writing)
        _end_like(inside, reading)
    os.close(reading)
    # The first process of its namespace: when it ends, the kernel kills all others there, whatever group they are in.
    prctl(PR_SET_PDEATHSIG, _KILL)
    _arrange_mounts(writable, readable, protected, hidden, temporary, outside)
    prctl(PR_SET_DUMPABLE, 0)
    program = os.fork()
    if program:
        _reap(program, writing)
    os.close(writing)


def _leave_ours(*, network: bool) -> None:
    wanted = _NEW_MOUNTS | _NEW_IPC | _NEW_PROCESSES | (0 if network else _NEW_NETWORK)
    if _is_administrator():
        call("unshare", wanted)
        return
    user, group = os.getuid(), os.getgid()
    call("unshare", wanted | _NEW_USER)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")


def _is_administrator() -> bool:
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("CapEff"))
    return bool(int(line.split()[1], 16) >> _ADMINISTRATOR & 1)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _start_loopback() -> None:
    import _socket  # noqa: PLC0415 - the module on top of it takes longer to import than a command to start
    import fcntl  # noqa: PLC0415

    one = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    fcntl.ioctl(one.fileno(), _INTERFACE_FLAGS, struct.pack("16sH22x", b"lo", _UP))
    one.close()


def hand_over_listener(control: int) -> None:
    """Give whoever has the other end of `control` a socket that listens in the network of this process."""
    import _socket  # noqa: PLC0415

    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", PROXY_PORT))
    listener.listen(128)
    ours = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, control)
    handed = struct.pack("i", listener.fileno())
    ours.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, handed)])
    ours.close()
    listener.close()


def _end_like(inside: int, reading: int) -> None:
    """Wait for the first process inside, and end as the program did. Signals for the group are for the program."""
    for number in _SIGNALS_OF_THE_GROUP:
        set_signal(number, 1)
    _, status = os.waitpid(inside, 0)
    told = os.read(reading, 4)
    if len(told) == 4:
        status = struct.unpack("i", told)[0]
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        set_signal(-code, 0)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def _reap(program: int, writing: int) -> None:
    os.closerange(0, writing)
    while True:
        ended, status = os.wait()
        if ended == program:
            os.write(writing, struct.pack("i", status))
            os._exit(0)


def sockets() -> list[str]:
    """Sockets of other programs that have a place on the disk, also those that came with a mount."""
    found: dict[str, None] = {}
    with open("/proc/net/unix", errors="surrogateescape") as table:
        for line in table:
            path = line.rstrip("\n").split(" ", 7)[-1].strip()
            if path.startswith("/"):
                found[path] = None
    with open("/proc/self/mountinfo", errors="surrogateescape") as table:
        for line in table:
            found[line.split()[4]] = None
    return [path for path in found if _is_socket(path)][:_MAX_SOCKETS]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def _arrange_mounts(
    writable: list[str],
    readable: list[str],
    protected: list[str],
    hidden: list[str],
    temporary: str,
    outside: list[str],
) -> None:
    """`outside`: sockets of other programs."""
    call("mount", b"none", b"/", None, ctypes.c_ulong(_WHOLE_TREE | _PRIVATE), None)
    # Copies that are made before everything becomes read-only stay as they are.
    devices = [(name, _copy(f"/dev/{name}")) for name in DEVICES if os.path.exists(f"/dev/{name}")]
    copies = {path: _copy(path) for path in (*readable, *writable)}
    copies |= {path: _copy(temporary) for path in _temporary_folders() if temporary}
    kinds = {path: "cover" for path in hidden if os.path.isdir(path)}
    kinds |= dict.fromkeys(copies, "copy")
    folders = {path for path in kinds if os.path.isdir(path)}
    null = [_copy("/dev/null") for _ in (*hidden, *outside)]
    _restrict("/", _READ_ONLY | _NO_SETUID | _NO_DEVICES, recursive=True)
    # The outer ones first: what is inside another lies on top of it.
    for path in sorted(kinds, key=_depth):
        if kinds[path] == "cover":
            _mount("tmpfs", path, "mode=0755,size=256k")
        else:
            _move(copies[path], path)
        for inner in (inner for inner in kinds if inner.startswith(f"{path.rstrip('/')}/")):
            if not os.path.lexists(inner):
                _make_place(inner, is_folder=inner in folders)
        if kinds[path] == "cover":
            _restrict(path, _READ_ONLY)
        elif path in readable:
            _restrict(path, _READ_ONLY | _NO_SETUID | _NO_DEVICES, recursive=True)
    for path in protected:
        _move(_copy(path), path)
        _restrict(path, _READ_ONLY, recursive=True)
    for path in (*(path for path in hidden if not os.path.isdir(path)), *outside):
        if os.path.lexists(path):
            _move(null.pop(), path)
    _make_devices(devices)
    _mount_processes()


def _make_place(path: str, *, is_folder: bool) -> None:
    """Where something is mounted. Programs that start at once in one chat share its temporary folder: another may be first."""
    os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
    if not is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def _depth(path: str) -> int:
    return path.rstrip("/").count("/")


def _temporary_folders() -> list[str]:
    return [path for path in ("/tmp", "/var/tmp") if os.path.isdir(path) and not os.path.islink(path)]


def _make_devices(devices: list[tuple[str, int]]) -> None:
    _mount("tmpfs", "/dev", "mode=0755,size=64k")
    for name, copy in devices:
        os.close(os.open(f"/dev/{name}", os.O_CREAT | os.O_WRONLY, 0o644))
        _move(copy, f"/dev/{name}")
    for name, target in (*_LINKS, *_MORE_LINKS):
        os.symlink(target, f"/dev/{name}")
    for folder in ("pts", "shm"):
        os.mkdir(f"/dev/{folder}")
    _mount("tmpfs", "/dev/shm", "mode=1777")
    _mount("devpts", "/dev/pts", "newinstance,ptmxmode=0666,mode=0620")
    _restrict("/dev", _READ_ONLY)


def _mount_processes() -> None:
    """Where the kernel lets us: in a container whose own list of processes is covered in parts it does not."""
    flags = _READ_ONLY | _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS
    try:
        call("mount", b"proc", b"/proc", b"proc", ctypes.c_ulong(flags), None)
    except OSError:
        return


def _mount(kind: str, path: str, options: str) -> None:
    flags = _NO_SETUID | (0 if kind == "devpts" else _NO_DEVICES)
    place = os.fsencode(path)
    call("mount", kind.encode(), place, kind.encode(), ctypes.c_ulong(flags), options.encode())


def _copy(path: str) -> int:
    flags = _CLONE | _CLOSE_ON_EXEC | _RECURSIVE
    return system_call(_OPEN_TREE, _AT_CWD, os.fsencode(path), ctypes.c_uint(flags))


def _move(copy: int, path: str) -> None:
    system_call(_MOVE_MOUNT, copy, b"", _AT_CWD, os.fsencode(path), ctypes.c_uint(_MOVE_FROM_EMPTY_PATH))
    os.close(copy)


def _restrict(path: str, attributes: int, *, recursive: bool = False) -> None:
    given = ctypes.create_string_buffer(struct.pack("QQQQ", attributes, 0, 0, 0), 32)
    flags = _RECURSIVE if recursive else 0
    system_call(_MOUNT_SETATTR, _AT_CWD, os.fsencode(path), ctypes.c_uint(flags), given, ctypes.c_size_t(32))
