"""Nothing that a model, tool, server or file supplies can control a terminal: raw bytes of a pty are searched."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from scripts.terminal import Terminal

from cli.cli_runs import Cloud, Here, Home
from segue.cli.main import main
from segue.emulators.model.model_reply import Call, Think
from segue.text.terminal_text import ControlSequence, safe_json, styled

ATTACKS = {
    "title": "\x1b]0;PWNED\x07",
    "clipboard": "\x1b]52;c;UFdORUQ=\x1b\\",
    "link": "\x1b]8;;https:PWNED\x1b\\",
    "title in 8 bits": "\x9d0;PWNED\x9c",
    "device string": "\x1bPPWNED\x1b\\",
    "program command": "\x1b_PWNED\x1b\\",
    "privacy message": "\x1b^PWNED\x1b\\",
    "erase": "\x1b[3J",
    "conceal": "\x1b[8m",
    "background": "\x1b[41m",
    "position": "\x1b[66n",
    "other screen": "\x1b[?1049h",
    "reset": "\x1bc",
    "erase in 8 bits": "\x9b3J",
    "bell": "\x07",
    "backspace": "\x08",
    "return": "\r",
    "delete": "\x7f",
    "bidi": "\u202e\u2066\u200f",
    "zero width": "\u200b\u2060\ufeff\u200d\U000e0041",
}
EVIL = "A" + "".join(f"{attack}." for attack in ATTACKS.values()) + "Z"
CLEAN = re.compile(r"A(?:\. ?){20}Z")
IN_A_NAME = EVIL.replace("/", "")

_STYLE = rb"\x1b\[(?:0|[1-4]|9|3[0-79]|49|9[0-7]|2[2-4])?(?:;(?:[0-4]|9|3[0-79]|49|9[0-7]))*m"
_OURS = re.compile(_STYLE + rb"|\r?\x1b\[K|\x1b\[A|\r+\n")
_PROMPTS = re.compile(rb"\x1b\[[0-9;]*[ABCDHJKm]|\x1b\[\?(?:1|7|12|25|2004|1000)[hl]|[\r\x08]")
_FORBIDDEN = (
    b"\x1b[3J",
    b"\x1b[8m",
    b"\x1b[41m",
    b"\x1b[66n",
    b"\x1b[?1049",
    b"\x1bc",
    b"\x1b]",
    b"\x1bP",
    b"\x1b_",
)


def check(raw: bytes, *, prompts: bool = False) -> None:
    """Only sequences of ours, and nothing invisible."""
    for attack in _FORBIDDEN:
        assert attack not in raw, attack
    rest = _OURS.sub(b"", raw)
    rest = _PROMPTS.sub(b"", rest) if prompts else rest
    text = rest.decode()
    found = re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0041]", text
    )
    assert found is None, text[max(found.start() - 60, 0) : found.end() + 60]


def on_pty(*words: str) -> bytes:
    """What `segue` in this process writes to a terminal, byte for byte."""
    master, slave = pty.openpty()
    raw = bytearray()

    def listen() -> None:
        try:
            while portion := os.read(master, 65_536):
                raw.extend(portion)
        except OSError:  # the other end is closed
            return

    listener = threading.Thread(target=listen)
    listener.start()
    before = sys.stdin, sys.stdout, sys.stderr
    with io.TextIOWrapper(os.fdopen(slave, "wb", 0), "utf-8", write_through=True) as stream:
        sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO()), stream, stream
        try:
            main(list(words))
        finally:
            sys.stdin, sys.stdout, sys.stderr = before
    listener.join(5)
    os.close(master)
    return bytes(raw)


@contextmanager
def server_of_names() -> Iterator[str]:
    """A provider whose models have hostile names, and whose errors are hostile too."""

    class Names(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, {"object": "list", "data": [{"id": EVIL, "object": "model", "owned_by": EVIL}]})

        def do_POST(self) -> None:
            self._send(400, {"error": {"message": EVIL, "type": EVIL, "code": EVIL}})

        def _send(self, status: int, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_anything: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Names)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def hostile_turn(cloud: Cloud) -> None:
    """A turn in which everything is hostile: reasoning, text, the name and arguments of a call, a file, its result."""
    (cloud.home.project / IN_A_NAME).write_text(EVIL)
    cloud.reply(
        Think(f"{EVIL}\n"),
        f"Words {EVIL} and `{EVIL}`\n\n```\n{EVIL}\n```\n",
        Call("read_file", {"path": IN_A_NAME}),
        Call(EVIL, {EVIL: EVIL}),
    )
    cloud.reply(f"Done {EVIL}.")


WORDS = ("-m", "anthropic/claude-sonnet-4-6", "--effort", "high", "-T", "read_file")


@pytest.mark.parametrize("more", [(), ("--plain",), ("--json",), ("--output-format", "stream-json")])
def test_a_one_shot_answer(cloud: Cloud, asked: Here, more: tuple[str, ...]) -> None:
    del asked
    hostile_turn(cloud)
    raw = on_pty("read it", *WORDS, *more)
    assert b"Done A" in raw
    check(raw)


def test_the_lists_and_exports_of_sessions(cloud: Cloud, asked: Here, home: Home) -> None:
    hostile_turn(cloud)
    asked("read it", *WORDS)
    (session,) = [row["id"] for row in json.loads(asked("sessions", "list", "--json").out)]
    asked("sessions", "rename", session, EVIL)
    for words in (("list",), ("show", session), ("export", session, "--format", "markdown")):
        raw = on_pty("sessions", *words)
        check(raw)
        assert CLEAN.search(raw.decode()), words
    for form in ("markdown", "conversation", "journal", "openai"):
        file = home.path / form
        asked("sessions", "export", session, "--format", form, "-o", str(file))
        data = file.read_bytes()
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u200b]", data.decode()), form


def test_models_errors_and_configuration(cloud: Cloud, asked: Here, home: Home) -> None:
    with server_of_names() as url:
        home.configure(
            f'[providers.evil]\ndialect = "openai_chat"\nbase_url = "{url}"\napi_key = "0123456789abcdef"\n'
        )
        assert tomllib.loads(home.config_file.read_text())
        for command in (
            ("models", "evil"),
            ("hi", "-m", "evil/x"),
            ("hi", "-m", f"evil/{EVIL}"),
            ("-m", EVIL, "hi"),
        ):
            check(on_pty(*command))
    (home.project / IN_A_NAME).write_text(json.dumps({"messages": [{"role": EVIL, "content": EVIL}]}))
    for faulty in (
        ("doctor", IN_A_NAME),
        ("convert", "--to", EVIL, IN_A_NAME),
        ("models", EVIL),
        (f"--{EVIL}",),
    ):
        check(on_pty(*faulty))
    file = home.project / "request.json"
    file.write_text(json.dumps({"model": "x", "messages": [{"role": "user", "content": EVIL}]}))
    raw = on_pty("convert", "--to", "anthropic", "request.json")
    body = json.loads(raw[raw.index(b"{") :])
    assert EVIL in body["messages"][0]["content"], "JSON loses nothing"
    home.configure(f"[{json.dumps(EVIL.replace(chr(0x7F), ''))}]\nx = 1\n")
    check(on_pty("config", "check"))
    home.configure(f"[mcp.servers.{json.dumps(EVIL.replace(chr(0x7F), ''))}]\ncommand = '/nowhere'\n")
    cloud.reply("Fine.")
    check(on_pty("hi", "-m", "openai/gpt-4.1"))


def test_a_chat(cloud: Cloud) -> None:
    home = cloud.home
    home.project = home.path / f"pro{IN_A_NAME}"
    home.project.mkdir()
    environment = home.full()
    environment.pop("NO_COLOR")
    environment["PAGER"] = "cat"  # a real one uses sequences of its own
    command = (sys.executable, "-m", "segue", *WORDS)
    with Terminal(command, environment=environment, directory=home.project) as segue:
        segue.wait_for("›")
        hostile_turn(cloud)
        segue.type("read it\r")
        segue.wait_for(r"Done A\.{20}Z")
        segue.settle()
        segue.type("\x0f")
        segue.settle()
        segue.type("@A\t")
        segue.settle()
        segue.type("\x03")
        for line in ("/save x", "/stats", "/sessions", "/view", "/tools", "/doctor", "/nothing", "/model"):
            segue.type(line + "\r")
            segue.settle()
        segue.type("\x1b")
        cloud.fail(status=400, message=EVIL)
        segue.settle()
        segue.type("fail\r")
        segue.wait_for("✗")
        segue.settle()
        check(segue.raw, prompts=True)


def test_a_control_of_ours_is_one_only_while_it_stands_alone() -> None:
    erase = ControlSequence("\x1b[2K")
    assert styled(erase) == erase
    assert styled(erase + "text") == "text"
    assert styled("\x1b[1;31mred\x1b[0m") == "\x1b[1;31mred\x1b[0m"
    for name, attack in ATTACKS.items():
        assert styled(f"a{attack}b") == "ab", name
        assert styled(f"\x1b[1ma{attack}b\x1b[0m") == "\x1b[1mab\x1b[0m", name


def test_json_keeps_what_it_escapes() -> None:
    assert json.loads(safe_json(json.dumps(EVIL, ensure_ascii=False))) == EVIL
