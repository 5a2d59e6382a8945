"""`segue inspect` with a session, a file or the calls that wait: a page on this machine that one link opens."""

from __future__ import annotations

import asyncio
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
from typing import Any

import pytest

from cli.cli_runs import Cloud, Here
from inspector.test_approvals import ask_for
from segue.cli.exit_codes import Exit
from segue.providers.scripted import calls
from segue.sessions.entries import ApprovalGiven
from segue.sessions.stores.sqlite import SQLiteStore

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


@contextmanager
def inspected(cloud: Cloud, *what: str) -> Iterator[tuple[str, str]]:
    """The address of the page and the token of its link, until the test ends."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "segue", "inspect", "--no-browser", *what],
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


class PageReader:
    """Somebody who follows the link."""

    def __init__(self, login: str, token: str) -> None:
        self._root = login.removesuffix("login")
        self._headers = {"content-type": "application/json", "sec-fetch-site": "same-origin"}
        asked = urllib.request.Request(login, json.dumps({"token": token}).encode(), self._headers)  # noqa: S310
        with urllib.request.urlopen(asked, timeout=20) as answer:  # noqa: S310
            self._headers["cookie"] = answer.headers["set-cookie"].partition(";")[0]

    def get(self, path: str) -> str:
        shown = urllib.request.Request(self._root + path, headers={"cookie": self._headers["cookie"]})  # noqa: S310
        with urllib.request.urlopen(shown, timeout=20) as answer:  # noqa: S310
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            return str(answer.read().decode())

    def post(self, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        sent = {**self._headers, **headers}
        asked = urllib.request.Request(f"{self._root}api/answer", json.dumps(body).encode(), sent)  # noqa: S310
        try:
            with urllib.request.urlopen(asked, timeout=20) as answer:  # noqa: S310
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                data = refused.read()
                return refused.code, json.loads(data) if data.startswith(b"{") else {}


def page(login: str, token: str) -> str:
    return PageReader(login, token).get("")


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


def test_calls_that_wait_are_answered_on_a_page_of_this_machine(cloud: Cloud, tmp_path: Path) -> None:
    file = tmp_path / "trips.db"
    store = SQLiteStore(file)
    asyncio.run(ask_for(store, "trip", "Tell Ann.", calls(("send", {"to": "ann"}))))
    with inspected(cloud, "--approvals", "--store", str(file)) as (login, token):
        browser = PageReader(login, token)
        shown = browser.get("")
        assert "1 call of 1 session waits for an answer" in shown
        assert 'data-action="approve"' in browser.get("?session=trip")
        word = shown.partition('name="segue-token" content="')[2].partition('"')[0]
        yes = {"session": "trip", "call_id": "c0", "allow": True, "by": "carol"}
        for headers in (
            {},
            {"x-segue-token": "wrong"},
            {"x-segue-token": word, "sec-fetch-site": "cross-site"},
        ):
            assert browser.post(yes, headers)[0] == 403
        assert browser.post(yes, {"x-segue-token": word, "cookie": ""})[0] == 401
        assert browser.post(yes, {"x-segue-token": word})[0] == 200
        status, told = browser.post({**yes, "by": "dave", "allow": False}, {"x-segue-token": word})
        assert (status, told["error"][:24]) == (409, 'carol allowed call "c0" ')
        assert "No call waits for an answer." in browser.get("")
    given = [one.entry for one in asyncio.run(store.read("trip")) if isinstance(one.entry, ApprovalGiven)]
    assert [(one.call_id, one.allowed, one.by) for one in given] == [("c0", True, "carol")]


def test_approvals_of_all_sessions_take_no_session(asked: Here) -> None:
    told = asked("inspect", "--approvals", "trip")
    assert told.code == Exit.USAGE
    assert "segue inspect trip" in told.err


def test_what_is_neither_a_session_nor_a_file_is_refused(asked: Here) -> None:
    told = asked("inspect", "nowhere")
    assert told.code == Exit.USAGE
    assert "nowhere" in told.err


def test_without_a_gateway_the_command_names_what_to_start(asked: Here) -> None:
    told = asked("inspect", "--no-browser", "--url", "http://127.0.0.1:9")
    assert told.code != Exit.OK
    assert "segue serve" in told.err
