"""The gateway from the command line: serve, ps, switch, key, env, run. Real processes, emulated providers."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cli.cli_runs import Cloud, Here, Home
from postgres_server import schema_url
from segue.cli.clients import known_clients
from segue.cli.exit_codes import Exit

CONFIG = """
[gateway]
port = 0
log = "json"
models = { "claude-*" = "openai/gpt-4.1" }
"""


class Gateway:
    def __init__(self, home: Home, *words: str, **environment: str) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "segue", "serve", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=home.project,
            env=home.full(**environment),
        )
        assert self.process.stderr is not None
        first = self.process.stderr.readline()
        assert first.startswith("Serving at "), first + self.process.stderr.read()
        self.url = first.split()[2].rstrip(".")
        self.lines: list[str] = []
        self._reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr or ()))
        self._reader.start()

    def ask(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", **headers}
        request = urllib.request.Request(self.url + path, data, headers)  # noqa: S310 - loopback
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
                return reply.status, json.loads(reply.read() or b"null"), reply.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read()), error.headers

    def chat(self, model: str, text: str = "Hello", **headers: str) -> tuple[int, Any, Any]:
        messages = [{"role": "user", "content": text}]
        return self.ask("/v1/messages", {"model": model, "max_tokens": 100, "messages": messages}, **headers)

    def wait_for(self, words: str) -> str:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if words in line:
                    return line
            time.sleep(0.02)
        raise AssertionError(f"no line with {words} in {self.lines}")

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(20)
        self._reader.join(5)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


Starter = Callable[..., Gateway]


@pytest.fixture
def start(cloud: Cloud) -> Iterator[Starter]:
    started: list[Gateway] = []

    def start_one(*words: str, **environment: str) -> Gateway:
        started.append(Gateway(cloud.home, *words, **environment))
        return started[-1]

    yield start_one
    for gateway in started:
        if gateway.process.stdout and not gateway.process.stdout.closed:
            gateway.stop()


def test_an_agent_is_switched_while_it_runs(cloud: Cloud, start: Starter, asked: Here) -> None:
    cloud.home.configure(CONFIG)
    gateway = start()
    session = {"x-claude-code-session-id": "s-1", "user-agent": "claude-cli/2.1", "x-api-key": "sk-mine-123"}
    status, reply, headers = gateway.chat("claude-opus-5-5", **session)
    assert (status, reply["model"]) == (200, "claude-opus-5-5")
    assert headers["x-segue-route"] == "openai/gpt-4.1"
    gateway.wait_for("claude-opus-5-5")
    listed = json.loads(asked("gateway", "ps", "--json").out)
    assert [(info["client"], info["asked"], info["route"]) for info in listed] == [
        ("claude-cli/2.1", "claude-opus-5-5", "openai/gpt-4.1")
    ]
    assert "claude-cli/2.1" in asked("gateway").out
    done = asked("switch", "last", "anthropic/claude-sonnet-4-6")
    assert done.code == Exit.OK
    assert "anthropic/claude-sonnet-4-6 answers from the next turn on" in done.err
    status, reply, headers = gateway.chat("claude-opus-5-5", "And now?", **session)
    assert headers["x-segue-route"] == "anthropic/claude-sonnet-4-6"
    assert reply["model"] == "claude-opus-5-5"
    assert asked("switch", listed[0]["id"], "--back", "--url", gateway.url).code == Exit.OK
    assert gateway.chat("claude-opus-5-5", "Then?", **session)[2]["x-segue-route"] == "openai/gpt-4.1"
    for words in (("switch", "nobody", "openai/gpt-4.1"), ("switch", "last", "nobody/x"), ("switch", "last")):
        assert asked(*words).code != Exit.OK
        assert asked(*words, "--url", gateway.url).code != Exit.OK
    assert gateway.stop() == 0
    log = "".join(gateway.lines)
    assert "sk-mine-123" not in log
    assert "And now?" not in log
    assert json.loads(gateway.lines[0])["route"] == "openai/gpt-4.1"


def test_an_agent_is_switched_while_a_reply_streams(cloud: Cloud, start: Starter, asked: Here) -> None:
    cloud.home.configure('[gateway]\nport = 0\nlog = "off"\n')
    gateway = start()
    older = gateway.chat("openai/gpt-4.1", **{"x-segue-session": "older"})[2]["x-segue-conversation"]
    messages = [{"role": "user", "content": "Hello"}]
    body = {"model": "openai/gpt-4.1", "max_tokens": 100, "stream": True, "messages": messages}
    headers = {"content-type": "application/json", "x-segue-session": "mine"}
    request = urllib.request.Request(gateway.url + "/v1/messages", json.dumps(body).encode(), headers)  # noqa: S310
    answered = []
    for model in ("anthropic/claude-sonnet-4-6", "openai/gpt-5.5"):  # during its first reply, and a later one
        cloud.reply("Once upon a time. " * 10, delay=0.1)
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310 - loopback
            assert b"message_start" in reply.read(100)
            answered.append(reply.headers["x-segue-route"])
            conversation = reply.headers["x-segue-conversation"]
            while json.loads(asked("gateway", "ps", "--json").out)[0]["id"] != conversation:
                assert len(answered) > 1, "a conversation that begins is the last at once"
                time.sleep(0.02)
            assert f"Conversation {conversation}: {model}" in asked("switch", "last", model).err
            assert reply.read().rstrip().endswith(b'"message_stop"}')
        assert gateway.chat("openai/gpt-4.1", **{"x-segue-session": "older"})[2]["x-segue-route"] == (
            "openai/gpt-4.1"
        )
    answered.append(gateway.chat("openai/gpt-4.1", **{"x-segue-session": "mine"})[2]["x-segue-route"])
    assert answered == ["openai/gpt-4.1", "anthropic/claude-sonnet-4-6", "openai/gpt-5.5"]
    switched = {
        one["id"]: one.get("switched", "") for one in json.loads(asked("gateway", "ps", "--json").out)
    }
    assert switched == {conversation: "openai/gpt-5.5", older: ""}
    assert gateway.stop() == 0


def test_a_conversation_of_the_gateway_is_moved_to_an_agent(
    cloud: Cloud, start: Starter, asked: Here, tmp_path: Path
) -> None:
    cloud.home.configure(CONFIG)
    gateway = start()
    client = {"x-claude-code-session-id": "s-1", "user-agent": "claude-cli/2.1"}
    assert gateway.chat("claude-opus-5-5", "What is in the shop?", **client)[0] == 200
    gateway.wait_for("claude-opus-5-5")
    listed = json.loads(asked("gateway", "ps", "--json").out)
    moved = asked("move", f"gateway:{listed[0]['id']}", "codex", "--print", "--url", gateway.url)
    assert moved.code == Exit.OK, moved.err
    assert "What is in the shop?" in moved.out
    assert "This conversation began in Claude Code." in moved.out
    last = asked("move", "gateway", "pi", "--folder", str(tmp_path), "--url", gateway.url)
    assert "Resume it with:" in last.err, last.err
    unknown = asked("move", "gateway:nobody", "pi", "--url", gateway.url)
    assert unknown.code == Exit.USAGE
    assert 'There is no conversation "nobody"' in unknown.err
    gateway.stop()
    gone = asked("move", "gateway", "pi", "--url", gateway.url)
    assert "does not answer" in gone.err


def test_a_gateway_with_a_certificate_is_asked_over_tls(cloud: Cloud, asked: Here) -> None:
    cloud.home.configure(
        '[gateway]\nhost = "::"\nport = 9\ntls_certificate = "gateway.pem"\nmemory.keep = "memory"\n'
    )
    assert "https://[::1]:9 does not answer" in asked("gateway", "ps").err


def test_other_machines_are_served_only_with_a_key(cloud: Cloud, start: Starter, asked: Here) -> None:
    cloud.home.configure('[gateway]\nport = 0\nmodel = "openai/gpt-4.1"\n')
    refused = asked("serve", "--host", "0.0.0.0")  # noqa: S104
    assert refused.code == Exit.USAGE
    assert "segue gateway keys create NAME" in refused.err
    assert "\nadmin = true" in asked("gateway", "keys", "create", "root", "--for-file", "--admin").err
    made = asked("gateway", "keys", "create", "alice", "--for-file")
    key = made.out.strip()
    assert "admin" not in made.err
    assert hashlib.sha256(key.encode()).hexdigest() in made.err
    cloud.home.configure(
        '[gateway]\nport = 0\nmodel = "openai/gpt-4.1"\n'
        f'[gateway.callers.alice]\nkey_sha256 = "{hashlib.sha256(key.encode()).hexdigest()}"\n'
    )
    assert "Callers of the configuration: alice." in asked("gateway", "keys", "list").err
    gateway = start("--host", "0.0.0.0", "--log", "off", SEGUE_GATEWAY_KEY="key-of-bob")  # noqa: S104
    gateway.url = gateway.url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
    status, reply, headers = gateway.chat("x")
    assert (status, reply["error"]["type"]) == (401, "authentication_error")
    assert headers["x-should-retry"] == "false"
    assert gateway.chat("x", **{"x-api-key": "wrong"})[0] == 401
    assert gateway.chat("x", **{"x-api-key": key})[0] == 200
    assert gateway.chat("x", authorization="Bearer key-of-bob")[0] == 200
    shown = gateway.ask("/segue/v1/conversations", authorization=f"Bearer {key}")[1]["conversations"]
    assert {info["caller"] for info in shown} == {"alice"}
    assert gateway.ask("/segue/v1/conversations")[0] == 401
    assert gateway.ask("/v1/models")[0] == 401
    gateway.stop()
    assert gateway.lines == []


def test_keys_are_made_limited_rotated_and_revoked_while_the_gateway_runs(
    cloud: Cloud, start: Starter, asked: Here
) -> None:
    cloud.home.configure('[gateway]\nport = 0\nmodel = "openai/gpt-4.1"\n')
    gateway = start("--log", "off")
    assert gateway.chat("x")[0] == 200, "without callers everybody on this machine is served"
    made = asked("gateway", "keys", "create", "alice", "--requests-per-minute", "3", "--models", "openai/*,x")
    key = made.out.strip()
    deadline = time.monotonic() + 5
    while gateway.chat("x")[0] != 401:
        assert time.monotonic() < deadline, "a gateway that runs sees new keys within a second"
        time.sleep(0.1)
    for left in ("2", "1", "0"):
        status, _, headers = gateway.chat("x", **{"x-api-key": key})
        assert (status, headers["anthropic-ratelimit-requests-remaining"]) == (200, left)
    status, reply, headers = gateway.chat("x", **{"x-api-key": key})
    assert (status, reply["error"]["type"]) == (429, "rate_limit_error")
    assert 0 < int(headers["retry-after"]) <= 20
    assert asked("gateway", "keys", "set", "alice", "--requests-per-minute", "600").code == Exit.OK
    status, reply, _ = gateway.chat("anthropic/claude-sonnet-4-6", **{"x-api-key": key})
    assert (status, reply["error"]["type"]) == (403, "permission_error")
    newer = asked("gateway", "keys", "rotate", "alice").out.strip()
    time.sleep(0.6)
    assert gateway.chat("x", **{"x-api-key": key})[0] == 401
    assert gateway.chat("x", **{"x-api-key": newer})[0] == 200
    listed = asked("gateway", "keys", "list")
    assert "openai/*, x  600 req/min" in listed.out
    assert key not in listed.out + asked("gateway", "keys", "list", "--json").out
    assert asked("gateway", "keys", "create", "alice").code == Exit.USAGE
    assert asked("gateway", "keys", "revoke", "alice").code == Exit.OK
    time.sleep(0.6)
    assert gateway.chat("x", **{"x-api-key": newer})[0] == 401
    gateway.stop()
    shown = json.loads(asked("usage", "--json").out)
    assert sum(row["requests"] for row in shown if row["caller"] == "alice" and not row["errors"]) == 4
    assert "alice" in asked("usage").out
    assert asked("usage", "--csv").out.startswith("day,caller,asked,route,requests")
    kept = b"".join(path.read_bytes() for path in cloud.home.path.rglob("accounts.db*"))
    assert kept
    assert key.encode() not in kept
    assert newer.encode() not in kept


def test_settings_are_read_anew_and_mistakes_keep_the_old_ones(cloud: Cloud, start: Starter) -> None:
    cloud.home.configure('[gateway]\nport = 0\nmodel = "openai/gpt-4.1"\nlog = "off"\n')
    gateway = start()
    assert gateway.chat("x")[2]["x-segue-route"] == "openai/gpt-4.1"
    cloud.home.configure('[gateway]\nport = 0\nmodel = "anthropic/claude-sonnet-4-6"\nlog = "text"\n')
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait_for("read anew")
    assert gateway.chat("x")[2]["x-segue-route"] == "anthropic/claude-sonnet-4-6"
    assert "x → anthropic/claude-sonnet-4-6" in gateway.wait_for("200 POST /v1/messages")
    cloud.home.configure('[gateway]\nmodle = "x"\n')
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait_for("the old ones hold")
    gateway.wait_for('Unknown key "gateway.modle"')
    assert gateway.chat("x")[0] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])  # noqa: S104
def test_a_gateway_for_others_that_reads_settings_without_callers_refuses_everybody(
    cloud: Cloud, start: Starter, host: str
) -> None:
    """Whatever host the new settings name: the port stays open where it was opened."""
    cloud.home.configure(
        '[gateway]\nhost = "0.0.0.0"\nport = 0\nmodel = "openai/gpt-4.1"\n[gateway.callers.a]\nkey_env = "KEY_A"\n'
    )
    gateway = start(KEY_A="key-of-a")
    gateway.url = gateway.url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
    assert gateway.chat("x")[0] == 401
    assert gateway.chat("x", **{"x-api-key": "key-of-a"})[0] == 200
    cloud.home.configure(f'[gateway]\nhost = "{host}"\nport = 0\nmodel = "openai/gpt-4.1"\n')
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait_for("read anew")
    assert gateway.chat("x")[0] == 401
    assert gateway.chat("x", **{"x-api-key": "key-of-a"})[0] == 401
    gateway.wait_for("segue gateway keys create NAME")


@pytest.mark.parametrize("reloaded", [False, True])
def test_a_stream_that_outlasts_the_end_of_the_gateway_ends_with_an_error_and_is_counted(
    cloud: Cloud, start: Starter, asked: Here, reloaded: bool
) -> None:
    cloud.home.configure('[gateway]\nport = 0\nlog = "off"\nlimits = { drain = 1 }\n')
    gateway = start()
    cloud.reply("Once upon a time. " * 100, delay=0.1)
    messages = [{"role": "user", "content": "Hello"}]
    body = {"model": "openai/gpt-4.1", "max_tokens": 100, "stream": True, "messages": messages}
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(gateway.url + "/v1/messages", json.dumps(body).encode(), headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310 - loopback
        assert b"message_start" in reply.read(100)
        if reloaded:  # the stream is one of the gateway before
            gateway.process.send_signal(signal.SIGHUP)
            gateway.wait_for("read anew")
        gateway.process.terminate()
        rest = reply.read()
    last = rest.strip().split(b"\n\n")[-1]
    assert last.startswith(b"event: error\n")
    assert b"The gateway was stopped." in last
    assert gateway.process.wait(20) == 0
    (row,) = json.loads(asked("usage", "--json").out)
    assert row["output_tokens"] > 0


def test_a_reply_in_the_background_outlives_the_settings_that_it_was_begun_with(
    cloud: Cloud, start: Starter
) -> None:
    cloud.home.configure(
        '[gateway]\nport = 0\nmodel = "openai/gpt-4.1"\nlog = "off"\nlimits = { drain = 0.1 }\n'
    )
    gateway = start()
    cloud.reply("Once upon a time. " * 10, delay=0.1)
    _, queued, _ = gateway.ask("/v1/responses", {"model": "x", "input": "Hello", "background": True})
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait_for("read anew")
    reply = queued
    deadline = time.monotonic() + 20
    while reply["status"] in ("queued", "in_progress") and time.monotonic() < deadline:
        time.sleep(0.1)
        _, reply, _ = gateway.ask(f"/v1/responses/{queued['id']}")
    assert (reply["status"], reply.get("error")) == ("completed", None)
    assert gateway.stop() == 0


def test_what_only_the_process_keeps_outlives_settings_that_are_read_anew(
    cloud: Cloud, start: Starter
) -> None:
    memory = '[gateway.memory]\nkeep = "memory"\n'
    cloud.home.configure(f'[gateway]\nport = 0\nmodel = "openai/gpt-4.1"\nlog = "off"\n{memory}')
    gateway = start()
    _, _, headers = gateway.chat("x", **{"x-session-id": "one"})
    switch = f"/segue/v1/conversations/{headers['x-segue-conversation']}/switch"
    assert gateway.ask(switch, {"model": "anthropic/claude-sonnet-4-6"})[0] == 200
    _, stored, _ = gateway.ask("/v1/responses", {"model": "x", "input": "Hello"})
    for _ in range(2):
        gateway.lines.clear()
        gateway.process.send_signal(signal.SIGHUP)
        gateway.wait_for("read anew")
        assert gateway.chat("x", **{"x-session-id": "one"})[2]["x-segue-route"].startswith("anthropic/")
        assert gateway.ask(f"/v1/responses/{stored['id']}")[0] == 200
    _, made, _ = gateway.ask("/segue/v1/callers", {"name": "ann"})
    gateway.lines.clear()
    gateway.process.send_signal(signal.SIGHUP)
    gateway.wait_for("read anew")
    assert gateway.chat("x")[0] == 401, "the gateway has a caller, and this is none"
    assert gateway.chat("x", **{"x-api-key": made["key"]})[0] == 200


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes as Linux lists them")
def test_a_worker_that_dies_is_replaced_and_all_find_what_one_remembers(cloud: Cloud, start: Starter) -> None:
    cloud.home.configure(
        '[gateway]\nport = 0\nmodel = "openai/gpt-4.1"\nlog = "json"\n[gateway.telemetry]\nmetrics = true\n'
    )
    gateway = start("--workers", "3")
    children = _children(gateway.process.pid)
    for _ in range(4):
        assert gateway.chat("x", **{"x-claude-code-session-id": "s"})[0] == 200
    assert _counted(gateway.url, 4) == 4
    os.kill(children[0], signal.SIGKILL)
    gateway.wait_for("is replaced")
    assert gateway.chat("x", **{"x-claude-code-session-id": "s"})[0] == 200
    assert children[0] not in _children(gateway.process.pid)
    assert _counted(gateway.url, 5) == 5, "all workers together, and the one that died"
    assert gateway.stop() == 0


def test_a_gateway_that_keeps_nothing_needs_no_folder(cloud: Cloud, start: Starter) -> None:
    """As in a container whose disk cannot be written."""
    no_folder = cloud.home.path / "file"
    no_folder.write_text("")
    cloud.home.configure(
        '[gateway]\nport = 0\nmodel = "openai/gpt-4.1"\n'
        f'[gateway.memory]\nkeep = "memory"\ndirectory = "{no_folder}"\n'
    )
    refused = cloud.home.run("serve")
    assert "a key in SEGUE_INSTALLATION_KEY" in refused.err
    gateway = start(SEGUE_INSTALLATION_KEY="A" * 43 + "=")
    assert gateway.chat("x")[0] == 200
    assert not (cloud.home.path / "data").exists()


def test_a_gateway_with_another_key_than_its_database_does_not_start(
    cloud: Cloud, start: Starter, tmp_path: Path
) -> None:
    cloud.home.configure('[gateway]\nport = 0\nmodel = "openai/gpt-4.1"\n')
    store = schema_url(tmp_path)
    gateway = start(SEGUE_STORE=store, SEGUE_INSTALLATION_KEY="A" * 43 + "=")
    assert gateway.chat("x")[0] == 200
    refused = cloud.home.run("serve", SEGUE_STORE=store, SEGUE_INSTALLATION_KEY="B" * 43 + "=")
    assert refused.code != Exit.OK
    assert "was made with another installation's key" in refused.err
    assert "Serving at" not in refused.err
    away = cloud.home.run("env", "claude", SEGUE_STORE="postgresql://127.0.0.1:9/none")
    assert 'ANTHROPIC_AUTH_TOKEN="$SEGUE_GATEWAY_KEY"' in away.out, "asked for without a database, too"


def test_workers_end_with_the_process_that_started_them(cloud: Cloud, start: Starter) -> None:
    """They would keep the port, and nobody would end them or read the settings anew."""
    cloud.home.configure("[gateway]\nport = 0\n")
    gateway = start("--workers", "2")
    assert gateway.ask("/v1/models")[0] == 200
    gateway.process.kill()
    _wait_until_nobody_listens(gateway.url)


def _counted(url: str, expected: int) -> float:
    """Requests to models by the metrics, once there are as many: each is counted after its reply was sent."""
    deadline = time.monotonic() + 15
    while True:
        with urllib.request.urlopen(f"{url}/metrics", timeout=30) as shown:  # noqa: S310 - loopback
            families = list(text_string_to_metric_families(shown.read().decode()))
        found = sum(
            one.value
            for family in families
            for one in family.samples
            if one.name == "segue_requests_total" and one.labels["route"]
        )
        if found >= expected or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def _children(pid: int) -> list[int]:
    """All three workers, once they are there."""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if len(found) == 3:
            return [int(child) for child in found]
        time.sleep(0.05)
    raise AssertionError("no three workers")


def test_what_cannot_be_served_is_refused_before_the_start(
    home: Home, segue: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.configure('[gateway]\nport = 0\nmodels = { "claude-*" = "nobody" }\n')
    assert "is not an alias, a profile or provider/model" in segue("serve").err
    home.configure('[gateway.callers.a]\nkey_env = "NOT_SET_ANYWHERE"\n')
    assert "the variable NOT_SET_ANYWHERE is not set" in segue("serve").err
    home.configure('[gateway]\nport = 8497\n[providers.openai]\nbase_url = "http://localhost:8497/v1"\n')
    looped = segue("serve")
    assert looped.code == Exit.USAGE
    assert "would send requests to itself" in looped.err
    home.configure("[gateway]\nport = 8497\n")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:8497")
    assert "Unset ANTHROPIC_BASE_URL" in segue("serve").err
    monkeypatch.delenv("ANTHROPIC_BASE_URL")
    monkeypatch.setenv("OLLAMA_HOST", "localhost:8497")
    assert "Unset OLLAMA_HOST" in segue("serve").err, "also without a scheme, as Ollama's own tools take it"
    monkeypatch.setenv("OLLAMA_HOST", "http://localhost:port")
    assert "needs a certificate and its key" in segue("serve", "--tls-key", "x.pem").err


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_gateway_that_cannot_serve_says_why_and_never_that_it_serves(
    home: Home, segue: Here, workers: str
) -> None:
    """Several workers would else be replaced for ever, each with the same error."""
    home.configure("[gateway]\nport = 0\n")
    serve = ("serve", "--workers", workers)
    no_file, no_pem = home.path / "none.pem", home.path / "text.pem"
    no_pem.write_text("This is no PEM file.")
    no_store = home.path / "no-store"
    no_store.mkdir()
    (no_store / "accounts.db").write_bytes(b"This is no database. " * 100)
    for words, reason in (
        (
            ("--tls-certificate", str(no_pem), "--tls-key", str(no_file)),
            f"No such file or directory: {no_file}",
        ),
        (
            ("--tls-certificate", str(no_pem), "--tls-key", str(no_pem)),
            f"{no_pem} are no certificate and its key",
        ),
        (("--set", f"gateway.memory.directory={no_pem}"), f"cannot keep its memory in {no_pem}"),
        (("--set", f"gateway.memory.directory={no_store}"), "file is not a database"),
    ):
        refused = segue(*serve, *words)
        assert refused.code != Exit.OK
        assert reason in refused.err
        assert "Serving at" not in refused.err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "--port N" in segue(*serve, "--port", port).err
    assert "--host 127.0.0.1" in segue(*serve, "--host", "192.0.2.1").err


def test_env_prints_what_points_each_program_at_the_gateway(home: Home, segue: Here) -> None:
    listed = segue("env").out
    for name in known_clients():
        assert f"{name} " in listed
        printed = segue("env", name, "-m", "some/model")
        assert printed.code == Exit.OK, printed.err
        assert "http://127.0.0.1:8484" in printed.out or name == "llm"
        assert not {"{url}", "{key}", "{model}"} & set(printed.out.split('"'))
    shell = segue("env", "claude", "--url", "http://gw:1/", "-m", "some/model").out
    done = subprocess.run(  # noqa: S602 - what we print is for a shell
        shell + 'printf "%s %s %s" "$ANTHROPIC_BASE_URL" "$ANTHROPIC_AUTH_TOKEN" "$ANTHROPIC_MODEL"',
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "http://gw:1 segue some/model"
    home.configure(f'[gateway.callers.me]\nkey_sha256 = "{"a" * 64}"\n')
    assert 'ANTHROPIC_AUTH_TOKEN="$SEGUE_GATEWAY_KEY"' in segue("env", "claude").out
    assert 'Did you mean "claude"?' in segue("env", "clade").err
    assert "needs the name of a model" in segue("env", "opencode").err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_gateway_serves_without_open_streams(cloud: Cloud, closed: str) -> None:
    """As some that start services leave them."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    cloud.home.configure(f'[gateway]\nport = {port}\nmodel = "openai/gpt-4.1"\n')
    process = subprocess.Popen(  # noqa: S602 - closes streams as a shell does
        f'exec "{sys.executable}" -m segue serve {closed}',
        shell=True,
        stderr=subprocess.DEVNULL,
        cwd=cloud.home.project,
        env=cloud.home.full(),
    )
    try:
        assert _status_once_it_serves(f"http://127.0.0.1:{port}/v1/models", process) == 200
    finally:
        process.terminate()
        assert process.wait(20) == 0


def _status_once_it_serves(url: str, process: subprocess.Popen[bytes]) -> int:
    while process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - loopback
                return int(answer.status)
        except urllib.error.URLError:
            time.sleep(0.05)
    return 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("ps", "-n", "0"), "must be at least 1"),
        (("ps", "-n", "-1"), "must be at least 1"),
        (("ps", "--url", "nonsense"), "The gateway at nonsense does not answer"),
        (
            ("keys", "create", "a", "--requests-per-minute", "0"),
            "--requests-per-minute is 0; it must be at least 1",
        ),
        (
            ("keys", "create", "a", "--dollars-per-day", "nan"),
            "--dollars-per-day is nan; it must be more than 0",
        ),
        (("keys", "create", "a", "--dollars-per-day", "inf"), "--dollars-per-day is no limit"),
        (("keys", "create", "a", "--for-file", "--label", "x=y"), "have no labels"),
        (("keys", "create", "a", "--for-file", "--expires", "soon"), "is not a day or time"),
        (("keys", "create", "a b", "--for-file"), "cannot be the name of a caller"),
    ],
)
def test_what_an_operator_cannot_have_meant_is_refused(
    segue: Here, words: tuple[str, ...], reason: str
) -> None:
    refused = segue("gateway", *words)
    assert refused.code in (Exit.USAGE, Exit.PROVIDERS_FAILED)
    assert reason in refused.err
    assert refused.out == "", "no key was made"


def test_a_revoked_caller_is_named_as_such(segue: Here) -> None:
    assert segue("gateway", "keys", "create", "alice").code == Exit.OK
    assert segue("gateway", "keys", "revoke", "alice").code == Exit.OK
    for action in ("rotate", "set", "revoke"):
        assert 'The caller "alice" was revoked.' in segue("gateway", "keys", action, "alice").err
    assert "was revoked is not used again" in segue("gateway", "keys", "create", "alice").err
    assert '"2026-13-01" is not a day' in segue("usage", "--to", "2026-13-01").err


def test_an_unknown_key_is_named_with_the_variable_that_holds_it(
    cloud: Cloud, start: Starter, asked: Here
) -> None:
    cloud.home.configure("[gateway]\nport = 0\n")
    gateway = start(SEGUE_GATEWAY_KEY="key-of-bob")
    refused = asked("gateway", "ps", "--url", gateway.url)
    assert refused.code == Exit.USAGE
    assert "Set SEGUE_GATEWAY_KEY" in refused.err


PROGRAM = """#!/bin/sh
echo "args: $*"
curl -s "$ANTHROPIC_BASE_URL/v1/messages" -H "authorization: Bearer $ANTHROPIC_AUTH_TOKEN" \
  -H "anthropic-version: 2023-06-01" -H "content-type: application/json" \
  -d '{"model": "claude-x", "max_tokens": 50, "messages": [{"role": "user", "content": "Hello"}]}'
exit 7
"""


def test_run_starts_a_program_and_a_gateway_for_it(cloud: Cloud, asked: Here, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    cloud.home.configure('[gateway]\nport = 1\nmodel = "openai/gpt-4.1"\n')
    path = f"{program.parent}:{os.environ['PATH']}"
    done = cloud.home.run("run", "claude", "-p", "--verbose", "x y", PATH=path)
    assert done.code == 7
    assert "args: -p --verbose x y" in done.out
    assert '"model":"claude-x"' in done.out
    assert "You said: Hello" in done.out
    assert asked("run", "--url", "http://127.0.0.1:9", "claude").code != Exit.OK
    assert "cannot be started" in asked("run", "openai").err


@pytest.mark.parametrize("name", ["claude-opus-5-5", "claude-opus-5-5[1m]", "gpt-4.1"])
def test_a_program_may_ask_for_the_models_that_it_knows(cloud: Cloud, tmp_path: Path, name: str) -> None:
    """Nothing is configured but the keys of the providers."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(PROGRAM.replace("claude-x", name))
    program.chmod(0o755)
    cloud.home.configure("[gateway]\nport = 1\n")
    done = cloud.home.run("run", "claude", PATH=f"{program.parent}:{os.environ['PATH']}")
    assert f'"model":"{name}"' in done.out
    assert "You said: Hello" in done.out
    assert [body["model"] for body in cloud.bodies()] == [name.removesuffix("[1m]")]


FREE_PROGRAM = """#!/bin/sh
echo "$MINE"
echo x > "$OUTSIDE"
"""


def test_a_program_of_run_is_the_users_own_and_is_not_held(cloud: Cloud, tmp_path: Path) -> None:
    """It gets the environment as it is and writes where the user can, whatever the sandbox of a chat allows."""
    program, outside = tmp_path / "bin" / "claude", tmp_path / "outside"
    program.parent.mkdir()
    program.write_text(FREE_PROGRAM)
    program.chmod(0o755)
    cloud.home.configure('[gateway]\nport = 1\n[sandbox]\nmode = "read-only"\n')
    path = f"{program.parent}:{os.environ['PATH']}"
    done = cloud.home.run("run", "claude", PATH=path, MINE="my own", OUTSIDE=str(outside))
    assert "my own" in done.out
    assert outside.read_text() == "x\n"


WAITING_PROGRAM = """#!/bin/sh
echo "$$ $ANTHROPIC_BASE_URL"
exec sleep 60
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_run_leaves_neither_the_program_nor_its_gateway_behind(
    cloud: Cloud, tmp_path: Path, number: signal.Signals
) -> None:
    """A gateway without callers that nobody knows of would serve on, with the user's keys."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(WAITING_PROGRAM)
    program.chmod(0o755)
    cloud.home.configure('[gateway]\nhost = "0.0.0.0"\nport = 1\nworkers = 2\ntls_certificate = "none.pem"\n')
    running = subprocess.Popen(
        [sys.executable, "-m", "segue", "run", "claude"],
        stdout=subprocess.PIPE,
        text=True,
        env=cloud.home.full(PATH=f"{program.parent}:{os.environ['PATH']}"),
    )
    with running:
        assert running.stdout is not None
        child, url = running.stdout.readline().split()
        assert url.startswith("http://127.0.0.1:"), "it serves one program, whatever the settings say"
        with urllib.request.urlopen(f"{url}/healthz", timeout=10) as answer:  # noqa: S310 - loopback
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="401"):  # it serves that program alone
            urllib.request.urlopen(f"{url}/v1/models", timeout=10)  # noqa: S310
        running.send_signal(number)
        killed = number == signal.SIGKILL
        assert running.wait(20) == (-number if killed else 128 + number)
    if killed:
        os.kill(int(child), signal.SIGTERM)  # nobody was left to do it
    else:
        with pytest.raises(ProcessLookupError):
            os.kill(int(child), 0)
    _wait_until_nobody_listens(url)


def _wait_until_nobody_listens(url: str) -> None:
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{url}/healthz", timeout=10).close()  # noqa: S310 - loopback
        except OSError:
            return
        time.sleep(0.05)
    raise AssertionError(f"{url} still answers")


def test_programs_get_the_key_that_the_gateway_asks_for(cloud: Cloud, asked: Here, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    cloud.home.configure('[gateway]\nport = 1\nmodel = "openai/gpt-4.1"\n')
    assert "ANTHROPIC_AUTH_TOKEN=segue" in asked("env", "claude").out
    key = asked("gateway", "keys", "create", "alice", "--requests-per-minute", "1").out.strip()
    shown = asked("env", "claude").out
    assert 'ANTHROPIC_AUTH_TOKEN="$SEGUE_GATEWAY_KEY"' in shown
    for _ in range(2):
        own = cloud.home.run("run", "claude", PATH=path)
        assert "You said: Hello" in own.out, (
            "on the operator's own machine no key is asked for, and no limit holds"
        )
    done = cloud.home.run("run", "claude", PATH=path, SEGUE_GATEWAY_KEY=key)
    assert "You said: Hello" in done.out
    used = json.loads(asked("usage", "--json").out)
    assert [(row["caller"], row["requests"]) for row in used] == [("alice", 1), ("local", 2)], (
        "with her limits, also where her key is in the environment"
    )


def test_run_gets_its_own_gateway_where_the_one_that_runs_asks_for_a_key(
    cloud: Cloud, start: Starter, asked: Here, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    cloud.home.configure(f'[gateway]\nport = {port}\nmodel = "openai/gpt-4.1"\n')
    asked("gateway", "keys", "create", "alice")
    gateway = start("--log", "off")
    assert gateway.chat("x")[0] == 401
    done = cloud.home.run("run", "claude", PATH=path)
    assert "You said: Hello" in done.out
    assert "so this program gets a gateway of its own" in done.err
    refused = cloud.home.run("run", "--url", gateway.url, "claude", PATH=path)
    assert refused.code == Exit.USAGE
    assert "asks for a caller's key" in refused.err
    assert "Set SEGUE_GATEWAY_KEY" in refused.err
    assert refused.out == "", "the program was not started"
    unknown = cloud.home.run("run", "claude", PATH=path, SEGUE_GATEWAY_KEY="nobody's")
    assert "does not know this key" in unknown.err
    cloud.without_keys()
    poor = cloud.home.run("run", "claude", PATH=path)
    assert "asks for a caller's key" in poor.err, "without a provider a gateway of its own could not answer"


def test_a_caller_is_removed_and_the_gateway_is_the_user_s_again(
    cloud: Cloud, start: Starter, asked: Here
) -> None:
    cloud.home.configure('[gateway]\nport = 0\nmodel = "openai/gpt-4.1"\n')
    gateway = start("--log", "off")
    key = asked(
        "gateway", "keys", "create", "alice", "--dollars-per-day", "5", "--label", "team=x"
    ).out.strip()
    assert asked("gateway", "keys", "create", "bob").code == Exit.OK
    time.sleep(0.6)
    assert gateway.chat("x", **{"x-api-key": key})[0] == 200
    assert asked("gateway", "keys", "revoke", "bob").code == Exit.OK
    unknown = asked("gateway", "keys", "remove", "nobody", "--yes")
    assert unknown.code == Exit.USAGE
    assert 'There is no caller "nobody".' in unknown.err
    unasked = asked("gateway", "keys", "remove", "alice")
    assert unasked.code == Exit.USAGE
    assert "Lost with alice: its keys (valid); models all; limits $5/day; label team=x." in unasked.err
    assert "Allow it: --yes" in unasked.err
    assert gateway.chat("x", **{"x-api-key": key})[0] == 200, "nothing was removed"
    removed = asked("gateway", "keys", "remove", "alice", "--yes", "--json")
    shown = json.loads(removed.out)
    assert (shown["name"], shown["allowance"]["dollars_per_day"]) == ("alice", 5.0)
    assert "No caller is left" not in removed.err
    time.sleep(0.6)
    assert gateway.chat("x", **{"x-api-key": key})[0] == 401
    last = asked("gateway", "keys", "remove", "bob", "-y")
    assert "No caller is left" in last.err
    time.sleep(0.6)
    assert gateway.chat("x")[0] == 200
    assert json.loads(asked("gateway", "keys", "list", "--json").out) == []
    gateway.stop()
    assert "alice" in asked("usage").out
    assert asked("gateway", "keys", "create", "bob").code == Exit.OK, "the name is free again"


def test_a_key_in_the_environment_is_what_env_points_at(
    home: Home, segue: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEGUE_GATEWAY_KEY", "key-of-bob")
    printed = segue("env", "openai", "--url", "http://gateway.example")
    assert 'OPENAI_API_KEY="$SEGUE_GATEWAY_KEY"' in printed.out
    assert "key-of-bob" not in printed.out + printed.err
    assert not (home.path / "data").exists(), "nothing is made by looking"
