"""Ways out of the sandbox, tried from inside: each a function that returns if it got out, and raises if it did not.

The file is run as a program within a policy, with a description of what lies outside. It uses the standard library only.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import platform
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

World = dict[str, Any]


class Escape(NamedTuple):
    attempt: Callable[[World], object]
    stopped_by: str
    """What stops it where there are namespaces of its own."""
    without_namespaces: str
    """What stops it where there is Landlock and seccomp only; "" if nothing does."""


ESCAPES: dict[str, Escape] = {}
MOUNTS, RULES = "read-only mounts", "Landlock"
COVERED, NO_RULE = "an empty folder lies over it", "Landlock: no rule allows it"
FILTER = "seccomp"


def escape(
    stopped_by: str, without_namespaces: str
) -> Callable[[Callable[[World], object]], Callable[[World], object]]:
    def kept(function: Callable[[World], object]) -> Callable[[World], object]:
        ESCAPES[function.__name__] = Escape(function, stopped_by, without_namespaces)
        return function

    return kept


class HeldError(Exception):
    """Not out."""


def held_unless(escaped: object, why: str = "held") -> None:
    if not escaped:
        raise HeldError(why)


_libc = ctypes.CDLL(None, use_errno=True)
IS_X86 = platform.machine() == "x86_64"


def syscall(x86: int, arm: int, *arguments: object) -> int:
    result = int(_libc.syscall(ctypes.c_long(x86 if IS_X86 else arm), *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def write(path: str, text: str = "x", flags: int = 0) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    os.write(descriptor, text.encode())
    os.close(descriptor)


def read_secret(path: str) -> None:
    with open(path) as file:
        held_unless("SECRET" in file.read(), "it was empty")


# Files outside


@escape(MOUNTS, RULES)
def write_a_new_file_outside(world: World) -> None:
    write(f"{world['outside']}/new")


@escape(MOUNTS, RULES)
def append_to_a_file_outside(world: World) -> None:
    write(world["file"], "more", os.O_APPEND)


@escape(MOUNTS, RULES)
def truncate_a_file_outside(world: World) -> None:
    os.truncate(world["file"], 0)


@escape(MOUNTS, RULES)
def delete_a_file_outside(world: World) -> None:
    os.unlink(world["file"])


@escape(MOUNTS, RULES)
def rename_a_file_outside(world: World) -> None:
    os.rename(world["file"], f"{world['outside']}/renamed")


@escape("two mounts", RULES)
def move_a_file_from_outside_to_inside(world: World) -> None:
    os.rename(world["file"], f"{world['work']}/stolen")


@escape(MOUNTS, "")
def change_the_mode_of_a_file_outside(world: World) -> None:
    os.chmod(world["file"], 0o666)


@escape(MOUNTS, "")
def change_the_time_of_a_file_outside(world: World) -> None:
    os.utime(world["file"], (1, 1))


@escape(MOUNTS, RULES)
def write_through_a_symbolic_link(world: World) -> None:
    os.symlink(world["file"], f"{world['work']}/link")
    write(f"{world['work']}/link")


@escape("two mounts", RULES)
def write_through_a_hard_link(world: World) -> None:
    os.link(world["file"], f"{world['work']}/hard")
    write(f"{world['work']}/hard")


@escape(MOUNTS, RULES)
def write_through_dots(world: World) -> None:
    write(f"{world['work']}/../outside/dots")


@escape(MOUNTS, RULES)
def write_through_the_root_of_a_process(world: World) -> None:
    write(f"/proc/self/root{world['outside']}/through-proc")


@escape(MOUNTS, RULES)
def make_a_folder_outside(world: World) -> None:
    os.mkdir(f"{world['outside']}/folder")


@escape(MOUNTS, RULES)
def write_a_shell_start_file(world: World) -> None:
    write(f"{world['home']}/.bashrc", "evil", os.O_APPEND)


@escape(MOUNTS, RULES)
def make_an_autostart_file(world: World) -> None:
    os.makedirs(f"{world['home']}/.config/autostart")


@escape(MOUNTS, RULES)
def write_a_cron_table(_world: World) -> None:
    write("/etc/cron.d/escape" if os.path.isdir("/etc/cron.d") else "/etc/crontab")


@escape(MOUNTS, RULES)
def write_a_profile_of_the_system(_world: World) -> None:
    write("/etc/profile.d/escape.sh" if os.path.isdir("/etc/profile.d") else "/etc/profile")


@escape(MOUNTS, RULES)
def replace_a_program(_world: World) -> None:
    write("/usr/bin/escape")


# Keys and stores


@escape(COVERED, NO_RULE)
def read_an_ssh_key(world: World) -> None:
    read_secret(f"{world['home']}/.ssh/id_key")


@escape(COVERED, NO_RULE)
def read_a_key_through_a_link(world: World) -> None:
    os.symlink(f"{world['home']}/.ssh/id_key", f"{world['work']}/key")
    read_secret(f"{world['work']}/key")


@escape(COVERED, RULES)
def read_a_key_through_a_hard_link(world: World) -> None:
    os.link(f"{world['home']}/.ssh/id_key", f"{world['work']}/hard-key")
    read_secret(f"{world['work']}/hard-key")


@escape(COVERED, NO_RULE)
def read_a_key_through_the_root_of_a_process(world: World) -> None:
    read_secret(f"/proc/self/root{world['home']}/.ssh/id_key")


@escape("the first process inside is the sandbox's own", RULES)
def read_a_key_through_the_first_process(world: World) -> None:
    read_secret(f"/proc/1/root{world['home']}/.ssh/id_key")


@escape("other processes are not seen", RULES)
def read_a_key_through_a_process_outside(world: World) -> None:
    read_secret(f"/proc/{world['victim']}/root{world['home']}/.ssh/id_key")


@escape(COVERED, NO_RULE)
def read_the_keys_of_segue(world: World) -> None:
    read_secret(f"{world['home']}/.local/share/segue/keys.json")


@escape(COVERED, NO_RULE)
def read_the_cookies_of_a_browser(world: World) -> None:
    read_secret(f"{world['home']}/.mozilla/cookies")


@escape("an empty file lies over it", NO_RULE)
def read_the_history_of_the_shell(world: World) -> None:
    read_secret(f"{world['home']}/.bash_history")


@escape("an empty file lies over it", NO_RULE)
def read_the_passwords_of_the_system(_world: World) -> None:
    with open("/etc/shadow") as file:
        held_unless(file.read(), "it was empty")


@escape("the folder is the sandbox's own", NO_RULE)
def read_a_temporary_file_of_another_program(world: World) -> None:
    read_secret(world["temporary_file"])


@escape("only listed variables pass", "only listed variables pass")
def find_a_key_in_the_environment(_world: World) -> None:
    held_unless(any("SECRET" in value for value in os.environ.values()))


# Mounts and namespaces


@escape(FILTER, FILTER)
def mount_a_folder(world: World) -> None:
    result = _libc.mount(b"none", os.fsencode(world["work"]), b"tmpfs", 0, None)
    held_unless(result == 0, os.strerror(ctypes.get_errno()))


@escape(FILTER, FILTER)
def make_the_disk_writable_again(_world: World) -> None:
    remount, bind = 32, 4096
    held_unless(_libc.mount(None, b"/", None, ctypes.c_ulong(remount | bind), None) == 0)


@escape(FILTER, FILTER)
def remove_what_covers_a_folder(world: World) -> None:
    held_unless(_libc.umount2(os.fsencode(f"{world['home']}/.ssh"), 2) == 0)


@escape(FILTER, FILTER)
def copy_a_mount(_world: World) -> None:
    syscall(428, 428, -100, b"/", 1)


@escape(FILTER, FILTER)
def change_the_attributes_of_a_mount(_world: World) -> None:
    nothing_set_read_only_cleared = struct.pack("QQQQ", 0, 1, 0, 0)
    syscall(442, 442, -100, b"/", 0x8000, nothing_set_read_only_cleared, ctypes.c_size_t(32))


@escape(FILTER, FILTER)
def open_a_new_filesystem(_world: World) -> None:
    syscall(430, 430, b"tmpfs", 0)


@escape(FILTER, FILTER)
def change_the_root(world: World) -> None:
    os.chroot(world["work"])


@escape(FILTER, FILTER)
def make_a_user_namespace(_world: World) -> None:
    held_unless(_libc.unshare(0x10000000) == 0, os.strerror(ctypes.get_errno()))


@escape(FILTER, FILTER)
def make_a_mount_namespace(_world: World) -> None:
    held_unless(_libc.unshare(0x00020000) == 0, os.strerror(ctypes.get_errno()))


@escape(FILTER, FILTER)
def start_a_process_in_a_user_namespace(_world: World) -> None:
    child = syscall(56, 220, ctypes.c_ulong(0x10000000 | signal.SIGCHLD), None, None, None, None)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


@escape(FILTER, FILTER)
def start_a_process_in_a_namespace_by_the_newer_call(_world: World) -> None:
    arguments = struct.pack("11Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    child = syscall(435, 435, arguments, ctypes.c_size_t(len(arguments)))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


@escape("other processes are not seen", FILTER)
def enter_the_namespaces_of_another_process(world: World) -> None:
    place = os.open(f"/proc/{world['victim']}/ns/mnt", os.O_RDONLY)
    syscall(308, 268, place, 0)


@escape(FILTER, FILTER)
def enter_the_namespaces_of_the_first_process(_world: World) -> None:
    place = os.open("/proc/self/ns/net", os.O_RDONLY)
    syscall(308, 268, place, 0)


@escape(FILTER, FILTER)
def open_a_file_by_its_handle(_world: World) -> None:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    syscall(303, 264, -100, b"/", handle, ctypes.byref(mount), 0)


# Devices and the kernel


@escape("no right to make devices", RULES)
def make_a_device(world: World) -> None:
    os.mknod(f"{world['work']}/memory", 0o600 | 0o020000, os.makedev(1, 1))
    with open(f"{world['work']}/memory", "rb") as memory:
        memory.read(1)


@escape("devices of the sandbox's own", NO_RULE)
def read_a_disk(_world: World) -> None:
    with open("/proc/partitions") as table:
        names = [line.split()[3] for line in table if line.strip() and line.split()[0].isdigit()]
    for name in names or ["sda"]:
        with open(f"/dev/{name}", "rb") as disk:
            disk.read(1)
        return


@escape("devices of the sandbox's own", NO_RULE)
def read_the_memory_of_the_machine(_world: World) -> None:
    with open("/dev/mem" if os.path.exists("/dev/mem") else "/dev/kmsg", "rb") as memory:
        memory.read(1)


@escape("terminals of the sandbox's own", NO_RULE)
def write_to_a_terminal_outside(world: World) -> None:
    with open(world["terminal"], "w") as terminal:
        held_unless(os.fstat(terminal.fileno()).st_rdev == world["terminal_device"], "another terminal")


@escape(FILTER, FILTER)
def type_into_a_terminal(_world: World) -> None:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, 0x5412, b"x")
    os.close(ours)


@escape(MOUNTS, RULES)
def change_a_setting_of_the_kernel(_world: World) -> None:
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))


@escape(MOUNTS, RULES)
def command_the_kernel(_world: World) -> None:
    os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))


@escape(MOUNTS, RULES)
def change_the_device_tree(_world: World) -> None:
    os.close(os.open("/sys/kernel/profiling", os.O_WRONLY))


@escape(FILTER, FILTER)
def use_io_uring(_world: World) -> None:
    syscall(425, 425, 4, ctypes.create_string_buffer(120))


@escape(FILTER, FILTER)
def load_a_program_into_the_kernel(_world: World) -> None:
    syscall(321, 280, 0, ctypes.create_string_buffer(72), ctypes.c_size_t(72))


@escape(FILTER, FILTER)
def measure_other_processes(_world: World) -> None:
    attributes = ctypes.create_string_buffer(struct.pack("II", 1, 112) + bytes(104))
    syscall(298, 241, attributes, 0, -1, -1, 0)


@escape(FILTER, FILTER)
def read_keys_of_the_kernel(_world: World) -> None:
    syscall(250, 219, 0, -3, 0)


@escape(FILTER, FILTER)
def handle_page_faults(_world: World) -> None:
    syscall(323, 282, 0)


@escape(FILTER, FILTER)
def call_the_kernel_by_numbers_of_another_width(_world: World) -> None:
    if not IS_X86:
        raise HeldError("this machine has none")
    syscall(0x40000000 + 39, 0)


# Other processes


@escape(FILTER, FILTER)
def trace_a_process(world: World) -> None:
    syscall(101, 117, 16, world["victim"], None, None)


@escape("other processes are not seen", RULES)
def open_the_memory_of_a_process(world: World) -> None:
    os.close(os.open(f"/proc/{world['victim']}/mem", os.O_RDONLY))


@escape("other processes are not seen", RULES)
def read_the_environment_of_a_process(world: World) -> None:
    with open(f"/proc/{world['victim']}/environ", "rb") as file:
        held_unless(b"SECRET" in file.read(), "it was empty")


@escape(FILTER, FILTER)
def copy_the_memory_of_a_process(world: World) -> None:
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("QQ", ctypes.addressof(buffer), 8)
    syscall(310, 270, world["victim"], local, 1, local, 1, 0)


@escape(FILTER, FILTER)
def take_a_descriptor_of_a_process(world: World) -> None:
    try:
        process = os.pidfd_open(world["victim"])
    except OSError:
        process = os.pidfd_open(os.getppid())
    syscall(438, 438, process, 1, 0)


@escape("other processes are not seen", RULES)
def kill_a_process_outside(world: World) -> None:
    os.kill(world["victim"], signal.SIGTERM)


@escape("nothing is inherited", "nothing is inherited")
def use_an_inherited_descriptor(_world: World) -> None:
    found = []
    for number in range(3, 1024):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.append(number)
    own = int(os.environ.get("RESULT_PIPE", "-1"))
    held_unless([number for number in found if number != own])


@escape("no_new_privs", "no_new_privs")
def become_another_by_a_setuid_program(_world: World) -> None:
    with open("/proc/self/status") as status:
        held_unless("NoNewPrivs:\t0" in status.read(), "no_new_privs")


@escape("rights are dropped", "rights are dropped")
def have_the_rights_of_an_administrator(_world: World) -> None:
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("CapEff"))
    files_only = sum(1 << right for right in (0, 1, 3, 4, 6, 7))
    held_unless(int(line.split()[1], 16) & ~files_only, "rights over files only")


@escape("a limit", "a limit")
def take_all_memory(_world: World) -> None:
    most, _ = resource.getrlimit(resource.RLIMIT_DATA)
    held_unless(most == resource.RLIM_INFINITY, "limited")
    bytearray(64 << 30)


@escape("a limit", "a limit")
def leave_an_image_of_the_memory(_world: World) -> None:
    held_unless(resource.getrlimit(resource.RLIMIT_CORE)[1] != 0, "limited")


# The network and sockets


def connected(family: int, address: object, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> None:
    with socket.socket(family, kind, protocol) as one:
        one.settimeout(2)
        one.connect(address)  # type: ignore[arg-type]


NO_ROUTE, NO_SOCKET = "a network of its own", "seccomp: no such socket"


@escape(NO_ROUTE, NO_SOCKET)
def connect_by_tcp(world: World) -> None:
    connected(socket.AF_INET, ("127.0.0.1", world["tcp"]))


@escape(NO_ROUTE, NO_SOCKET)
def connect_by_tcp_over_ipv6(world: World) -> None:
    connected(socket.AF_INET6, ("::1", world["tcp6"]))


@escape(NO_ROUTE, NO_SOCKET)
def connect_to_the_machine_by_its_own_address(world: World) -> None:
    connected(socket.AF_INET, (world["address"], world["tcp"]))


@escape(NO_ROUTE, NO_SOCKET)
def send_by_udp(world: World) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(1)
        one.sendto(b"escaped", ("127.0.0.1", world["udp"]))
        held_unless(one.recv(10), "no answer")


@escape(NO_ROUTE, NO_SOCKET)
def send_by_udp_over_ipv6(world: World) -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
        one.settimeout(1)
        one.sendto(b"escaped", ("::1", world["udp6"]))
        held_unless(one.recv(10), "no answer")


@escape(NO_ROUTE, NO_SOCKET)
def send_by_udp_to_another_machine(_world: World) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"escaped", ("192.0.2.1", 53))


@escape(NO_ROUTE, NO_SOCKET)
def look_up_a_name(_world: World) -> None:
    socket.getaddrinfo("example.org", 443)


@escape(NO_ROUTE, NO_SOCKET)
def ask_a_name_server(_world: World) -> None:
    question = (
        b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06secret\x07example\x03org\x00\x00\x01\x00\x01"
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(question, ("192.0.2.53", 53))


@escape(FILTER, NO_SOCKET)
def send_raw_packets(_world: World) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW):
        pass


@escape(NO_ROUTE, NO_SOCKET)
def send_a_ping(_world: World) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as one:
        one.sendto(b"\x08\x00\xf7\xff\x00\x00\x00\x00", ("192.0.2.1", 0))


@escape(FILTER, FILTER)
def reach_the_host_of_a_virtual_machine(_world: World) -> None:
    with socket.socket(40, socket.SOCK_STREAM):
        pass


@escape(FILTER, FILTER)
def use_the_cipher_of_the_kernel(_world: World) -> None:
    with socket.socket(38, socket.SOCK_SEQPACKET):
        pass


@escape(FILTER, FILTER)
def listen_to_events_of_devices(_world: World) -> None:
    with socket.socket(16, socket.SOCK_RAW, 15):
        pass


@escape(NO_ROUTE, NO_SOCKET)
def connect_by_multipath_tcp(world: World) -> None:
    connected(socket.AF_INET, ("127.0.0.1", world["tcp"]), protocol=262)


@escape(NO_ROUTE, NO_SOCKET)
def connect_while_sending(world: World) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.sendto(b"escaped", 0x20000000, ("127.0.0.1", world["tcp"]))


@escape(NO_ROUTE, "seccomp: no Unix socket")
def connect_to_an_abstract_socket(world: World) -> None:
    connected(socket.AF_UNIX, f"\0{world['abstract']}")


@escape("an empty file lies over it", "seccomp: no Unix socket")
def connect_to_the_socket_of_docker(world: World) -> None:
    connected(socket.AF_UNIX, world["docker"])


@escape(COVERED, "seccomp: no Unix socket")
def connect_to_the_bus_of_the_desktop(world: World) -> None:
    connected(socket.AF_UNIX, world["bus"])


@escape("the folder is the sandbox's own", "seccomp: no Unix socket")
def connect_to_the_agent_of_ssh(world: World) -> None:
    connected(socket.AF_UNIX, world["agent"])


@escape("an empty file lies over it", "seccomp: no Unix socket")
def connect_to_a_socket_in_the_workspace(world: World) -> None:
    connected(socket.AF_UNIX, world["work_socket"])


@escape("an empty file lies over it", "seccomp: no Unix socket")
def send_to_the_log_of_the_system(world: World) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.sendto(b"escaped", world["log"])


@escape("an empty file lies over it", "seccomp: no pair of datagram sockets")
def turn_a_pair_of_sockets_elsewhere(world: World) -> None:
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    first.sendto(b"escaped", world["log"])
    second.close()


# What would run later, outside


@escape(MOUNTS, "taken away afterwards")
def leave_a_git_hook(world: World) -> None:
    write(f"{world['work']}/.git/hooks/post-commit", "#!/bin/sh\nevil\n")
    os.chmod(f"{world['work']}/.git/hooks/post-commit", 0o755)
    raise HeldError("see what is left of it")


@escape("taken away afterwards", "taken away afterwards")
def leave_a_setting_of_git(world: World) -> None:
    command = ["git", "-C", world["work"], "config", "core.fsmonitor", "evil"]
    subprocess.run(command, check=True, capture_output=True)
    raise HeldError("see what is left of it")


@escape(MOUNTS, "")
def change_the_servers_of_the_project(world: World) -> None:
    write(f"{world['work']}/.mcp.json", '{"mcpServers": {}}')


@escape("the first process of the namespace takes all others along", "")
def outlive_the_command(world: World) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)
            for _ in range(100):  # where nothing ends it, it ends by itself
                with open(f"{world['work']}/outlived", "a") as file:
                    file.write("x")
                time.sleep(0.05)
            os._exit(0)
        os._exit(0)
    raise HeldError("see whether it works on")


LEFT_BEHIND = frozenset({"leave_a_git_hook", "leave_a_setting_of_git", "outlive_the_command"})
"""Whether they escaped is seen from outside, after the command."""


def try_one(name: str, world: World) -> str:
    """In a process of its own: what one has changed is not there for the next."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.environ["RESULT_PIPE"] = str(writing)
        try:
            ESCAPES[name].attempt(world)
            told = "escaped"
        except BaseException as error:
            told = f"held: {type(error).__name__}: {error}"
        os.write(writing, told.encode()[:500])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        told = file.read()
    os.waitpid(child, 0)
    return told or "held: it died"


def main() -> None:
    world = json.loads(sys.argv[1])
    only = sys.argv[2:] or list(ESCAPES)
    print(json.dumps({name: try_one(name, world) for name in only}))


if __name__ == "__main__":
    main()
