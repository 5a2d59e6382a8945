"""`segue inspect` with a session or a file: a page on this machine that one link opens."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.cli_runs import Cloud, Here
from segue.cli.exit_codes import Exit

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


@contextmanager
def inspected(cloud: Cloud, what: str) -> Iterator[tuple[str, str]]:
    """The address of the page and the token of its link, until the test ends."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "segue", "inspect", "--no-browser", what],
        cwd=cloud.home.project,
        env=cloud.home.full(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        link = None
        while link is None and (line := process.stdout.readline()):
            link = re.search(r"(http://127\.0\.0\.1:\d+)(\S*)#t=(\S+)", line)
        assert link is not None
        yield f"{link[1]}{link[2]}", link[3]
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) in (0, 130)
        process.stdout.close()


def page(login: str, token: str) -> str:
    """What somebody sees who follows the link."""
    origin = login.partition("/segue/")[0]
    headers = {"Content-Type": "application/json", "Origin": origin, "Sec-Fetch-Site": "same-origin"}
    asked = urllib.request.Request(login, json.dumps({"token": token}).encode(), headers)  # noqa: S310
    with urllib.request.urlopen(asked, timeout=20) as answer:  # noqa: S310
        cookie = answer.headers["set-cookie"].partition(";")[0]
        place = json.loads(answer.read() or b"{}").get("go", login.removesuffix("login"))
    address = place if place.startswith("http") else origin + place
    shown = urllib.request.Request(address, headers={"Cookie": cookie})  # noqa: S310
    with urllib.request.urlopen(shown, timeout=20) as answer:  # noqa: S310
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        return str(answer.read().decode())


def test_a_file_is_shown_with_the_findings_of_the_doctor(cloud: Cloud) -> None:
    with inspected(cloud, str(EXAMPLES / "cancelled.json")) as (login, token):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(login.removesuffix("login") + "index.json", timeout=20)  # noqa: S310
        refused.value.close()
        assert refused.value.code in (401, 403)
        shown = page(login, token)
    assert "call without a result (call_8Xz)" in shown
    assert "openai_chat request · 4 messages, 2 calls · read on this machine, nothing was sent" in shown


def test_a_session_is_shown_under_its_first_words(cloud: Cloud, asked: Here) -> None:
    cloud.reply("Good <b>day</b>.")
    asked("-m", "openai/gpt-4.1", "Say something <script>alert(1)</script>")
    (listed,) = asked("sessions", "list").out.splitlines()
    with inspected(cloud, listed.split()[0]) as (login, token):
        shown = page(login, token)
    assert "<h1>Say something &lt;script&gt;" in shown
    assert "Good &lt;b&gt;day" in shown
    assert "<script>alert" not in shown


def test_what_is_neither_a_session_nor_a_file_is_refused(asked: Here) -> None:
    told = asked("inspect", "nowhere")
    assert told.code == Exit.USAGE
    assert "nowhere" in told.err


def test_without_a_gateway_the_command_names_what_to_start(asked: Here) -> None:
    told = asked("inspect", "--no-browser", "--url", "http://127.0.0.1:9")
    assert told.code != Exit.OK
    assert "segue serve" in told.err
