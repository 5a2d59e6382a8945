"""The parts that hold a command, each by itself: rules, filters, profiles, the proxy, and what is read out of an output."""

from __future__ import annotations

import asyncio
import errno
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.system.child_process import child_environment
from segue.tools.sandbox.git_places import GitGuard, git_places
from segue.tools.sandbox.landlock import parts_around
from segue.tools.sandbox.mechanisms import Mechanism, seatbelt_profile
from segue.tools.sandbox.network_proxy import NetworkProxy, allows_host
from segue.tools.sandbox.policy import OWN_PROGRAMS, Grant, SandboxPolicy, make_policy
from segue.tools.sandbox.refusals import Blocked, find_blocked
from segue.tools.sandbox.sandbox import grant_for, grant_of_words
from segue.tools.sandbox.seccomp import program

ALLOWED = 0x7FFF0000
NUMBERS = {
    "x86_64": {
        "socket": 41,
        "socketpair": 53,
        "clone": 56,
        "clone3": 435,
        "ptrace": 101,
        "ioctl": 16,
        "read": 0,
    },
    "aarch64": {
        "socket": 198,
        "socketpair": 199,
        "clone": 220,
        "clone3": 435,
        "ptrace": 117,
        "ioctl": 29,
        "read": 63,
    },
}
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def verdict(filter_: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the kernel would answer: 0 for yes, else the error."""
    data = struct.pack("IIQ6Q", number, architecture, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    instructions = list(struct.iter_unpack("HBBI", filter_))
    place = accumulator = 0
    while True:
        code, if_true, if_false, value = instructions[place]
        place += 1
        match code:
            case 0x20:
                accumulator = struct.unpack_from("I", data, value)[0]
            case 0x54:
                accumulator &= value
            case 0x06:
                return 0 if value == ALLOWED else value & 0xFFFF
            case 0x15 | 0x35 | 0x45:
                true = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: accumulator & value}[
                    code
                ]
                place += if_true if true else if_false
            case _:
                raise AssertionError(f"the kernel knows no instruction {code:#x}")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_decides_alike_on_every_machine(machine: str) -> None:
    numbers, architecture = NUMBERS[machine], ARCHITECTURES[machine]

    def judged(network: str, name: str, *arguments: int, unix: bool = True) -> int:
        return verdict(
            program(machine, network=network, unix_sockets=unix), architecture, numbers[name], *arguments
        )

    assert judged("none", "read") == 0
    assert judged("none", "ptrace") == errno.EPERM
    assert judged("none", "clone3") == errno.ENOSYS
    assert judged("none", "clone", 0x01200011) == 0
    assert judged("none", "clone", 0x10000011) == errno.EPERM
    assert judged("none", "ioctl", 0, 0x5412) == errno.EPERM
    assert judged("none", "ioctl", 0, 0x5401) == 0
    for family in (2, 10):
        assert judged("none", "socket", family, 1) == errno.EACCES
        assert judged("open", "socket", family, 2) == 0
        assert judged("tcp", "socket", family, 1 | 0x80000, 0) == 0
        assert judged("tcp", "socket", family, 1, 6) == 0
        assert judged("tcp", "socket", family, 1, 262) == errno.EACCES
        assert judged("tcp", "socket", family, 2, 0) == errno.EACCES
    assert judged("none", "socket", 1, 1) == 0
    assert judged("none", "socket", 1, 1, unix=False) == errno.EACCES
    assert judged("none", "socketpair", 1, 1, unix=False) == 0
    assert judged("none", "socketpair", 1, 2, unix=False) == errno.EACCES
    assert judged("open", "socket", 16, 3, 0) == 0
    assert judged("open", "socket", 16, 3, 15) == errno.EACCES
    for family in (17, 38, 40, 44):
        assert judged("open", "socket", family, 1) == errno.EAFNOSUPPORT
    other = ARCHITECTURES["aarch64" if machine == "x86_64" else "x86_64"]
    assert verdict(program(machine, network="open", unix_sockets=True), other, numbers["read"]) == errno.EPERM


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a/b/secret", "a/c/d", "e/f", "g"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a" / "file").write_text("")
    (tmp_path / "e" / "link").symlink_to(tmp_path / "a" / "b")
    return tmp_path


def test_the_parts_around_a_hidden_place_hold_everything_else(tree: Path) -> None:
    found = parts_around([str(tree / "a" / "b" / "secret")], str(tree))
    assert sorted(found) == sorted(str(tree / name) for name in ("a/c", "a/file", "e", "g"))
    found = parts_around([str(tree / "a" / "b"), str(tree / "e" / "f")], str(tree))
    assert sorted(found) == sorted(str(tree / name) for name in ("a/c", "a/file", "g"))


def test_the_policy_of_a_workspace(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "home" / "work"
    for name in ("work/.segue", ".ssh", ".npm", ".local/share/segue/outputs", "docs"):
        (home / name).mkdir(parents=True)
    (home / ".netrc").write_text("")
    outputs = str(home / ".local/share/segue/outputs")
    policy = make_policy("workspace", work, tmp_path / "t", home=home, grant=Grant(readable=(outputs,)))
    assert policy.writable == (str(work),)
    assert policy.protected == (str(work / ".segue"),)
    assert {str(work / ".vscode"), str(work / ".envrc"), str(work / ".claude")} <= set(policy.absent)
    assert not policy.may_write(str(work / ".vscode" / "tasks.json"))
    assert make_policy("read-only", work, tmp_path, home=home).absent == ()
    assert {str(home / ".ssh"), str(home / ".netrc"), str(home / ".local/share/segue")} <= set(policy.hidden)
    assert [path for path in policy.readable if path not in OWN_PROGRAMS] == [outputs]
    assert policy.hides(str(home / ".ssh" / "key"))
    assert not policy.hides(f"{outputs}/x")
    assert policy.may_write(str(work / "a"))
    assert not policy.may_write(str(work / ".segue" / "config.toml"))
    assert not policy.may_write(str(home / "docs" / "a"))
    assert make_policy("read-only", work, tmp_path, home=home).writable == ()
    assert str(home / ".npm") in make_policy("workspace", work, tmp_path, home=home, caches=True).writable
    wide = make_policy("workspace", work, tmp_path, home=home, grant=Grant((str(home),)))
    assert not wide.may_write(str(work / ".segue" / "a")), "a folder around it does not allow it"
    named = make_policy("workspace", work, tmp_path, home=home, grant=Grant((str(work / ".segue"),)))
    assert named.may_write(str(work / ".segue" / "a"))
    asked = make_policy("workspace", work, tmp_path, home=home, grant=Grant((str(work / ".vscode"),)))
    assert str(work / ".vscode") not in asked.absent, "also what is not there can be allowed"
    in_home = make_policy("workspace", home, tmp_path, home=home)
    assert in_home.hides(str(home / ".ssh" / "key")), "also where the home itself is the workspace"


@pytest.mark.parametrize(
    "name",
    [
        *(
            ".ssh/id_ed25519",
            ".gnupg/secring.gpg",
            ".aws/credentials",
            ".config/gcloud/tokens",
            ".kube/config",
        ),
        *(".mozilla/firefox/p/logins.json", ".librewolf/p/cookies", ".config/chromium/Default/Cookies"),
        *("Maildir/new/1", ".thunderbird/p/Mail", ".local/share/evolution/mail", ".config/neomutt/accounts"),
        *(".password-store/bank.gpg", ".config/keepassxc/keepassxc.ini", ".config/Bitwarden/data.json"),
        *(
            ".local/share/keyrings/login.keyring",
            ".config/Signal/config.json",
            ".bash_history",
            ".claude.json",
        ),
    ],
)
def test_keys_mail_browsers_and_passwords_of_the_user_are_not_seen(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    (home / name).parent.mkdir(parents=True)
    (home / name).write_text("SECRET")
    for mode in ("workspace", "read-only"):
        assert make_policy(mode, home / "work", tmp_path / "t", home=home).hides(str(home / name))


def test_keys_that_were_moved_are_not_seen_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, moved = tmp_path / "home", tmp_path / "moved"
    for place in ("gnupg", "settings/gh", "data/keyrings", "k8s"):
        (moved / place).mkdir(parents=True)
    for file in ("k8s/one", "k8s/two", "google.json"):
        (moved / file).write_text("SECRET")
    home.mkdir()
    monkeypatch.setenv("GNUPGHOME", str(moved / "gnupg"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(moved / "settings"))
    monkeypatch.setenv("XDG_DATA_HOME", str(moved / "data"))
    monkeypatch.setenv("KUBECONFIG", f"{moved}/k8s/one:{moved}/k8s/two")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(moved / "google.json"))
    monkeypatch.setenv("HISTFILE", "/dev/null")
    monkeypatch.setenv("CODEX_HOME", str(home))
    policy = make_policy("workspace", home, tmp_path / "t", home=home)
    for place in ("gnupg", "settings/gh", "data/keyrings", "k8s/one", "k8s/two", "google.json"):
        assert policy.hides(str(moved / place)), place
    assert str(home) not in policy.hidden, "a variable hides no home"
    assert not any(place.startswith("/dev/") for place in policy.hidden)


def test_the_python_that_runs_is_seen_wherever_it_is(tmp_path: Path) -> None:
    policy = make_policy("workspace", tmp_path, tmp_path / "t")
    assert not any(policy.hides(path) for path in OWN_PROGRAMS)


def test_a_profile_for_macos_allows_what_the_policy_allows() -> None:
    policy = SandboxPolicy(
        folder="/w",
        writable=("/w",),
        readable=("/h/.segue/outputs",),
        protected=("/w/.git/hooks",),
        hidden=("/h/.ssh", '/h/a "b"'),
        temporary="/t",
    )
    lines = seatbelt_profile(policy, 4711).splitlines()
    assert lines[:4] == ["(version 1)", "(allow default)", "(deny file-write*)", "(deny network*)"]
    order = [
        '(deny file-read* file-write* (subpath "/h/.ssh"))',
        '(deny file-read* file-write* (subpath "/h/a \\"b\\""))',
        '(allow file-read* (subpath "/h/.segue/outputs"))',
        '(allow file-write* (subpath "/w"))',
        '(deny file-write* (subpath "/w/.git/hooks"))',
        '(allow network-outbound (remote ip "localhost:4711"))',
    ]
    assert [line for line in lines if line in order] == order
    assert "(allow network*)" not in lines
    assert "(allow network*)" in seatbelt_profile(SandboxPolicy(folder="/w", hosts=("*",)))
    assert seatbelt_profile(policy, 1).count("(") == seatbelt_profile(policy, 1).count(")")
    words = Mechanism(name="seatbelt").command(policy, ("sh", "-c", "ls"), port=1)
    assert words[:2] == ("/usr/bin/sandbox-exec", "-p")
    assert words[-4:] == ("--", "sh", "-c", "ls")


@pytest.mark.parametrize(
    ("patterns", "host", "port", "allowed"),
    [
        (["example.org"], "example.org", 443, True),
        (["example.org"], "EXAMPLE.org.", 80, True),
        (["example.org"], "example.org", 22, False),
        (["example.org"], "evil.test", 443, False),
        (["example.org"], "example.org.evil.test", 443, False),
        (["*.example.org"], "a.example.org", 443, True),
        (["*.example.org"], "example.org", 443, False),
        (["example.org:8080"], "example.org", 8080, True),
        (["example.org:8080"], "example.org", 443, False),
        (["example.org:*"], "example.org", 22, True),
        (["[::1]:8080"], "::1", 8080, True),
        (["::1"], "::1", 443, True),
        ([], "example.org", 443, False),
    ],
)
def test_hosts_are_allowed_by_name_and_port(patterns: list[str], host: str, port: int, allowed: bool) -> None:
    assert allows_host(patterns, host, port) is allowed


async def ask_proxy(hosts: list[str], request: bytes) -> tuple[bytes, list[str]]:
    refused: list[str] = []
    proxy = NetworkProxy(hosts, refused.append)
    port = await proxy.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    await proxy.close()
    return answer, refused


@pytest.mark.parametrize(
    ("hosts", "request_", "status", "refused"),
    [
        ([], b"CONNECT example.org:443 HTTP/1.1\r\n\r\n", b"403", ["example.org"]),
        (["example.org"], b"CONNECT example.org:22 HTTP/1.1\r\n\r\n", b"403", ["example.org:22"]),
        ([], b"GET http://example.org:8080/a HTTP/1.1\r\n\r\n", b"403", ["example.org:8080"]),
        (["*"], b"GET http://me@example.org/ HTTP/1.1\r\n\r\n", b"400", []),
        (["*"], b"GET ftp://example.org/ HTTP/1.1\r\n\r\n", b"400", []),
        (["*"], b"CONNECT evil.test/.example.org:443 HTTP/1.1\r\n\r\n", b"400", []),
        (["*"], b"CONNECT example.org:99999 HTTP/1.1\r\n\r\n", b"400", []),
        (["*"], b"nonsense\r\n\r\n", b"400", []),
        (["*:*"], b"CONNECT ip6-localhost.localdomain:1 HTTP/1.1\r\n\r\n", b"50", []),
    ],
)
def test_the_proxy_refuses_and_says_what(
    hosts: list[str], request_: bytes, status: bytes, refused: list[str]
) -> None:
    answer, told = asyncio.run(ask_proxy(hosts, request_))
    assert answer.split(b" ")[1].startswith(status)
    assert told == refused


def test_an_allowed_name_that_leads_to_this_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from segue.tools.sandbox import network_proxy

    async def here(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    monkeypatch.setattr(network_proxy, "_addresses", here)
    answer, told = asyncio.run(ask_proxy(["example.org"], b"CONNECT example.org:443 HTTP/1.1\r\n\r\n"))
    assert b"403" in answer
    assert b"not on the public network" in answer
    assert told == ["example.org"]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "localhost"])
def test_a_pattern_for_every_host_does_not_mean_this_machine(host: str) -> None:
    answer, told = asyncio.run(ask_proxy(["*:*", "*:80"], f"CONNECT {host}:80 HTTP/1.1\r\n\r\n".encode()))
    assert b"403" in answer
    assert told == [host.strip("[]")]


@given(st.binary(max_size=200))
def test_whatever_a_command_sends_to_the_proxy_it_answers(data: bytes) -> None:
    answer, _ = asyncio.run(ask_proxy([], data + b"\r\n\r\n"))
    assert answer.startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize(
    ("output", "blocked"),
    [
        ("sh: 1: cannot create /etc/x: Permission denied", Blocked(writes=("/etc/x",))),
        ("touch: cannot touch '/etc/x': Read-only file system", Blocked(writes=("/etc/x",))),
        ("PermissionError: [Errno 13] Permission denied: '/etc/x'", Blocked(writes=("/etc/x",))),
        ("Error: EROFS: read-only file system, open '/etc/x'", Blocked(writes=("/etc/x",))),
        ("Error: EACCES: permission denied, open '/etc/x'", Blocked(writes=("/etc/x",))),
        ("mkdir: cannot create directory ‘/etc/x’: Permission denied", Blocked(writes=("/etc/x",))),
        ("cat: /home/me/secret: No such file or directory", Blocked()),
        ("/nowhere/at/all: Permission denied", Blocked()),
        ("/proc/1/mem: Permission denied", Blocked()),
        ("curl: (6) Could not resolve host: example.org", Blocked(hosts=("example.org",))),
        ("getaddrinfo EAI_AGAIN registry.npmjs.org", Blocked(hosts=("registry.npmjs.org",))),
        ("socket: Network is unreachable", Blocked(network=True)),
        ("unshare: unshare failed: Operation not permitted", Blocked(calls=("unshare",))),
        ("all is well", Blocked()),
    ],
)
def test_what_was_blocked_is_read_out_of_what_programs_print(output: str, blocked: Blocked) -> None:
    assert find_blocked(output, SandboxPolicy(folder="/usr"), [], []) == blocked


@given(st.text(max_size=500))
def test_any_output_can_be_searched(output: str) -> None:
    found = find_blocked(output, SandboxPolicy(folder="/usr"), [], [])
    assert found == Blocked() or found.lines()


def test_a_grant_is_for_what_was_blocked(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    blocked = Blocked(writes=(f"{tmp_path}/there", f"{tmp_path}/new"), reads=("/k",), hosts=("a.test",))
    assert grant_for(blocked) == Grant((f"{tmp_path}/there", str(tmp_path)), ("/k",), ("a.test",))
    assert grant_for(Blocked(network=True)).hosts == ("*",)
    assert grant_of_words(["pypi.org", "/opt/x"]) == Grant(("/opt/x",), ("/opt/x",), ("pypi.org",))


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Path]:
    git = tmp_path / ".git"
    (git / "hooks").mkdir(parents=True)
    (git / "config").write_text('[core]\n\tbare = false\n[remote "origin"]\n\turl = https://example.org/a\n')
    (git / "hooks" / "pre-push").write_text("mine")
    yield tmp_path


@pytest.mark.parametrize(
    ("more", "harmless"),
    [
        ("[user]\n\tname = A\n", True),
        ('[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n', True),
        ('[remote "b"]\n\turl = git@example.org:x/y.git\n\tfetch = +refs/heads/*:refs/remotes/b/*\n', True),
        ("[core]\n\tfsmonitor = evil\n", False),
        ("[core] hooksPath = evil\n", False),
        ("[Core]\n\tHooksPath=evil\n", False),
        ("[core]\n\tpager = evil\n", False),
        ("[alias]\n\tst = !evil\n", False),
        ('[filter "x"]\n\tclean = evil\n', False),
        ('[diff "x"]\n\ttextconv = evil\n', False),
        ("[diff]\n\texternal = evil\n", False),
        ('[remote "b"]\n\tuploadpack = evil\n', False),
        ("[include]\n\tpath = evil\n", False),
        ("[credential]\n\thelper = evil\n", False),
        ('[submodule "x"]\n\tupdate = !evil\n', False),
        ("[gpg]\n\tprogram = evil\n", False),
        ("[gc]\n\trecentObjectsHook = evil\n", False),
        ("[rebase]\n\tautoStash = true\n\tinstructionFormat = %s%nexec evil\n", False),
        ('[remote "b"]\n\turl = ./evil\n', False),
        ('[remote "b"]\n\turl = "ext::evil"\n', False),
        ('[remote "origin"]\n\tpushurl = file:///evil\n', False),
        ('[branch "main"]\n\tremote = ./evil\n', False),
        ('[branch "main"]\n\tpushRemote = evil\n', False),
        ("[core]\n# \\\n\tfsmonitor = evil\n", False),
        ("[core]\n\tabbrev = 7 # \\\n\tfsmonitor = evil\n", False),
        ("[user]\n\tname = A\\\\\n[core]\n\tfsmonitor = evil\n", False),
        ("[core]\n\tabbrev = 7 \\\n[status]\n\tfsmonitor = evil\n", False),
        ("[status] [core] fsmonitor = evil\n", False),
        ("[user]\n\tname = A \\\n B ; [core]\n", True),
        ("nonsense\n", False),
        ("[unknown]\n\tsetting = 1\n", False),
    ],
)
def test_settings_of_git_that_may_run_something_are_undone(
    repository: Path, more: str, harmless: bool
) -> None:
    guard, config = GitGuard(str(repository)), repository / ".git" / "config"
    before = config.read_text()
    config.write_text(before + more)
    undone = guard.enforce()
    assert (undone == []) is harmless
    assert config.read_text() == (before + more if harmless else before)


def test_new_and_changed_hooks_are_set_aside_and_old_ones_stay(repository: Path) -> None:
    hooks = repository / ".git" / "hooks"
    guard = GitGuard(str(repository))
    assert guard.enforce() == []
    (hooks / "post-commit").write_text("evil")
    (hooks / "post-merge").symlink_to("/bin/ls")
    (hooks / "a.sample").write_text("only an example")
    assert len(guard.enforce()) == 2
    assert not (hooks / "post-commit").exists()
    assert not (hooks / "post-merge").is_symlink()
    assert (hooks / "pre-push").read_text() == "mine"
    assert (hooks / "a.sample").exists()


HOSTILE = """[core]
\trepositoryformatversion = 0
\tfsmonitor = touch {ran};:
"""


def a_link_in_the_place_of_the_repository(work: Path) -> Path:
    (work / ".git").rename(work / "moved")
    (work / ".git").symlink_to("moved")
    return work / "moved" / "config"


def a_file_that_names_another_repository(work: Path) -> Path:
    (work / ".git").rename(work / "moved")
    (work / ".git").write_text("gitdir: moved\n")
    return work / "moved" / "config"


def another_folder_that_the_repository_shares(work: Path) -> Path:
    shutil.copytree(work / ".git", work / "shared")
    (work / ".git" / "commondir").write_text("../shared\n")
    return work / "shared" / "config"


def settings_of_a_work_tree(work: Path) -> Path:
    git(work, "config", "extensions.worktreeConfig", "true")
    return work / ".git" / "config.worktree"


def a_repository_within(work: Path) -> Path:
    git(work, "init", "-q", "sub")
    git(work / "sub", "commit", "-q", "--allow-empty", "-m", "one")
    git(work, "add", "sub")
    return work / "sub" / ".git" / "config"


def a_repository_within_and_a_compressed_index(work: Path) -> Path:
    config = a_repository_within(work)
    (work / "sue").write_text("")
    git(work, "add", "sue")
    git(work, "update-index", "--index-version", "4")
    return config


def a_bare_repository(work: Path) -> Path:
    for one in (work / ".git").iterdir():
        one.rename(work / one.name)
    (work / ".git").rmdir()
    return work / "config"


def git(work: Path, *words: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "advice.addEmbeddedRepo=false")
    subprocess.run(["git", *identity, *words], cwd=work, env=child_environment(), check=True, timeout=30)


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize(
    "leads",
    [
        a_link_in_the_place_of_the_repository,
        a_file_that_names_another_repository,
        another_folder_that_the_repository_shares,
        settings_of_a_work_tree,
        a_repository_within,
        a_repository_within_and_a_compressed_index,
        a_bare_repository,
    ],
)
def test_git_runs_nothing_wherever_it_was_led(
    tmp_path: Path, leads: Callable[[Path], Path], guarded: bool
) -> None:
    work, ran = tmp_path / "work", tmp_path / "ran"
    work.mkdir()
    git(work, "init", "-q")
    guard = GitGuard(str(work))
    config = leads(work)
    tree = "\tworktree = .\n" if config.parent == work else ""
    config.write_text(HOSTILE.format(ran=ran) + tree)
    assert not guarded or guard.enforce()
    subprocess.run(["git", "status"], cwd=work, env=child_environment(), check=False, capture_output=True)
    assert ran.exists() is not guarded


def test_a_repository_of_somebody_else_that_a_link_leads_to_is_left_alone(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (repository / ".git").rename(other / ".git")
    (other / ".git" / "config").write_text(HOSTILE)
    guard = GitGuard(str(repository))
    (repository / ".git").symlink_to(other / ".git")
    assert guard.enforce() == []
    assert (other / ".git" / "config").read_text() == HOSTILE
    assert (other / ".git" / "hooks" / "pre-push").exists()


def test_a_workspace_without_a_repository_has_no_places_of_git(tmp_path: Path) -> None:
    assert git_places(str(tmp_path)).folders == ()
    (tmp_path / ".git").write_text("gitdir: /etc\n")
    assert git_places(str(tmp_path)).folders == ()
