"""Calls of the Linux kernel that Python has no names for. Imported by the launcher, so only by way of the standard library."""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4


def call(name: str, *arguments: object) -> int:
    """A function of the C library. Raises OSError."""
    return _checked(getattr(_libc, name)(*arguments), name)


def system_call(number: int, *arguments: object) -> int:
    """A system call by its number. Raises OSError."""
    return _checked(_libc.syscall(ctypes.c_long(number), *arguments), f"system call {number}")


def prctl(option: int, *arguments: int) -> int:
    four = (*arguments, 0, 0, 0, 0)[:4]
    return call("prctl", option, *(ctypes.c_ulong(argument) for argument in four))


def set_signal(number: int, action: int) -> None:
    """0: as usual; 1: ignored. Python's own module takes longer to import than a command to start."""
    _libc.signal(number, ctypes.c_void_p(action))


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
