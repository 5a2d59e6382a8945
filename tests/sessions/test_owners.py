"""Whether the process that has a session open is still there."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest
from msgspec import structs

from segue.sessions.leases import Owner, is_gone, this_process

linux = pytest.mark.skipif(sys.platform != "linux", reason="the start of a process is read from /proc")


def test_this_process_is_there() -> None:
    assert not is_gone(this_process())
    assert this_process().token != this_process().token


def test_of_another_host_nothing_is_known() -> None:
    assert not is_gone(structs.replace(this_process(), host="elsewhere", pid=999_999_999))


def test_a_process_that_ended_is_gone_also_while_nobody_has_buried_it() -> None:
    program = "from segue.sessions.leases import *; import msgspec; print(msgspec.json.encode(this_process()).decode())"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:  # noqa: S603
        assert child.stdout is not None
        owner = msgspec.json.decode(child.stdout.read(), type=Owner)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is a zombie
        if owner.born:
            assert is_gone(owner)
    assert is_gone(owner)
    assert is_gone(structs.replace(owner, born=""))


@linux
def test_a_later_process_with_the_same_pid_is_not_taken_for_the_owner() -> None:
    mine = this_process()
    boot, space, start = mine.born.split(":")
    assert is_gone(structs.replace(mine, born=f"{boot}:{space}:{int(start) - 1}"))
    assert is_gone(structs.replace(mine, born=f"other-boot:{space}:{start}"))


@linux
def test_a_pid_of_another_container_says_nothing() -> None:
    mine = this_process()
    boot, _, start = mine.born.split(":")
    assert not is_gone(structs.replace(mine, born=f"{boot}:1:{int(start) - 1}"))
