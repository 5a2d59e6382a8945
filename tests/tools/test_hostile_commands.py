"""Commands that look for keys, print them, or would outlive us."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from segue.conversation.blocks import ToolCall
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.system.child_process import child_environment
from segue.text import redaction
from segue.text.redaction import REDACTED, StreamRedaction, redact_environment, redact_known
from segue.tools.approval import Approval
from segue.tools.builtin import builtin_tools
from segue.tools.definition import Tool
from segue.tools.execution import run_tool
from segue.tools.mcp.config import HttpAddress, ServerConfig, StdioAddress
from segue.tools.mcp.connection import Connection
from segue.tools.mcp.stdio import server_environment
from segue.tools.sandbox.policy import SandboxMode

KEY = "gamma-ray-4711-telescope"


def shell_in(root: Path, sandbox: SandboxMode = "workspace") -> Tool:
    tools = builtin_tools(root, outputs=root / "outputs", max_characters=1_000, sandbox=sandbox)
    return next(tool for tool in tools if tool.name == "run_shell")


def test_a_child_gets_no_key_by_name_by_setting_or_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    ProviderConfig(api_key_env="MY_HARMLESS_NAME")
    Secret("a-value-known-from-a-file")
    monkeypatch.setenv("MY_HARMLESS_NAME", KEY)
    environment = {
        "MY_HARMLESS_NAME": KEY,
        "COPY_OF_IT": f"prefix {KEY} suffix",
        "FROM_FILE": "a-value-known-from-a-file",
        "OPENAI_API_KEY": "sk-000000000000",
        "PATH": "/bin",
    }
    assert redact_environment(environment) == {"PATH": "/bin"}
    assert child_environment(environment) == {"PATH": "/bin"}


def test_only_variables_of_a_list_reach_a_child() -> None:
    """No name tells whether a value is a secret."""
    environment = {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "http_proxy": "http://proxy.test:3128",
        "HTTPS_PROXY": "http://me:password@proxy.test:3128",
        "MYKEY": "12345678901234567890",
        "STRIPE_SK": "12345678901234567890",
        "SLACK_WEBHOOK": "https://hooks.slack.test/services/T0/B0/abc",
        "DATABASE_URL": "postgresql://me:password@db.test/shop",
        "SSH_AUTH_SOCK": "/run/agent",
        "DJANGO_SETTINGS_MODULE": "shop.settings",
    }
    assert child_environment(environment).keys() == {"PATH", "LC_ALL", "http_proxy"}
    named = child_environment(environment, ["DJANGO_*", "DATABASE_URL"])
    assert named.keys() == {"PATH", "LC_ALL", "http_proxy", "DJANGO_SETTINGS_MODULE", "DATABASE_URL"}


def test_not_even_a_variable_that_the_user_names_brings_a_key_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ProviderConfig(api_key_env="ANOTHER_HARMLESS_NAME")
    monkeypatch.setenv("ANOTHER_HARMLESS_NAME", KEY)
    environment = {"ANOTHER_HARMLESS_NAME": KEY, "COPY": f"x{KEY}", "PLAIN": "fine"}
    assert child_environment(environment, ["*"]) == {"PLAIN": "fine"}


@pytest.mark.parametrize(
    "how",
    ["printf %s {key}", "printf %s {first}; sleep 0.05; printf %s {last}", "printf %s {key} >&2; exit 3"],
)
def test_a_key_that_a_command_prints_reaches_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    Secret(KEY)
    command = how.format(key=KEY, first=KEY[:9], last=KEY[9:])
    result = asyncio.run(run_tool(shell_in(tmp_path), {"command": command}))
    assert REDACTED in str(result.output)
    assert KEY not in repr(result)


def test_a_key_in_a_long_output_is_not_in_the_file_of_it_either(tmp_path: Path) -> None:
    Secret(KEY)
    command = f"i=0; while [ $i -lt 300 ]; do echo line $i {KEY}; i=$((i+1)); done"
    result = asyncio.run(run_tool(shell_in(tmp_path), {"command": command}))
    assert KEY not in repr(result)
    files = [file for file in (tmp_path / "outputs").rglob("*") if file.is_file()]
    assert files
    assert all(KEY not in file.read_text() for file in files)


def test_a_key_is_redacted_wherever_its_text_is_cut() -> None:
    Secret(KEY)
    text = f"a {KEY} b {KEY[:7]} c {KEY}{KEY}"
    for size in range(1, len(text)):
        stream = StreamRedaction()
        parts = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
        parts.append(stream.feed("", last=True))
        assert "".join(parts) == f"a {REDACTED} b {KEY[:7]} c {REDACTED}{REDACTED}"


def test_keys_in_the_values_of_any_tool_are_redacted() -> None:
    Secret(KEY)
    assert redact_known({"a": [f"x{KEY}", 1], KEY: None}) == {"a": [f"x{REDACTED}", 1], REDACTED: None}


def test_after_a_kill_nothing_of_a_command_works_on(tmp_path: Path) -> None:
    """SIGKILL gives us no chance to end anything; even a grandchild in the background ends."""
    script = f"""
import asyncio
from pathlib import Path
from segue.tools.builtin import builtin_tools
from segue.tools.execution import run_tool
tools = builtin_tools(Path({str(tmp_path)!r}), outputs=Path({str(tmp_path)!r}) / "outputs")
shell = next(tool for tool in tools if tool.name == "run_shell")
loop = "while true; do echo x >> work; sleep 0.02; done"
asyncio.run(run_tool(shell, {{"command": f"({{loop}}) & {{loop}}"}}))
"""
    assert_nothing_works_on(script, tmp_path / "work")


def assert_nothing_works_on(script: str, work: Path) -> None:
    """Kill a program once something of it has written to a file; the file stays as it is."""
    with subprocess.Popen([sys.executable, "-c", script]) as process:  # noqa: S603
        deadline = time.monotonic() + 30
        while not work.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    assert work.exists()
    sizes = []
    for _ in range(100):
        sizes.append(work.stat().st_size)
        if len(sizes) > 5 and len(set(sizes[-5:])) == 1:
            return
        time.sleep(0.1)
    raise AssertionError("it works on")


@pytest.mark.parametrize(
    ("command", "harmless"),
    [
        ("git status", True),
        ("git log -5 --oneline", True),
        ("git commit -m 'a -c b'", True),
        ("git -c alias.x='!rm x' x", False),
        ("git -calias.x='!rm x' x", False),
        ("git --config-env=alias.x=PATH x", False),
        ("git --exec-path=/tmp/evil status", False),
        ("git rebase --exec 'rm x' main", False),
        ("git rebase -x 'rm x' main", False),
        ("git clone --upload-pack='rm x' a", False),
        ("git clone --upload='rm x' a", False),
        ("git grep -O'rm x' a", False),
        ("git difftool --extcmd='rm x'", False),
        ("git config alias.x '!rm x'", False),
        ("git bisect run rm x", False),
        ("/usr/bin/git -c core.pager='rm x' log", False),
        ("git 'unfinished", False),
        ("git merge-index ./evil -a", False),
        ("git archive -o /elsewhere/x HEAD", False),
        ("git archive HEAD --output=x", False),
        ("git format-patch -o /elsewhere HEAD~1", False),
        ("git format-patch --output-dir=/elsewhere HEAD~1", False),
        ("git maintenance start", False),
        ("git merge-file a b c", False),
        ("git for-each-repo --config=x run", False),
        ("git worktree add /elsewhere", False),
        ("git show --stat", True),
        ("git diff --stat HEAD~1", True),
        ("git checkout main", True),
    ],
)
def test_options_that_run_other_programs_are_asked_about(command: str, harmless: bool) -> None:
    tool = shell_in(Path.cwd(), "off")  # patterns alone, wherever the test runs
    pattern = "run_shell(/usr/bin/git *)" if command.startswith("/") else "run_shell(git *)"
    approval = Approval("ask", allow=[pattern])
    refusal = asyncio.run(approval.refusal(ToolCall("c", "run_shell", {"command": command}), tool))
    assert (refusal == "") is harmless


@pytest.mark.parametrize(
    ("command", "harmless"),
    [
        ("git -C evil status", False),
        ("git --git-dir=evil status", False),
        ("git log --output=x", False),
        ("git diff --ext-diff", False),
        ("git log --oneline -S word", True),
        ("find . -name '*.py'", True),
        ("find . -exec rm {} +", False),
        ("find . -name x -delete", False),
        ("fd -x rm", False),
        ("tar -tf a.tar", True),
        ("tar -cf a.tar --checkpoint-action=exec=sh x", False),
        ("tar -cf a.tar --checkpoint-act=exec=sh x", False),
        ("tar -xIf 'sh -c x' a.tar", False),
        ("tar xIf 'sh -c x' a.tar", False),
        ("tar --use-compress-program=x -xf a", False),
        ("rsync -av a b", True),
        ("rsync -av -e 'sh x' a b", False),
        ("rsync -ave 'sh x' a b", False),
        ("rsync --rsh='sh x' a b", False),
        ("ssh host uptime", True),
        ("ssh -o ProxyCommand='rm x' host", False),
        ("ssh -vo ProxyCommand='rm x' host", False),
        ("ssh -oProxyCommand='rm x' host", False),
        ("scp -S evil a b:", False),
        ("env", True),
        ("env A=1", True),
        ("env rm x", False),
        ("env A=1 rm x", False),
        ("env -S 'rm x'", False),
        ("env --split-string='rm x'", False),
        ("xargs rm", False),
        ("timeout 5 rm x", False),
        ("nice -n 5 rm x", False),
        ("sudo rm x", False),
        ("sh -c 'rm x'", False),
        ("bash script.sh", False),
        ("sort a", True),
        ("sort --compress-program=sh a", False),
        ("sort -uo x a", False),
        ("sed -n 5,10p a", True),
        ("sed s/a/b/g a", True),
        ("sed -ni s/a/b/ a", False),
        ("sed 's/a/b/e' a", False),
        ("sed 's|a|b|ge' a", False),
        ("sed '1e rm x' a", False),
        ("sed -n '1w x' a", False),
        ("awk '{print $1}' a", True),
        ("gawk 'BEGIN{system(\"rm x\")}'", False),
        ("awk '{print | \"sh\"}' a", False),
        ("awk '{print > \"x\"}' a", False),
        ("curl -sSL https://example.org", True),
        ("curl -sSLo x https://example.org", False),
        ("curl --out x https://example.org", False),
        ("wget -qO x https://example.org", False),
        ("make test", True),
        ("make CC=evil", False),
        ("make --eval='x:;rm y'", False),
        ("python3.12 -c 'import os'", False),
        ("python3 tool.py", True),
        ("perl -ne 'system(1)'", False),
        ("node --eval x", False),
        ("vim -c '!rm x'", False),
        ("man -P 'rm x' ls", False),
        ("rg --pre=sh x", False),
        ("sqlite3 a.db '.shell rm x'", False),
        ("sqlite3 a.db 'select 1'", True),
        ("go test ./...", True),
        ("go test -exec 'rm x' ./...", False),
        ("go test -o /elsewhere/x ./...", False),
        ("go test -coverprofile=/elsewhere/x ./...", False),
        ("go build -C /elsewhere ./...", False),
        ("cargo test", True),
        ("cargo test --manifest-path /elsewhere/Cargo.toml", False),
        ("cargo test --manifest-path=/elsewhere/Cargo.toml", False),
        ("cargo build --target-dir /elsewhere", False),
        ("npm exec evil", False),
        ("docker run -v /:/x evil", False),
        ("split --filter='rm x' a", False),
        ("tcpdump -z rm", False),
        ("/usr/bin/env rm x", False),
        ("ls -l", True),
    ],
)
def test_known_programs_start_no_other_without_a_question(command: str, harmless: bool) -> None:
    tool = shell_in(Path.cwd(), "off")  # patterns alone, wherever the test runs
    approval = Approval("ask", allow=[f"run_shell({command.partition(' ')[0]} *)"])
    refusal = asyncio.run(approval.refusal(ToolCall("c", "run_shell", {"command": command}), tool))
    assert (refusal == "") is harmless
    exact = Approval("ask", allow=[f"run_shell({command})"])
    assert asyncio.run(exact.refusal(ToolCall("c", "run_shell", {"command": command}), tool)) == ""


def asked_about(command: str) -> bool:
    """By patterns alone, with one that allows the program."""
    approval = Approval("ask", allow=[f"run_shell({command.partition(' ')[0]} *)"])
    call = ToolCall("c", "run_shell", {"command": command})
    return asyncio.run(approval.refusal(call, shell_in(Path.cwd(), "off"))) != ""


def test_no_known_way_to_write_to_run_or_to_send_something_passes_a_pattern() -> None:
    """Each line is an attack on a pattern such as `run_shell(git *)`."""
    attacks = Path(__file__).with_name("attacking_commands.txt").read_text().splitlines()
    assert len(attacks) > 700
    assert [command for command in attacks if not asked_about(command)] == []


EVERYDAY = """
git status -sb|git log --oneline -5|git diff --stat HEAD~1|git show HEAD|git add -A|git commit -am 'Fix it'
git checkout -b topic|git branch -vv|git stash list|git fetch origin|git pull --rebase|git push origin main
git blame src/a.py|git grep -n word|git log -p -3 -- a.py|git rev-parse HEAD|git merge topic|git reset HEAD a
go test ./...|go test -run TestA -v ./...|go build ./...|go vet ./...|go list ./...|go test -race -count=1 ./...
cargo test|cargo build --release|cargo check|cargo clippy -- -D warnings|cargo fmt --check|cargo tree
pytest|pytest -q|pytest -x -q tests/a.py|pytest -k name -vv|pytest -n 2 --lf|pytest --durations=10 -s
make|make test|make -j4 build|make -n install|make -k check|npm ls|npm outdated|npm view left-pad|npm ping
tar -tf a.tar|tar -xzf a.tgz|tar -czf a.tgz src|rsync -av a b|find . -name x -type f|fd -e py word
sed -n 5,10p readme.md|sed s/a/b/g words.txt|sed -E 's/x+/y/' a|awk '{print $1}' a|awk -F: '{print $2}' a
sort -u a|sort -k2 -n a|curl -sSL https://example.org|curl -I https://example.org|curl -fsS https://example.org
docker ps -a|docker logs x|docker images|docker inspect x|kubectl get pods -A|kubectl describe pod x|kubectl logs x
pip list|pip show x|pip freeze|uv tree|python3 tool.py|node x.js|ruff check .|ruff format --check .|mypy .|mypy --strict src
terraform plan|terraform validate|terraform show|sqlite3 a.db 'select * from words'|psql -l|openssl version
gcc -O2 -Wall -c a.c|gcc -o a a.c|rg -n word src|tree -L 2|less a|vim a|gh pr list|gh pr view 5|bat a|date -u
"""


def test_everyday_commands_pass_their_pattern() -> None:
    commands = [command for line in EVERYDAY.strip().splitlines() for command in line.split("|")]
    assert [command for command in commands if asked_about(command)] == []


def test_a_child_finds_no_program_in_the_current_folder_by_its_name() -> None:
    found = child_environment({"PATH": f".::bin:/usr/bin:../x:{os.sep}bin"})
    assert found == {"PATH": "/usr/bin:/bin"}


KEY_OF_A_SERVER = "key-of-a-server-0815-abc"


def test_a_server_gets_none_of_our_keys_and_what_it_prints_holds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even in a variable that every child gets; what the user gives it is redacted in its output as well."""
    for known in ("_secret_values", "_secret_variables"):
        monkeypatch.setattr(redaction, known, set())
    Secret(KEY)
    ProviderConfig(api_key_env="SHELL")
    monkeypatch.setenv("SHELL", "a-key-in-a-strange-place")
    monkeypatch.setenv("TERM", f"xterm-{KEY}")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-000000000000")
    address = StdioAddress(command="x", env={"GITHUB_TOKEN": KEY_OF_A_SERVER, "LOG": "debug"})
    given = server_environment(address)
    assert not {"SHELL", "TERM", "OPENAI_API_KEY"} & given.keys()
    assert given["GITHUB_TOKEN"] == KEY_OF_A_SERVER
    Connection(ServerConfig(name="s", address=address))
    assert redact_known(f"a {KEY_OF_A_SERVER} debug") == f"a {REDACTED} debug"
    headers = {"Authorization": "Bearer abcdefghijklmnop", "Accept": "application/json; long"}
    Connection(ServerConfig(name="h", address=HttpAddress(url="http://x", headers=headers)))
    assert redact_known("abcdefghijklmnop application/json; long") == f"{REDACTED} application/json; long"


def test_after_a_kill_no_mcp_server_works_on(tmp_path: Path) -> None:
    """Not even one that ignores the end of its input, nor what it has started."""
    server = tmp_path / "server.sh"
    server.write_text(
        "#!/bin/sh\n(while true; do echo x >> work; sleep 0.02; done) &\n"
        "trap '' HUP TERM INT\nwhile true; do echo y >> work; sleep 0.02; done\n"
    )
    server.chmod(0o755)
    script = f"""
import asyncio
from segue.tools.mcp.servers import McpServers
servers = McpServers.from_json({{"mcpServers": {{"s": {{"command": "./server.sh", "cwd": {str(tmp_path)!r}}}}}}})
asyncio.run(servers.tools())
"""
    assert_nothing_works_on(script, tmp_path / "work")
