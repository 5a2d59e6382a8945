"""Approvals over real HTTP: who gets in, what is shown, whose answer holds, and what is left after kills."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from msgspec import Struct

from integrations.approvals_worker import TOKEN
from integrations.engine_agents import ROUNDS, World, open_store
from integrations.restate_server import free_port
from segue.chat.chat import Chat
from segue.errors import UsageError
from segue.integrations.approvals import approvals_app
from segue.providers.scripted import ScriptedProvider, calls, says
from segue.sessions.entries import ApprovalGiven, CallEnded, TurnEnded
from segue.sessions.stores.sqlite import SQLiteStore
from segue.sessions.stores.store import Store
from segue.tools.approval import Approval, ask_later

TESTS = Path(__file__).parent.parent
BEARER = {"authorization": f"Bearer {TOKEN}"}
HOSTILE = '<img src=x onerror="alert(1)">\u202egnp.exe\x1b[2J'


class Answer(Struct):
    """Of the server."""

    status: int
    headers: dict[str, str]
    data: Any


def ask(
    port: int,
    path: str,
    body: Any = None,
    *,
    method: str = "",
    headers: dict[str, str] | None = None,
    kind: str = "application/json",
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {
        **({"content-type": kind} if data is not None else {}),
        **(BEARER if headers is None else headers),
    }
    try:
        connection.request(method or ("GET" if data is None else "POST"), path, data, sent)
        answer = connection.getresponse()
        received = answer.read()
        held = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, held, json.loads(received) if received else None)
    finally:
        connection.close()


@contextmanager
def served(app: Any) -> Iterator[int]:
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="critical", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(10)


done: list[str] = []


def send(to: str) -> str:
    """Has an effect."""
    done.append(to)
    return f"sent to {to}"


def chat_of(store: Store, session: str, *replies: Any) -> Chat:
    return Chat(
        "one/a",
        providers={"one": ScriptedProvider(replies, name="one")},
        store=store,
        session=session,
        tools=[send],
        approval=Approval("ask", ask=ask_later),
    )


ASKED = calls(("send", {"to": "ann"}), ("send", {"to": "bob"}))


async def begin(store: Store, session: str = "trip", text: str = "Send them.", asked: Any = ASKED) -> None:
    async with chat_of(store, session, asked) as chat:
        assert (await chat.send(text)).finish == "waiting"


@pytest.fixture
def store(tmp_path: Path) -> SQLiteStore:
    done.clear()
    made = SQLiteStore(tmp_path / "sessions.db")
    asyncio.run(begin(made))
    return made


@pytest.fixture
def port(store: SQLiteStore) -> Iterator[int]:
    with served(approvals_app(store, token=TOKEN)) as number:
        yield number


def given_to(store: Store, session: str = "trip") -> list[tuple[str, bool, str, str]]:
    records = asyncio.run(store.read(session))
    entries = [record.entry for record in records if isinstance(record.entry, ApprovalGiven)]
    return [(one.call_id, one.allowed, one.by, one.why) for one in entries]


def answer(call_id: str, by: str = "carol", **more: Any) -> dict[str, Any]:
    return {"call_id": call_id, "allow": True, "by": by, **more}


def test_calls_are_listed_answered_and_the_turn_is_resumed_later(store: SQLiteStore, port: int) -> None:
    before = time.time()
    listed = ask(port, "/approvals").data
    assert [(one["id"], one["name"], one["arguments"]) for one in listed] == [
        ("c0", "send", {"to": "ann"}),
        ("c1", "send", {"to": "bob"}),
    ]
    first = listed[0]
    assert (first["session"], first["title"], first["model"], first["agent"], first["turn"]) == (
        "trip",
        "Send them.",
        "one/a",
        "",
        "",
    )
    assert before - 60 < first["since"] <= before
    assert ask(port, "/trip/approvals").data == listed
    assert ask(port, "/nobody/approvals").data == []
    assert ask(port, "/trip/approve", answer("c0", why="fine")).data == answer("c0", why="fine")
    assert [one["id"] for one in ask(port, "/approvals").data] == ["c1"]
    assert ask(port, "/trip/approve", answer("c1", allow=False, by="dave", why="Not bob.")).status == 200
    assert (ask(port, "/approvals").data, done) == ([], [])

    async def resume() -> str:
        async with chat_of(store, "trip", says("Done.")) as chat:
            return (await chat.resume()).text

    assert (asyncio.run(resume()), done) == ("Done.", ["ann"])
    assert given_to(store) == [("c0", True, "carol", "fine"), ("c1", False, "dave", "Not bob.")]


def test_a_process_that_waits_resumes_when_somebody_has_answered_elsewhere(tmp_path: Path) -> None:
    done.clear()
    store = SQLiteStore(tmp_path / "sessions.db")

    async def wait(port: int) -> str:
        async with chat_of(store, "trip", ASKED, says("Done.")) as chat:
            assert (await chat.send("Send them.")).finish == "waiting"
            waiting = asyncio.create_task(chat.wait_for_approvals(every=0.02))
            for call in ("c1", "c0"):
                assert not waiting.done()
                assert (await asyncio.to_thread(ask, port, "/trip/approve", answer(call))).status == 200
            await asyncio.wait_for(waiting, 10)
            assert chat.approvals == ()
            return (await chat.resume()).text

    with served(approvals_app(store, token=TOKEN)) as port:
        assert (asyncio.run(wait(port)), done) == ("Done.", ["ann", "bob"])


def test_without_a_token_or_a_login_it_refuses_to_start(store: SQLiteStore) -> None:
    with pytest.raises(UsageError, match="need a token or a login"):
        approvals_app(store)
    with pytest.raises(UsageError, match="need a token or a login"):  # a variable that is not set
        approvals_app(store, token="")
    with pytest.raises(UsageError, match="not both"):
        approvals_app(store, token=TOKEN, login=lambda _scope: "carol")


def test_a_token_that_can_be_guessed_is_refused(store: SQLiteStore) -> None:
    with pytest.raises(UsageError, match="shorter than 16"):
        approvals_app(store, token="guess")  # noqa: S106 - it is none


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"cookie": f"token={TOKEN}"},
        {"authorization": "Bearer \xe9\xe9"},
    ],
)
def test_nobody_gets_in_without_the_token(store: SQLiteStore, port: int, headers: dict[str, str]) -> None:
    for path in ("/approvals", "/trip/approvals", "/nowhere"):
        got = ask(port, path, headers=headers)
        assert (got.status, got.headers["www-authenticate"]) == (401, "Bearer")
        assert "ann" not in str(got.data)
    assert ask(port, "/trip/approve", answer("c0"), headers=headers).status == 401
    assert ask(port, f"/approvals?token={TOKEN}", headers=headers).status == 401
    assert given_to(store) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ],
)
def test_a_page_of_another_site_cannot_answer_with_the_cookies_of_a_colleague(
    store: SQLiteStore, changed: dict[str, str]
) -> None:
    with served(approvals_app(store, login=lambda _scope: "carol")) as port:
        assert ask(port, "/trip/approve", answer("c0"), headers=changed).status == 403
        assert ask(port, "/approvals", headers=changed).status == 403
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            assert ask(port, "/trip/approve", answer("c0"), headers={}, kind=kind).status == 415
        assert ask(port, "/trip/approve?call_id=c0&allow=true", headers={}).status == 405
        got = ask(port, "/approvals", method="OPTIONS", headers={"origin": f"http://127.0.0.1:{port}"})
        assert not [name for name in got.headers if name.startswith("access-control")]
        assert given_to(store) == []
        own = {"origin": f"http://127.0.0.1:{port}", "sec-fetch-site": "same-origin"}
        assert ask(port, "/trip/approve", answer("c0"), headers=own).status == 200


def test_a_login_signs_the_answers_and_nobody_answers_as_somebody_else(store: SQLiteStore) -> None:
    async def login(scope: Any) -> str | None:
        return dict(scope["headers"]).get(b"x-user", b"").decode() or None

    with served(approvals_app(store, login=login)) as port:
        assert ask(port, "/approvals", headers=BEARER).status == 401
        assert ask(port, "/trip/approve", answer("c0"), headers={}).status == 401
        carol = {"x-user": "carol"}
        assert ask(port, "/trip/approve", answer("c0", by="dave"), headers=carol).status == 400
        assert ask(port, "/trip/approve", {"call_id": "c0", "allow": True}, headers=carol).status == 200
    assert given_to(store) == [("c0", True, "carol", "")]


def test_the_first_answer_holds_and_the_second_learns_whose_it_was(store: SQLiteStore, port: int) -> None:
    with ThreadPoolExecutor(8) as pool:
        names = [f"person-{number}" for number in range(8)]
        got = list(pool.map(lambda by: ask(port, "/trip/approve", answer("c0", by=by)), names))
    assert sorted(one.status for one in got) == [200] + [409] * 7
    (winner,) = (one.data["by"] for one in got if one.status == 200)
    for one in got:
        if one.status == 409:
            assert one.data["answer"] == {"by": winner, "allow": True, "why": ""}
            assert winner in one.data["message"]
            assert abs(one.data["at"] - time.time()) < 60
    assert given_to(store) == [("c0", True, winner, "")]


def test_an_answer_that_is_sent_again_under_its_key_is_given_once(store: SQLiteStore, port: int) -> None:
    again = {**BEARER, "idempotency-key": "k1"}
    for _ in range(2):
        assert ask(port, "/trip/approve", answer("c0"), headers=again).status == 200
    assert ask(port, "/trip/approve", answer("c0", allow=False), headers=again).status == 409
    assert ask(port, "/trip/approve", answer("c0", by="mallory"), headers=again).status == 409
    assert ask(port, "/trip/approve", answer("c0")).status == 409
    assert len(given_to(store)) == 1


def test_what_is_gone_is_not_found_and_what_was_answered_stays_a_conflict(
    store: SQLiteStore, port: int
) -> None:
    for path, call in (("/trip/approve", "c9"), ("/nobody/approve", "c0"), ("/trip/approve", "")):
        assert ask(port, path, answer(call)).status == 404
    assert ask(port, "/trip/approve", answer("c0")).status == 200

    async def replace() -> None:
        async with chat_of(store, "trip", says("Never mind.")) as chat:
            await chat.send("Never mind.")

    asyncio.run(replace())
    gone, late = ask(port, "/trip/approve", answer("c1")), ask(port, "/trip/approve", answer("c0", by="dave"))
    assert (gone.status, gone.data["reason"]) == (404, "unknown_approval")
    assert (late.status, late.data["answer"]["by"]) == (409, "carol")
    assert (ask(port, "/approvals").data, done) == ([], [])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        {"call_id": "c0", "by": "carol"},
        {"call_id": "c0", "by": "carol", "allow": "false"},
        {"call_id": "c0", "by": "carol", "allow": 1},
        {"call_id": "c0", "by": "carol", "alow": False, "allow": True},
        {"call_id": "c0", "by": "", "allow": True},
        {"call_id": "c0", "by": "  ", "allow": True},
        {"call_id": "c0", "by": "c" * 201, "allow": True},
        {"call_id": "c0", "by": "carol", "allow": True, "why": "w" * 4001},
        b'{"call_id": "c0", "allow": true, "by": "carol", "why": ' + b"[" * 20_000,
    ],
)
def test_an_answer_that_is_not_clear_is_refused(store: SQLiteStore, port: int, body: Any) -> None:
    got = ask(port, "/trip/approve", body)
    assert (got.status, got.data["reason"]) == (400, "bad_answer")
    assert given_to(store) == []


def test_a_body_that_is_too_large_is_refused(store: SQLiteStore, port: int) -> None:
    assert ask(port, "/trip/approve", b" " * 70_000).status == 413
    assert ask(port, "/approvals?limit=x").status == 400
    assert ask(port, "/approvals?limit=999999").status == 400
    assert len(ask(port, "/approvals?limit=1").data) == 1
    for path in (
        "/",
        "/trip",
        "/trip/send",
        "/../approvals",
        "/%2e%2e%2f/approvals",
        f"/{'x' * 101}/approvals",
    ):
        assert ask(port, path).status == 404


def test_hostile_names_are_data_and_never_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-of-a-provider-1234567890"
    monkeypatch.setenv("SOME_API_KEY", key)
    store = SQLiteStore(tmp_path / "sessions.db")
    asyncio.run(begin(store, "odd", HOSTILE, calls(("send", {"to": f"{HOSTILE} {key}"}))))
    with served(approvals_app(store, token=TOKEN)) as port:
        got = ask(port, "/approvals")
        assert got.headers["content-type"] == "application/json"
        assert got.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in got.headers["content-security-policy"]
        assert HOSTILE in got.data[0]["arguments"]["to"]
        assert key not in str(got.data)
        ask(port, "/odd/approve", answer("c0", by=HOSTILE))
        late = ask(port, "/odd/approve", answer("c0"))
        assert (late.status, late.data["answer"]["by"]) == (409, HOSTILE)
    assert given_to(store, "odd")[0][2] == HOSTILE


def test_it_can_be_mounted_below_the_path_of_restates_agents(store: SQLiteStore) -> None:
    starlette = pytest.importorskip("starlette")
    assert starlette
    from starlette.applications import Starlette
    from starlette.routing import Mount

    app = Starlette(routes=[Mount("/Agent", approvals_app(store, token=TOKEN))])
    with served(app) as port:
        assert len(ask(port, "/Agent/trip/approvals").data) == 2
        assert ask(port, "/Agent/trip/approve", answer("c0")).status == 200
        assert [one["id"] for one in ask(port, "/Agent/approvals").data] == ["c1"]


def test_a_list_reads_only_the_sessions_that_have_changed(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "sessions.db")

    async def listed() -> None:
        from segue.sessions.approvals import WaitingCalls

        for number in range(4):
            await begin(store, f"waits-{number}")
        async with chat_of(store, "over", says("Hello.")) as chat:
            await chat.send("Hello.")
        waiting, read = WaitingCalls(store), list[str]()
        whole = store.read

        async def counted(session: str, *, after: int = 0) -> Any:
            read.append(session)
            return await whole(session, after=after)

        store.read = counted  # type: ignore[method-assign]  # the store itself, counted
        assert len(await waiting.find()) == 8
        assert read.count("over") == 1  # only its end
        read.clear()
        assert len(await waiting.find()) == 8
        assert read == []
        async with chat_of(store, "waits-0", says("Well.")) as chat:
            await chat.send("Leave it.")
        read.clear()
        assert len(await waiting.find()) == 6
        assert set(read) == {"waits-0"}

    asyncio.run(listed())


# Kills


def _start(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", "integrations.approvals_worker", *words],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )


def _until(find: Callable[[], Any], seconds: float = 30.0) -> Any:
    deadline = time.monotonic() + seconds
    while True:
        with suppress(OSError, http.client.HTTPException):
            if found := find():
                return found
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.timeout(120)
def test_a_worker_that_is_killed_behind_the_answer_repeats_no_effect_and_loses_no_answer(
    tmp_path: Path,
) -> None:
    chance = random.Random()
    store, world = open_store(tmp_path, ""), World(tmp_path)
    with served(approvals_app(store, token=TOKEN)) as port:
        answered = list[str]()
        worker = _start("work", str(tmp_path), "s", "0.2")
        for _ in range(ROUNDS):
            (call,) = _until(
                lambda: [one for one in ask(port, "/approvals").data if one["id"] not in answered]
            )
            assert ask(port, "/s/approve", answer(call["id"])).status == 200
            answered.append(call["id"])
            time.sleep(chance.uniform(0.0, 0.3))
            worker.kill()
            worker.wait()
            worker = _start("work", str(tmp_path), "s", "0.2")
        assert worker.wait(60) == 0
    assert [call for call, *_ in given_to(store, "s")] == answered
    records = asyncio.run(store.read("s"))
    assert [one.entry.finish for one in records if isinstance(one.entry, TurnEnded)][-1] == "complete"
    effects = [one.call_id for one in world.all() if one.what == "send" and one.had_effect]
    assert len(effects) == len(set(effects))
    ends = {one.entry.result.call_id: one.entry.result for one in records if isinstance(one.entry, CallEnded)}
    for call_id in answered:  # it ran, or its end says that nobody knows
        assert (
            ends[call_id].output == f"sent {answered.index(call_id)}" or ends[call_id].reason == "interrupted"
        )


@pytest.mark.timeout(120)
def test_a_server_that_is_killed_while_it_takes_an_answer_has_it_whole_or_not_at_all(tmp_path: Path) -> None:
    chance = random.Random()
    store = open_store(tmp_path, "")
    for number in range(6):
        asyncio.run(begin(store, f"s{number}", asked=calls(("send", {"to": "ann"}))))
    port = free_port()
    for number in range(6):
        server = _start("serve", str(tmp_path), str(port))
        _until(lambda: ask(port, "/approvals"))
        killing = threading.Timer(chance.uniform(0.0, 0.02), server.kill)
        killing.start()
        first = 0
        with suppress(OSError, http.client.HTTPException):
            first = ask(port, f"/s{number}/approve", answer("c0", by="first")).status
        killing.join()
        server.wait()
        server = _start("serve", str(tmp_path), str(port))
        try:
            _until(lambda: ask(port, "/approvals"))
            second = ask(port, f"/s{number}/approve", answer("c0", by="second"))
        finally:
            server.kill()
            server.wait()
        ((_, _, by, _),) = given_to(store, f"s{number}")
        assert (second.status, by) in ((200, "second"), (409, "first"))
        assert first != 200 or by == "first"
