"""The attacks on the pages: rebinding, cross-site requests, frames, tokens that were used, cookies of others, hostile content."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from inspector.story import HEADERS, KEY, SAME_ORIGIN, Agent, Session, Stage, inspected_gateway
from segue.config.schema import CallerSettings
from segue.gateway.accounts.account import digest_of
from segue.gateway.accounts.caller_keys import REFRESH_SECONDS
from segue.gateway.memory.installation_key import InstallationKey
from segue.inspector.access.logins import new_token

PAGE = "/segue/inspector/"
LOGIN = "/segue/inspector/login"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8484",
        "127.0.0.1:1",
        "localhost.evil.example",
        "",
        "127.0.0.1@evil.example",
    ],
)
def test_a_name_that_is_led_here_is_refused_before_anything_else(stage: Stage, host: str) -> None:
    for path in (PAGE, LOGIN, f"{PAGE}static/000000000000/inspector.js", f"{PAGE}events"):
        status, _, body = stage.ask(path, headers={"host": host, "accept": "text/html"})
        assert status == 403
        assert b"segue" not in body.lower()


def test_this_machines_names_with_our_port_are_let_in(stage: Stage) -> None:
    port = stage.url.rpartition(":")[2]
    for name in ("127.0.0.1", "localhost", "[::1]"):
        assert stage.ask(LOGIN, headers={"host": f"{name}:{port}", "accept": "text/html"})[0] == 200


def test_without_a_login_there_is_no_page_no_data_and_no_stream(stage: Stage, agent: Agent) -> None:
    for path in (
        "",
        "index.json",
        f"c/{agent.conversation}",
        f"c/{agent.conversation}.json",
        "events",
        "keys",
        "settings.json",
    ):
        status, _, body = stage.ask(PAGE + path, headers={"accept": "application/json"})
        assert status == 401
        assert b"refund" not in body


def test_a_token_opens_the_pages_once(stage: Stage) -> None:
    token = new_token(KEY)
    Session(stage, token=token)
    assert stage.ask(LOGIN, "POST", {"token": token}, SAME_ORIGIN)[0] == 403


def test_an_old_a_foreign_and_a_changed_token_open_nothing(stage: Stage) -> None:
    good = new_token(KEY)
    for token in (
        new_token(KEY, time.time() - 61),
        new_token(KEY, time.time() + 600),
        new_token(InstallationKey(b"x" * 32)),
        good[:-2] + ("A" if good[-2] != "A" else "B") + good[-1],
        "",
        "é" * 40,
        "A" * 5000,
    ):
        assert stage.ask(LOGIN, "POST", {"token": token}, SAME_ORIGIN)[0] in (400, 403, 413)


def test_the_cookie_is_for_this_port_and_for_no_script(stage: Stage) -> None:
    _, headers, _ = stage.ask(LOGIN, "POST", {"token": new_token(KEY)}, SAME_ORIGIN)
    name, _, rest = headers["set-cookie"].partition("=")
    assert name == f"segue_inspector_{stage.url.rpartition(':')[2]}"
    for word in ("HttpOnly", "SameSite=Strict", "Path=/segue/inspector"):
        assert word in rest


def test_a_changed_cookie_is_nobodys(stage: Stage, session: Session) -> None:
    for cookie in (session.cookie[:-3] + "AAA", session.cookie.partition("=")[0] + "=x", "other=1"):
        assert stage.ask(PAGE, headers={"cookie": cookie, "accept": "application/json"})[0] == 401


@pytest.mark.parametrize(
    "changed",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": ""},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"x-segue-token": "wrong"},
        {"x-segue-token": ""},
    ],
)
def test_nothing_is_changed_by_a_request_of_another_page(
    session: Session, agent: Agent, changed: dict[str, str]
) -> None:
    before = session.json(f"/c/{agent.conversation}.json")["conversation"]["switched"]
    headers = {name.replace("-", "_"): value for name, value in changed.items()}
    status, _ = session.post("/api/switch", {"conversation": agent.conversation, "model": "gpt"}, **headers)
    assert status == 403
    assert session.json(f"/c/{agent.conversation}.json")["conversation"]["switched"] == before


def test_a_get_changes_nothing(session: Session, agent: Agent) -> None:
    assert session.get(f"/api/switch?conversation={agent.conversation}&model=gpt")[0] == 404
    assert session.get("/logout")[0] == 404
    assert session.get("/")[0] == 200


def test_a_page_of_another_site_can_neither_fetch_nor_frame(stage: Stage, session: Session) -> None:
    cookie = {"cookie": session.cookie, "accept": "text/html"}
    for mode, dest in (("no-cors", "script"), ("cors", "empty"), ("navigate", "iframe")):
        sent = {**cookie, "sec-fetch-site": "cross-site", "sec-fetch-mode": mode, "sec-fetch-dest": dest}
        assert stage.ask(f"{PAGE}index.json", headers=sent)[0] == 403
    _, headers, _ = stage.ask(PAGE, headers=cookie)
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"


def test_every_answer_carries_the_strict_policy_and_no_cors(stage: Stage, session: Session) -> None:
    for path in ("", "index.json", "nowhere", "login"):
        sent = {"cookie": session.cookie, "accept": "text/html", "origin": "https://evil.example"}
        _, headers, _ = stage.ask(PAGE + path, headers=sent)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "require-trusted-types-for 'script'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert not any(name.startswith("access-control") for name in headers)


def test_a_preflight_of_another_site_is_told_nothing(stage: Stage) -> None:
    sent = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    status, headers, _ = stage.ask(f"{PAGE}api/switch", "OPTIONS", headers=sent)
    assert status >= 400
    assert not any(name.startswith("access-control") for name in headers)


def test_a_login_that_was_ended_is_over(stage: Stage) -> None:
    mine = Session(stage)
    assert mine.post("/logout", {})[0] == 200
    assert mine.get("/")[0] == 401


def test_one_login_has_at_most_six_streams(stage: Stage) -> None:
    import http.client

    mine, held = Session(stage), list[http.client.HTTPConnection]()
    try:
        answers = []
        for _ in range(7):
            connection = http.client.HTTPConnection(stage.url.removeprefix("http://"), timeout=10)
            held.append(connection)
            connection.request("GET", "/segue/inspector/events", headers={"cookie": mine.cookie})
            answers.append(connection.getresponse().status)
        assert answers == [200] * 6 + [429]
    finally:
        for connection in held:
            connection.close()


def test_a_file_outside_of_the_static_folder_is_not_served(stage: Stage) -> None:
    digest = stage.ask(LOGIN, headers={"accept": "text/html"})[2].decode().partition("/static/")[2][:12]
    for name in ("..%2f..%2finspector.py", "../shell.py", "inspector.css.bak", "nothing.js"):
        assert stage.ask(f"{PAGE}static/{digest}/{name}", headers={"accept": "*/*"})[0] in (401, 404)


def test_a_raw_body_is_never_a_page(session: Session, agent: Agent) -> None:
    request = session.json(f"/c/{agent.conversation}/requests.json")["requests"][0]["id"]
    for form in ("client", "provider", "answer", "curl"):
        status, headers, _ = session.get(f"/r/{request}?raw={form}")
        assert status == 200
        assert headers["content-type"].startswith("text/plain")


def test_no_key_is_recorded_shown_or_exported(stage: Stage, session: Session, agent: Agent) -> None:
    request = session.json(f"/c/{agent.conversation}/requests.json")["requests"][0]["id"]
    paths = [
        f"/r/{request}",
        f"/r/{request}?raw=curl",
        f"/r/{request}.json",
        f"/c/{agent.conversation}?export=html",
        "/settings",
        "/settings.json",
    ]
    for path in paths:
        body = session.get(path)[2]
        assert HEADERS["x-api-key"].encode() not in body
        assert b"sk-emulated" not in body


# Callers

CALLERS = {name: CallerSettings(key_sha256=digest_of(f"segue-key-of-{name}")) for name in ("alice", "bob")}


@pytest.fixture(scope="module")
def shared() -> Iterator[Stage]:
    with inspected_gateway(callers=CALLERS, content="memory", operators_see_content=True) as made:
        yield made


def _agent(stage: Stage, name: str) -> Agent:
    mine = Agent(stage.url, {**HEADERS, "x-api-key": f"segue-key-of-{name}"})
    mine.turn(f"A secret of {name}")
    return mine


def test_with_callers_a_token_opens_nothing_and_a_key_does(shared: Stage) -> None:
    assert shared.ask(LOGIN, "POST", {"token": new_token(KEY)}, SAME_ORIGIN)[0] == 403
    assert shared.ask(LOGIN, "POST", {"key": "segue-wrong"}, SAME_ORIGIN)[0] == 403
    assert Session(shared, key="segue-key-of-alice").get("/")[0] == 200


def test_a_caller_sees_its_own_conversations_and_nobody_elses(shared: Stage) -> None:
    hers, his = _agent(shared, "alice"), _agent(shared, "bob")
    alice = Session(shared, key="segue-key-of-alice")
    assert b"secret of alice" in alice.get(f"/c/{hers.conversation}")[2]
    for path in (
        f"/c/{his.conversation}",
        f"/c/{his.conversation}.json",
        f"/c/{his.conversation}/as",
        f"/c/{his.conversation}?export=html",
    ):
        status, _, body = alice.get(path)
        assert status == 404
        assert b"secret of bob" not in body
    assert his.conversation.encode() not in alice.get("/")[2]
    status, _ = alice.post("/api/switch", {"conversation": his.conversation, "model": "gpt"})
    assert status == 404


def test_only_operators_get_the_operators_pages(shared: Stage) -> None:
    alice = Session(shared, key="segue-key-of-alice")
    for path in ("/keys", "/log", "/audit", "/settings", "/keys.json"):
        assert alice.get(path)[0] == 403
    for action in ("key-create", "key-limits", "key-rotate", "key-revoke", "key-remove"):
        assert alice.post(f"/api/{action}", {"name": "mallory"})[0] == 403


def test_an_operator_sees_figures_and_content_only_after_a_noted_look(shared: Stage) -> None:
    his = _agent(shared, "bob")
    key = shared.run(_operator(shared))
    operator = Session(shared, key=key)
    assert b"secret of bob" not in operator.get(f"/c/{his.conversation}")[2]
    assert operator.post("/api/reveal", {"conversation": his.conversation})[0] == 200
    assert b"secret of bob" in operator.get(f"/c/{his.conversation}")[2]
    looked = [one for one in operator.json("/audit.json")["entries"] if one["did"] == "looked at content"]
    assert looked and looked[0]["what"] == f"{his.conversation} of bob"
    shared.run(shared.gateway.accounts.administration.revoke("ops"))
    time.sleep(REFRESH_SECONDS + 0.1)
    assert operator.get("/")[0] == 401


def test_operators_change_every_limit_and_see_the_configured_callers_too(shared: Stage) -> None:
    operator = Session(shared, key=shared.run(_operator(shared, "chief")))
    limits = {"dollars_per_day": 2.5, "dollars_per_month": 40, "requests_per_minute": 7}
    more = {"tokens_per_minute": 900, "concurrent": 2, "models": ["claude-*"]}
    status, made = operator.post("/api/key-create", {"name": "dora", **limits})
    assert status == 200 and made["key"]
    assert operator.post("/api/key-limits", {"name": "dora", **limits, **more})[0] == 200
    assert operator.post("/api/key-limits", {"name": "dora", "concurrent": -1})[0] == 400
    held = {one["name"]: one for one in operator.json("/keys.json")["callers"]}
    assert {"alice", "bob", "dora", "chief"} <= held.keys()
    assert held["dora"]["allowance"] == {**limits, **more}
    page = operator.get("/keys")[2]
    assert b"in the configuration" in page and made["key"].encode() not in page
    status, rotated = operator.post("/api/key-rotate", {"name": "dora"})
    assert status == 200 and rotated["key"] != made["key"]
    assert operator.post("/api/key-revoke", {"name": "dora"})[0] == 200
    assert operator.post("/api/key-remove", {"name": "dora"})[0] == 200
    assert "dora" not in {one["name"] for one in operator.json("/keys.json")["callers"]}
    did = [one["did"] for one in operator.json("/audit.json")["entries"] if one.get("what") == "dora"]
    assert did == ["removed the caller", "revoked the key", "rotated the key", "changed limits", "made a key"]


async def _operator(stage: Stage, name: str = "ops") -> str:
    from segue.config.schema import Allowance

    key = await stage.gateway.accounts.administration.create(name, Allowance(), labels={}, admin=True)
    await asyncio.sleep(REFRESH_SECONDS + 0.1)
    return key


def test_without_the_second_permission_an_operator_reads_nothing() -> None:
    with inspected_gateway(callers=CALLERS, content="memory") as stage:
        his = _agent(stage, "bob")
        operator = Session(stage, key=stage.run(_operator(stage)))
        assert operator.post("/api/reveal", {"conversation": his.conversation})[0] == 403
        assert b"secret of bob" not in operator.get(f"/c/{his.conversation}")[2]


def test_with_callers_no_content_is_recorded_unless_the_settings_say_so() -> None:
    with inspected_gateway(callers=CALLERS) as stage:
        hers = _agent(stage, "alice")
        page = Session(stage, key="segue-key-of-alice").get(f"/c/{hers.conversation}")[2]
        assert b"secret of alice" not in page and b"records no content" in page
        assert stage.inspector.recorder.held_bytes == 0
