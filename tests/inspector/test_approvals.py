"""Approvals on the pages: which calls of sessions wait, who may answer, whose answer holds, and what the journal says."""

from __future__ import annotations

import asyncio
import getpass
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from inspector.browser import Browser
from inspector.story import Session, Stage, inspected_gateway
from inspector.test_hostile import XSS, _Markup
from inspector.test_security import CALLERS, _operator
from segue.chat.chat import Chat
from segue.providers.scripted import ScriptedProvider, calls, says
from segue.sessions.entries import ApprovalGiven
from segue.sessions.stores.sqlite import SQLiteStore
from segue.tools.approval import Approval, ask_later

KEY = "sk-of-a-provider-1234567890"


def send(to: str, text: str = "") -> str:
    """Has an effect."""
    return f"sent {text} to {to}"


async def ask_for(store: SQLiteStore, session: str, text: str, *replies: Any) -> None:
    async with Chat(
        "one/claude-opus-4-7",
        providers={"one": ScriptedProvider(replies, name="one")},
        store=store,
        session=session,
        tools=[send],
        approval=Approval("ask", ask=ask_later),
    ) as chat:
        await chat.send(text)


async def ask_for_all(store: SQLiteStore) -> None:
    both = calls(("send", {"to": "ann"}), ("send", {"to": "bob", "text": "See you at nine."}))
    await ask_for(store, "trip", "Tell Ann and Bob when we leave.", both)
    await ask_for(store, "odd", XSS, calls(("send", {"to": XSS, "text": KEY})))
    await ask_for(store, "over", "Hello.", says("Hello."))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOME_API_KEY", KEY)
    asyncio.run(ask_for_all(SQLiteStore(tmp_path / "sessions.db")))
    return tmp_path


@pytest.fixture
def stage(folder: Path) -> Iterator[Stage]:
    with inspected_gateway(sessions=folder, approvals=True) as made:
        yield made


def given(folder: Path, session: str = "trip") -> list[tuple[str, bool, str, str]]:
    records = asyncio.run(SQLiteStore(folder / "sessions.db").read(session))
    entries = [one.entry for one in records if isinstance(one.entry, ApprovalGiven)]
    return [(one.call_id, one.allowed, one.by, one.why) for one in entries]


def answer(call_id: str = "c0", **more: Any) -> dict[str, Any]:
    return {"session": "trip", "call_id": call_id, "allow": True, "by": "carol", **more}


def test_the_page_lists_what_waits_in_all_sessions_and_its_twin_has_the_same(stage: Stage) -> None:
    session = Session(stage)
    page = session.get("/approvals")[2].decode()
    held = session.json("/approvals.json")["calls"]
    assert [(one["session"], one["id"]) for one in held] == [("trip", "c0"), ("trip", "c1"), ("odd", "c0")]
    assert "3 calls of 2 sessions wait for an answer" in page
    assert "See you at nine." in page and "Tell Ann and Bob when we leave." in page
    assert 'href="/segue/inspector/approvals?session=trip"' in page and "over" not in {
        one["session"] for one in held
    }
    for one in held:
        assert page.count(f'data-session="{one["session"]}" data-call="{one["id"]}"') == 2
    assert 'aria-current="page">Approvals</a>' in page


def test_an_answer_is_in_the_journal_with_who_gave_it_and_why(stage: Stage, folder: Path) -> None:
    session = Session(stage)
    status, told = session.post("/api/answer", answer())
    assert (status, told["said"]) == (200, "Approved. 1 other call of the session still waits.")
    status, told = session.post("/api/answer", answer("c1", allow=False, by="dave", why="Not that early."))
    assert (status, told["said"][:8]) == (200, "Denied. ")
    assert given(folder) == [("c0", True, "carol", ""), ("c1", False, "dave", "Not that early.")]
    assert [one["session"] for one in session.json("/approvals.json")["calls"]] == ["odd"]
    noted = [(one["did"], one.get("what")) for one in session.json("/audit.json")["entries"]]
    assert ("denied a call", "c1 of session trip") in noted and (
        "allowed a call",
        "c0 of session trip",
    ) in noted


def test_of_many_who_answer_at_once_the_first_counts_and_the_others_are_told_whose_it_was(
    stage: Stage, folder: Path
) -> None:
    session = Session(stage)
    names = [f"person-{number}" for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(lambda by: session.post("/api/answer", answer(by=by)), names))
    assert sorted(status for status, _ in got) == [200] + [409] * 5
    ((_, _, first, _),) = given(folder)
    assert all(f"{first} allowed call" in told["error"] for status, told in got if status == 409)


@pytest.mark.parametrize(
    "changed",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "none"},
        {"content_type": "text/plain"},
        {"x_segue_token": "wrong"},
        {"x_segue_token": ""},
        {"cookie": "other=1"},
    ],
)
def test_nobody_answers_from_another_page_or_without_a_login(
    stage: Stage, folder: Path, changed: dict[str, str]
) -> None:
    status, told = Session(stage).post("/api/answer", answer(), **changed)
    assert status == (401 if "cookie" in changed else 403)
    assert "session" not in json.dumps(told)
    assert given(folder) == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        (answer(allow="yes"), 400),
        (answer(allow=1), 400),
        (answer(more=1), 400),
        (answer(by=" "), 400),
        (answer(by="c" * 201), 400),
        (answer(why="w" * 4001), 400),
        (b"[" * 20_000, 400),
        (answer("c9"), 404),
        (answer(session="over"), 404),
        (answer(session="nobody"), 404),
        (answer(session="../../etc"), 404),
        (answer(session="a" * 5000), 404),
    ],
)
def test_an_answer_that_is_not_clear_or_has_no_call_is_refused(
    stage: Stage, folder: Path, body: Any, status: int
) -> None:
    got, told = Session(stage).post("/api/answer", body)
    assert got == status, told
    assert str(folder) not in json.dumps(told)
    assert given(folder) == []


def test_the_page_says_who_signs_where_nobody_has_a_name(stage: Stage) -> None:
    assert f'data-by="{getpass.getuser()}"' in Session(stage).get("/approvals")[2].decode()


def test_a_gateway_without_the_setting_says_nothing_of_approvals(folder: Path) -> None:
    with inspected_gateway(sessions=folder) as stage:
        session = Session(stage)
        for path in ("/", "/errors", "/keys", "/settings"):
            assert b"/segue/inspector/approvals" not in session.get(path)[2]
        assert session.get("/approvals")[0] == session.get("/approvals.json")[0] == 404
        assert session.post("/api/answer", answer())[0] == 404
    assert given(folder) == []


def test_with_callers_operators_alone_answer_and_sign_with_the_name_of_their_key(folder: Path) -> None:
    with inspected_gateway(sessions=folder, approvals=True, callers=CALLERS) as stage:
        alice = Session(stage, key="segue-key-of-alice")
        assert b"/segue/inspector/approvals" not in alice.get("/")[2]
        for path in ("/approvals", "/approvals.json", "/approvals?session=trip"):
            status, _, body = alice.get(path)
            assert status == 403 and b"Ann" not in body
        assert alice.post("/api/answer", answer(by=""))[0] == 403
        operator = Session(stage, key=stage.run(_operator(stage)))
        page = operator.get("/approvals")[2].decode()
        assert page.count(" data-signed") == 6
        assert operator.post("/api/answer", answer(by="alice"))[0] == 400
        assert operator.post("/api/answer", answer(by=""))[0] == 200
    assert given(folder) == [("c0", True, "ops", "")]


def test_what_models_write_is_text_and_keys_are_not_shown(stage: Stage) -> None:
    session = Session(stage)
    for path in ("/approvals", "/approvals?session=odd"):
        status, headers, body = session.get(path)
        text = body.decode()
        assert status == 200 and "hostile" in text
        assert not {"\u202e", "\u2066", "\x1b"} & {*text}
        assert KEY not in text
        reader = _Markup()
        reader.feed(text)
        assert not reader.found
        assert body.count(b"<script") == 1
        assert "default-src 'none'" in headers["content-security-policy"]
    assert KEY not in json.dumps(session.json("/approvals.json"))


def test_a_session_is_shown_while_a_call_of_it_waits_and_no_other(stage: Stage) -> None:
    session = Session(stage)
    page = session.get("/approvals?session=trip")[2].decode()
    assert page.count('data-action="approve"') == 2 and "Resume with: segue -r trip" in page
    assert "1 request" in page and "/segue/inspector/r/" not in page  # a journal has no pages of requests
    for name in ("over", "nobody", "../x", "%00", XSS[:40].replace(" ", "+")):
        assert session.get(f"/approvals?session={name}")[0] == 404


def test_a_call_without_a_result_is_readable_in_a_narrow_window(browser: Browser, stage: Stage) -> None:
    tab = browser.tab()
    tab.open(stage.login_url())
    tab.until("document.querySelector('.empty')")
    for width in (360, 1280):
        tab.size(width)
        tab.open(f"{stage.page}/approvals?session=trip")
        shown = "document.querySelector('.call > summary > span:nth-child(%d)').getBoundingClientRect().%s"
        assert tab.run(shown % (2, "width")) > 150
        assert tab.run(shown % (1, "left")) < tab.run(shown % (2, "left")) - 10
    tab.close()


def test_a_click_answers_and_the_page_tells_whose_answer_holds(
    browser: Browser, stage: Stage, folder: Path
) -> None:
    tabs = [browser.tab() for _ in range(2)]
    for tab in tabs:
        tab.open(stage.login_url())
        tab.until("document.getElementById('rows') || document.querySelector('.empty')")
        tab.open(f"{stage.page}/approvals")
    first, second = tabs
    first.click('[data-session="trip"][data-call="c0"][data-action="approve"]')
    first.until("document.querySelector('dialog[open] #ask-by')")
    first.run("document.querySelector('dialog[open] #ask-by').value = 'ann'")
    first.click("dialog[open] button.main")
    first.until("document.querySelectorAll('[data-action=approve]').length === 2")
    second.click('[data-session="trip"][data-call="c0"][data-action="deny"]')
    second.until("document.querySelector('dialog[open] #ask-why')")
    second.run("document.querySelector('dialog[open] #ask-why').value = 'No.'")
    second.click("dialog[open] button.main")
    second.until("document.getElementById('told')")
    assert 'ann allowed call "c0" already' in second.text()
    assert second.run("document.querySelectorAll('[data-call=c0][data-session=trip]:disabled').length") == 2
    assert given(folder) == [("c0", True, "ann", "")]
    second.open(f"{stage.page}/approvals?session=trip")
    second.click('[data-call="c1"][data-action="deny"]')
    second.until("document.querySelector('dialog[open]')")
    second.press("Escape")
    second.until("!document.querySelector('dialog[open]')")
    assert len(given(folder)) == 1
    second.click('[data-call="c1"][data-action="deny"]')
    second.until("document.querySelector('dialog[open] #ask-why')")
    second.run("document.querySelector('dialog[open] #ask-why').value = 'Not that early.'")
    second.click("dialog[open] button.main")
    second.until("document.getElementById('told')")
    assert given(folder)[1:] == [("c1", False, getpass.getuser(), "Not that early.")]
    for tab in tabs:
        assert [one for one in tab.faults() if "409" not in one and "404" not in one] == []
        assert tab.hosts() <= {stage.url.removeprefix("http://")}
        tab.close()
