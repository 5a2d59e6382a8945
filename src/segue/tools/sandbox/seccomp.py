"""Seccomp: a small program that the kernel asks about each system call of a process, and of all that it starts.

It refuses what no build, test or version control needs and what would lead around the rest: other processes' memory,
mounts and namespaces, io_uring (whose requests no filter sees), kernel keys, and sockets of all kinds but those allowed.
"""

from __future__ import annotations

import ctypes
import os
import struct
from errno import EACCES, EAFNOSUPPORT, ENOSYS, EPERM

from segue.tools.sandbox.system_calls import PR_SET_SECCOMP, prctl

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_FILTER_MODE = 2
_OTHER_WIDTH = 0x40000000
"""Numbers from here on are those of x32: the same calls by another name."""

_NEW_NAMESPACES = 0x7E020000
"""Flags of clone: namespaces of mounts, users, processes, networks and so on."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_FAST_OPEN = 0x20000000
"""Flag of sending: connects without a call of connect, which Landlock would have judged."""
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DATAGRAM, _KIND_BITS = 1, 2, 0xF
_TCP = 6

_REFUSED = {
    # name: (x86_64, aarch64)
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
}
_UNKNOWN = {
    # Programs do without them if the kernel does not know them.
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_MORE_OF_X86 = (156, 172, 173, 180)
"""_sysctl, iopl, ioperm, nfsservctl."""
_JUDGED = {
    "clone": (56, 220),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "ioctl": (16, 29),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
}
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

Instructions = list[tuple[int, int, int, int]]


def is_known_machine() -> bool:
    """Whether the numbers of its system calls are known here."""
    return os.uname().machine in _MACHINES


def apply(*, network: str, unix_sockets: bool) -> None:
    """For this process and all that it starts. `network`: "open", "tcp" or "none". Needs no_new_privs."""
    data = program(os.uname().machine, network=network, unix_sockets=unix_sockets)
    buffer = ctypes.create_string_buffer(data, len(data))
    handed = struct.pack("HxxxxxxQ", len(data) // 8, ctypes.addressof(buffer))
    held = ctypes.create_string_buffer(handed, len(handed))
    prctl(PR_SET_SECCOMP, _FILTER_MODE, ctypes.addressof(held))


def program(machine: str, *, network: str, unix_sockets: bool) -> bytes:
    """The filter, as the kernel wants it."""
    place, architecture = _MACHINES[machine]
    made: Instructions = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture),
        _refusal(EPERM),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        made += [(_JUMP_AT_LEAST, 0, 1, _OTHER_WIDTH), _refusal(ENOSYS)]
    refused = [numbers[place] for numbers in _REFUSED.values()]
    refused += _MORE_OF_X86 if machine == "x86_64" else ()
    for numbers, error in ((refused, EPERM), ([both[place] for both in _UNKNOWN.values()], ENOSYS)):
        for number in numbers:
            made += [(_JUMP_EQUAL, 0, 1, number), _refusal(error)]
    for name, judged in _judged(network, unix_sockets=unix_sockets).items():
        made += [(_JUMP_EQUAL, 0, len(judged), _JUDGED[name][place]), *judged]
    made.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in made)


def _judged(network: str, *, unix_sockets: bool) -> dict[str, Instructions]:
    """Calls that depend on their arguments, each with instructions that end it."""
    allow = (_RETURN, 0, 0, _ALLOW)
    found: dict[str, Instructions] = {
        "clone": [_argument(0), (_JUMP_ANY_BIT, 0, 1, _NEW_NAMESPACES), _refusal(EPERM), allow],
        "ioctl": [
            _argument(1),
            (_JUMP_EQUAL, 1, 0, _TIOCSTI),
            (_JUMP_EQUAL, 0, 1, _TIOCLINUX),
            _refusal(EPERM),
            allow,
        ],
        "socket": _sockets(network, unix_sockets=unix_sockets),
    }
    if not unix_sockets:
        # A pair of datagram sockets can be connected elsewhere afterwards; a pair of streams cannot.
        found["socketpair"] = [
            _argument(1),
            (_AND, 0, 0, _KIND_BITS),
            (_JUMP_EQUAL, 0, 1, _DATAGRAM),
            _refusal(EACCES),
            allow,
        ]
    if network == "tcp":
        for name, place in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
            found[name] = [_argument(place), (_JUMP_ANY_BIT, 0, 1, _FAST_OPEN), _refusal(EACCES), allow]
    return found


def _sockets(network: str, *, unix_sockets: bool) -> Instructions:
    allow = (_RETURN, 0, 0, _ALLOW)
    made: Instructions = [_argument(0)]
    if unix_sockets:
        made += [(_JUMP_EQUAL, 0, 1, _UNIX), allow]
    else:
        made += [(_JUMP_EQUAL, 0, 1, _UNIX), _refusal(EACCES)]
    # Routes and interfaces, which name look-ups ask for; no other kind of netlink.
    made += [(_JUMP_EQUAL, 0, 4, _NETLINK), _argument(2), (_JUMP_EQUAL, 0, 1, 0), allow, _refusal(EACCES)]
    inet: Instructions = [allow]
    if network == "none":
        inet = [_refusal(EACCES)]
    elif network == "tcp":
        inet = [
            _argument(1),
            (_AND, 0, 0, _KIND_BITS),
            (_JUMP_EQUAL, 0, 4, _STREAM),
            _argument(2),
            (_JUMP_EQUAL, 1, 0, 0),
            (_JUMP_EQUAL, 0, 1, _TCP),
            allow,
            _refusal(EACCES),
        ]
    made += [(_JUMP_EQUAL, 1, 0, _INET), (_JUMP_EQUAL, 0, len(inet), _INET6), *inet]
    return [*made, _refusal(EAFNOSUPPORT)]


def _argument(place: int) -> tuple[int, int, int, int]:
    """The lower half of an argument: none of those that are looked at has an upper one."""
    return (_LOAD, 0, 0, _FIRST_ARGUMENT + 8 * place)


def _refusal(error: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _REFUSE | error)
