"""Commands in the sandbox: what they can do, what they are told, and what the user can allow."""

from __future__ import annotations

import asyncio
import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from segue.conversation.blocks import ToolCall, ToolResult
from segue.events import Decision
from segue.system.child_process import child_environment
from segue.tools.approval import Approval
from segue.tools.builtin import builtin_tools
from segue.tools.definition import Tool
from segue.tools.execution import run_tool
from segue.tools.read_only_commands import only_reads
from segue.tools.sandbox.mechanisms import Mechanism, candidates, mechanism_here, trial
from segue.tools.sandbox.policy import Grant, make_policy
from segue.tools.sandbox.refusals import Blocked
from segue.tools.sandbox.sandbox import Sandbox
from tools.sandbox.lasting_folders import lasting_folder

HERE = mechanism_here()

pytestmark = [
    pytest.mark.skipif(not HERE.holds, reason=f"no sandbox works here: {HERE.why}"),
    pytest.mark.timeout(120),
]
ADDRESS = "127.0.0.2"
"""Of this machine, and not the one that every program takes for itself: inside, that is the sandbox's own."""
NOTHING = Mechanism(name="none", why="it is not there")


@pytest.fixture
def base() -> Iterator[Path]:
    """Not in a temporary folder: of these the sandbox has its own."""
    made = lasting_folder()
    (made / "work").mkdir()
    (made / "outside").mkdir()
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def sandbox(base: Path) -> Sandbox:
    return Sandbox(base / "work")


def shell_of(sandbox: Sandbox) -> Tool:
    tools = builtin_tools(sandbox.workspace, outputs=sandbox.workspace / "outputs", sandbox=sandbox)
    return next(tool for tool in tools if tool.name == "run_shell")


def run(sandbox: Sandbox, command: str, seconds: float = 60) -> str:
    result: ToolResult = asyncio.run(run_tool(shell_of(sandbox), {"command": command, "seconds": seconds}))
    return str(result.output or result.error)


def test_a_command_writes_in_the_workspace_and_in_temporary_folders(sandbox: Sandbox) -> None:
    printed = run(sandbox, 'echo a > a; cat a; echo b > "$TMPDIR/b"; pwd; exit 3')
    assert printed == f"a\n{sandbox.workspace}\n(exit code 3)"
    assert (sandbox.workspace / "a").read_text() == "a\n"
    assert run(sandbox, 'cat "$TMPDIR/b"') == "b\n", "the next command finds it there"
    assert not (Path(tempfile.gettempdir()) / "b").exists()


def test_what_was_blocked_is_reported_with_its_path(sandbox: Sandbox, base: Path) -> None:
    printed = run(sandbox, f"echo x > {base}/outside/x")
    assert f"The sandbox did not let it:\n- write {base}/outside/x\n" in printed
    assert not (base / "outside" / "x").exists()
    printed = run(sandbox, "touch ../outside/y; exit 4")
    assert f"- write {base}/outside/y\n" in printed


def test_the_exit_of_a_command_is_its_own(sandbox: Sandbox) -> None:
    assert run(sandbox, "kill -9 $$") == "(exit code -9)"
    assert run(sandbox, "true") == "(exit code 0)"
    assert "ended after 0.5 seconds" in run(sandbox, "echo begun; sleep 60", 0.5)


def test_a_command_that_is_asked_to_end_can_clean_up(sandbox: Sandbox) -> None:
    run(sandbox, "trap 'echo gone > gone; exit' TERM; echo up > up; while :; do sleep 0.05; done", 2)
    assert (sandbox.workspace / "gone").exists() or not (sandbox.workspace / "up").exists()


def test_what_a_command_leaves_running_ends_with_it(sandbox: Sandbox) -> None:
    run(sandbox, "(while :; do echo x >> beats; sleep 0.02; done) & sleep 0.3")
    beats = sandbox.workspace / "beats"
    time.sleep(0.2)
    size = beats.stat().st_size
    time.sleep(0.4)
    assert beats.stat().st_size == size


def test_new_files_that_other_programs_obey_are_set_aside(sandbox: Sandbox, base: Path) -> None:
    printed = run(
        sandbox,
        "mkdir .vscode && echo '{}' > .vscode/tasks.json && echo 'evil' > .envrc"
        " && ln -s ../outside .idea && echo x > kept",
    )
    for name in (".vscode", ".envrc", ".idea"):
        assert f"a file that other programs obey: {name} " in printed
        assert not os.path.lexists(sandbox.workspace / name)
        assert os.path.lexists(sandbox.workspace / f"{name}.stopped-by-segue")
    assert (sandbox.workspace / "kept").exists()
    sandbox.granted = sandbox.granted.plus(Grant((str(sandbox.workspace / ".vscode"),)))
    assert run(sandbox, "mkdir .vscode") == "(exit code 0)"
    assert (sandbox.workspace / ".vscode").is_dir()
    assert run(sandbox, "touch .vscode/tasks.json") == "(exit code 0)", "it is there now, and still allowed"
    (sandbox.workspace / ".husky").mkdir()
    assert "write" in run(sandbox, "touch .husky/pre-commit || exit 1")
    assert (sandbox.workspace / ".husky").is_dir(), "what the user has made stays"


class Answers:
    """Answers what may be allowed, and notes what was asked."""

    def __init__(self, *answers: Decision) -> None:
        self.answers = list(answers)
        self.asked: list[Blocked] = []

    async def __call__(self, _call: ToolCall, blocked: Blocked) -> Decision:
        self.asked.append(blocked)
        return self.answers.pop(0)


def test_the_user_allows_what_was_blocked_once_or_for_the_session(sandbox: Sandbox, base: Path) -> None:
    sandbox.ask = answers = Answers("no", "once", "always")
    command = f"echo x >> {base}/outside/x"
    assert "did not let it" in run(sandbox, command)
    assert run(sandbox, command) == "(exit code 0)"
    assert (base / "outside" / "x").read_text() == "x\n"
    assert run(sandbox, command) == "(exit code 0)"
    assert run(sandbox, command) == "(exit code 0)", "the third answer was for the session"
    assert [blocked.writes for blocked in answers.asked] == [
        (f"{base}/outside/x",),
        (f"{base}/outside/x",),
        (f"{base}/outside/x",),
    ]


def test_a_command_that_only_looks_writes_nothing_and_needs_no_question(sandbox: Sandbox) -> None:
    tool = shell_of(sandbox)

    def refusal(command: str, approval: Approval) -> str:
        return asyncio.run(approval.refusal(ToolCall("c", "run_shell", {"command": command}), tool))

    assert refusal("git log -3 | head -5", Approval()) == ""
    assert refusal("make", Approval()) != ""
    assert refusal("git log -3", Approval("plan")) != ""
    assert refusal("git log -3", Approval(deny=["run_shell(git *)"])) != ""
    sandbox.mode = "off"
    assert refusal("git log -3 | head -5", Approval()) != ""
    sandbox.mode = "workspace"
    # Whatever the list of such commands does not know: this one is on it, and would write.
    (sandbox.workspace / "a").write_text("x\n")
    assert only_reads("uniq a ./b")
    assert "did not let it" in run(sandbox, "uniq a ./b")
    assert not (sandbox.workspace / "b").exists()
    padded = "uniq a ./b" + " " * 5_000
    assert refusal(padded, Approval()) == ""
    assert "did not let it" in run(sandbox, padded), "what needs no question is held, however it is written"
    assert not (sandbox.workspace / "b").exists()
    assert run(sandbox, "uniq a ./b; true; touch c") == "(exit code 0)"
    assert (sandbox.workspace / "b").exists(), "as part of another command it may"


def test_a_command_that_only_looks_gets_no_more_than_was_allowed_for_it(sandbox: Sandbox, base: Path) -> None:
    sandbox.granted = Grant((f"{base}/outside",), (f"{base}/outside",), ("example.org",))
    looks = sandbox.policy(read_only=True)
    assert (looks.writable, looks.hosts) == ((), ()), "what was allowed for the session is for others"
    more = sandbox.policy(read_only=True, more=Grant(hosts=("example.com",)))
    assert (more.writable, more.hosts) == ((), ("example.com",))
    sandbox.granted = Grant()
    (sandbox.workspace / "a").write_text("x\n")
    sandbox.ask = Answers("once")
    assert run(sandbox, f"uniq a {base}/outside/x") == "(exit code 0)"
    assert (base / "outside" / "x").exists(), "what was allowed for this one it gets"


def test_programs_of_one_chat_start_at_once_in_a_workspace_that_is_temporary(tmp_path: Path) -> None:
    """As its servers do: they share the folder in which each makes the places that it needs."""
    if not any(str(tmp_path).startswith(place) for place in ("/tmp/", "/var/tmp/")):
        pytest.skip("the tests have no folder below a temporary one")
    workspace, shown = tmp_path / "work", [tmp_path / f"shown {number}" for number in range(60)]
    for folder in (workspace, *shown):
        folder.mkdir()
    for _ in range(3):
        shared = Sandbox(workspace, grant=Grant(readable=tuple(map(str, shown))))
        words = HERE.command(shared.policy(), ["true"])
        started = [subprocess.Popen(words, stderr=subprocess.PIPE, env=child_environment()) for _ in range(4)]
        assert [(program.communicate()[1], program.returncode) for program in started] == [(b"", 0)] * 4


@pytest.mark.parametrize("mechanism", candidates(), ids=lambda one: one.name)
def test_one_file_of_a_hidden_folder_can_be_shown(mechanism: Mechanism, base: Path) -> None:
    if why := trial(mechanism):
        pytest.skip(f"{mechanism.name} does not work here: {why}")
    keys, temporary = base / "outside" / ".ssh", base / "temporary"
    keys.mkdir()
    temporary.mkdir()
    (keys / "known_hosts").write_text("example.org")
    (keys / "id_ed25519").write_text("my key")
    shown = Grant(readable=(str(keys / "known_hosts"),))
    policy = make_policy("workspace", base / "work", temporary, home=base / "outside", grant=shown)
    words = mechanism.command(policy, ["sh", "-c", f"cat {keys}/known_hosts; cat {keys}/id_ed25519"])
    ran = subprocess.run(words, capture_output=True, text=True, env=child_environment(), check=False)
    assert ran.stdout == "example.org"
    assert "my key" not in ran.stderr
    assert "segue sandbox" not in ran.stderr
    assert ran.returncode != 0


def test_in_read_only_mode_nothing_is_written(base: Path) -> None:
    sandbox = Sandbox(base / "work", "read-only")
    assert "did not let it" in run(sandbox, "echo a > ./a")
    assert run(sandbox, 'echo a > "$TMPDIR/a" && cat "$TMPDIR/a"') == "a\n"
    assert not (base / "work" / "a").exists()


def test_where_nothing_works_every_command_is_asked_about(base: Path) -> None:
    sandbox = Sandbox(base / "work", mechanism=NOTHING)
    tool = shell_of(sandbox)

    def allowed(command: str, approval: Approval) -> bool:
        return asyncio.run(approval.refusal(ToolCall("c", "run_shell", {"command": command}), tool)) == ""

    assert sandbox.is_missing
    assert not allowed("ls", Approval(allow=["run_shell(ls *)", "run_shell"]))
    assert allowed("ls", Approval(allow=["run_shell(ls)"]))
    sandbox.mode = "off"
    assert allowed("ls -l", Approval(allow=["run_shell(ls *)"]))
    assert "every command is asked about" in Sandbox(base, mechanism=NOTHING).summary()
    assert "unasked" in Sandbox(base, mechanism=NOTHING).summary(asks=False)


class Index(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Not in the output of the tests."""


@pytest.fixture
def serve() -> Iterator[Callable[[Path], int]]:
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(folder: Path) -> int:
        server = http.server.ThreadingHTTPServer((ADDRESS, 0), partial(Index, directory=str(folder)))
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return int(server.server_address[1])

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


FETCH = """import sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())
except Exception as error:
    sys.exit(str(error))
"""


@pytest.mark.skipif(not HERE.limits_hosts, reason="hosts cannot be told apart here")
def test_one_host_is_allowed_and_no_other(sandbox: Sandbox, base: Path, serve: Callable[[Path], int]) -> None:
    (base / "outside" / "page").write_text("hello")
    (base / "work" / "fetch.py").write_text(FETCH)
    port, other = serve(base / "outside"), serve(base / "outside")
    fetch = f"{sys.executable} -I fetch.py http://{ADDRESS}:"
    sandbox.ask = answers = Answers("no", "once", "no")
    assert "did not let it" in run(sandbox, f"{fetch}{port}/page")
    assert run(sandbox, f"{fetch}{port}/page") == "hello\n", "allowed once"
    assert "did not let it" in run(sandbox, f"{fetch}{port}/page")
    sandbox.ask = None
    sandbox.granted = Grant(hosts=(f"{ADDRESS}:{port}",))
    assert run(sandbox, f"{fetch}{port}/page") == "hello\n"
    assert f"- connect to {ADDRESS}:{other}" in run(sandbox, f"{fetch}{other}/page")
    if HERE.has_own_network:
        assert [blocked.hosts for blocked in answers.asked] == [(f"{ADDRESS}:{port}",)] * 3


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, check=True, env=child_environment()
    )
    return done.stdout.decode()


WHO = "-c user.name=A -c user.email=a@example.org"


def test_git_works_and_leaves_no_program_behind(sandbox: Sandbox) -> None:
    work = sandbox.workspace
    assert "exit code" not in run(
        sandbox, "git init -b main && git config user.name A && git config user.email a@b.c"
    )
    printed = run(
        sandbox, "echo a > a && git add a && git commit -m one && git checkout -b two && git log --oneline"
    )
    assert "exit code" not in printed, printed
    assert git(work, "log", "--format=%s %an") == "one A\n"
    printed = run(
        sandbox, "printf '#!/bin/sh\\ntouch ran\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"
    )
    assert not (work / ".git" / "hooks" / "pre-commit").exists()
    assert "did not let it" in printed
    printed = run(sandbox, "git config core.hooksPath evil; git config alias.st '!touch ran'; git status")
    assert "settings of git that run programs: " in printed
    assert "core.hookspath" in printed.lower()
    assert "hooksPath" not in (work / ".git" / "config").read_text()
    assert "user" in (work / ".git" / "config").read_text()


def test_a_work_tree_commits_into_its_repository_and_a_forged_one_opens_nothing(
    sandbox: Sandbox, base: Path
) -> None:
    main = base / "outside" / "main"
    git(base, "init", "-q", "-b", "main", str(main))
    git(main, *WHO.split(), "commit", "-q", "--allow-empty", "-m", "first")
    shutil.rmtree(base / "work")
    git(main, "worktree", "add", "-q", str(base / "work"))
    printed = run(
        sandbox, f"echo a > a && git add a && git {WHO} commit -qm second && git log --oneline | wc -l"
    )
    assert printed.strip().endswith("2"), printed
    forged = base / "forged"
    forged.mkdir()
    (forged / ".git").write_text(f"gitdir: {base}/outside\n")
    (base / "outside" / "HEAD").write_text("ref: refs/heads/main")
    (base / "outside" / "objects").mkdir()
    assert "did not let it" in run(Sandbox(forged), f"echo x > {base}/outside/x")


PROJECT = """[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "shop"
version = "1"
"""
BACKEND = """import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "shop-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.write("shop.py")
        wheel.writestr("shop-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: shop\\nVersion: 1\\n")
        wheel.writestr("shop-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("shop-1.dist-info/RECORD", "")
    return name
"""


@pytest.mark.skipif(not HERE.limits_hosts, reason="hosts cannot be told apart here")
def test_a_day_of_work_runs_inside(sandbox: Sandbox, base: Path, serve: Callable[[Path], int]) -> None:
    """Version control, tests, a build, and packages from an index whose host is allowed."""
    work = sandbox.workspace
    (work / "shop.py").write_text("def price() -> int:\n    return 3\n")
    (work / "test_shop.py").write_text(
        "from shop import price\n\n\ndef test_price():\n    assert price() == 3\n"
    )
    (work / "pyproject.toml").write_text(PROJECT)
    (work / "backend.py").write_text(BACKEND)
    index = base / "outside" / "simple"
    (index / "shop").mkdir(parents=True)
    port = serve(base / "outside")
    sandbox.granted = Grant(hosts=(f"{ADDRESS}:{port}",))
    python = sys.executable
    steps = {
        "git init -q -b main && git add -A && git status -s": "A  shop.py",
        f"git {WHO} commit -qm 'The shop' && git log --oneline": "The shop",
        f"{python} -m pytest -q -p no:cacheprovider -p no:randomly -n 0 test_shop.py": "1 passed",
        f"{python} -m compileall -q shop.py && ls __pycache__": "shop.",
        f"{python} -m pip wheel -q --no-deps --no-build-isolation -w dist . 2>&1; ls dist": "shop-1-py3",
        "mkdir -p a/b && mv shop.py a/b && ln -s a/b/shop.py shop.py && cat shop.py": "return 3",
        "printf 'all:\\n\\techo made\\n' > Makefile; make || echo no make here": "m",
    }
    for command, expected in steps.items():
        printed = run(sandbox, command)
        assert expected in printed, printed
        assert "The sandbox did not let it" not in printed, printed
    wheel = next((work / "dist").glob("shop-1*.whl"))
    shutil.copy(wheel, index / "shop" / wheel.name)
    (index / "shop" / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    install = f"{python} -m pip install -q --isolated --no-deps --index-url http://{ADDRESS}:{port}/simple --target site shop"
    printed = run(sandbox, f"{install} 2>&1 && ls site")
    assert "shop.py" in printed, printed
    sandbox.granted = Grant()
    printed = run(sandbox, f"{install}2 --retries 0 2>&1")
    assert f"- connect to {ADDRESS}:{port}" in printed, printed


def registry(folder: Path, port: int) -> None:
    """One package, as npm asks for it."""
    import base64
    import hashlib
    import io
    import json
    import tarfile

    packed = io.BytesIO()
    manifest = {"name": "tiny", "version": "1.0.0", "main": "index.js"}
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in (("package.json", json.dumps(manifest)), ("index.js", "module.exports = 7\n")):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    data = packed.getvalue()
    (folder / "tiny-1.0.0.tgz").write_bytes(data)
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    dist = {"tarball": f"http://{ADDRESS}:{port}/tiny-1.0.0.tgz", "integrity": integrity}
    listing: dict[str, Any] = {
        "name": "tiny",
        "dist-tags": {"latest": "1.0.0"},
        "versions": {"1.0.0": {**manifest, "dist": dist}},
    }
    (folder / "tiny").write_text(json.dumps(listing))


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
@pytest.mark.skipif(not HERE.limits_hosts, reason="hosts cannot be told apart here")
def test_npm_installs_from_a_registry_that_is_allowed(
    sandbox: Sandbox, base: Path, serve: Callable[[Path], int]
) -> None:
    port = serve(base / "outside")
    registry(base / "outside", port)
    (sandbox.workspace / "package.json").write_text('{"name": "app", "version": "1.0.0"}')
    install = f"npm install --no-audit --no-fund --registry http://{ADDRESS}:{port}/ tiny"
    assert f"{ADDRESS}:{port}" in run(sandbox, f"{install} --fetch-retries 0 2>&1 || exit 1")
    sandbox.granted = Grant(hosts=(f"{ADDRESS}:{port}",))
    printed = run(sandbox, f"{install} 2>&1 && node -p \"require('tiny')\"")
    assert printed.strip().endswith("7"), printed
