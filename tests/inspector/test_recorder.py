"""What is recorded is bounded, holds no key, and never stands in the way of a request."""

from __future__ import annotations

import csv
import http.client
import json
import shlex
import time
from collections.abc import Iterator

import pytest

from inspector.browser import Browser
from inspector.story import GPT, HEADERS, Agent, Session, Stage, inspected_gateway
from segue.emulators.faults import Fault
from segue.inspector.pages import overview
from segue.inspector.record.recorder import Recorder
from segue.inspector.record.records import ConversationRecord
from segue.text.redaction import forget_secret, remember_secret


@pytest.fixture(scope="module")
def small() -> Iterator[Stage]:
    with inspected_gateway(max_bytes=300_000, max_requests=40) as made:
        yield made


def test_content_stays_below_its_bound_and_figures_below_theirs(small: Stage) -> None:
    for number in range(12):
        agent = Agent(small.url)
        agent.system = f"{number} " + "x" * 20_000
        agent.turn(f"Question {number}")
        agent.turn("And then?")
    session = Session(small)
    listed = [
        one for one in session.json("/index.json")["conversations"] if one["title"].startswith("Question")
    ]
    recorder = small.inspector.recorder
    assert recorder.held_bytes <= 300_000
    assert len(recorder.requests) <= 40
    assert len(listed) == 12
    newest, oldest = listed[0], listed[-1]
    assert b"Question 11" in session.get(f"/c/{newest['id']}")[2]
    page = session.get(f"/c/{oldest['id']}")[2]
    assert b"You said: Question 0" not in page and b"are forgotten" in page


def test_a_known_key_is_cut_out_before_it_is_recorded(small: Stage) -> None:
    value = "zzz-a-secret-of-this-process-123456"
    remember_secret(value)
    try:
        agent = Agent(small.url)
        agent.system = "short"
        agent.turn(f"My key is {value}, keep it.")
        session = Session(small)
        request = session.json(f"/c/{agent.conversation}/requests.json")["requests"][0]["id"]
        for form in ("client", "provider"):
            body = session.get(f"/r/{request}?raw={form}")[2]
            assert value.encode() not in body and b"[redacted]" in body
    finally:
        forget_secret(value)


def test_a_request_that_no_provider_got_is_recorded_with_its_error(small: Stage) -> None:
    body = {"model": "nobody/has-this", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    status, _, _ = small.ask("/v1/messages", "POST", body, HEADERS)
    assert status == 404
    errors = Session(small).json("/errors.json")["errors"]
    assert any(one["code"] == "model_not_found" and one["reached"] == 1 for one in errors)


def test_every_page_has_a_twin_with_the_same_figures(stage: Stage, agent: Agent, session: Session) -> None:
    twin = session.json(f"/c/{agent.conversation}.json")
    page = session.get(f"/c/{agent.conversation}")[2].decode()
    assert f"${twin['conversation']['dollars']:.3f}" in page
    assert f"{twin['conversation']['turns']} turns, {twin['conversation']['requests']} requests" in page
    reported = session.json(f"/c/{agent.conversation}/requests.json")["requests"]
    assert sum(one["dollars"] for one in reported) == pytest.approx(twin["conversation"]["dollars"])


def test_of_ten_thousand_conversations_a_hundred_are_shown(
    stage: Stage, agent: Agent, session: Session
) -> None:
    recorder: Recorder = stage.inspector.recorder
    made = [f"many-{number}" for number in range(9_900)]
    with recorder.lock:
        for name in made:
            recorder.conversations[name] = ConversationRecord(
                id=name,
                caller="local",
                first_words=f"Title {name}",
                updated=time.time() - 5000,
                routes=["openai/gpt-5.5"],
            )
    try:
        status, _, body = session.get("/")
        assert status == 200
        assert len(body) < 200_000
        assert b"more: narrow the filter" in body
        assert len(session.json("/index.json?q=many-77")["conversations"]) > 10
    finally:
        with recorder.lock:
            for name in made:
                del recorder.conversations[name]


def test_a_request_of_five_megabytes_is_opened_folded(stage: Stage, agent: Agent, session: Session) -> None:
    big = Agent(stage.url)
    big.system = "short"
    big.turn("x" * 5_000_000)
    request = session.json(f"/c/{big.conversation}/requests.json")["requests"][0]["id"]
    status, _, body = session.get(f"/r/{request}")
    assert status == 200
    assert len(body) < 100_000
    assert b"more characters" in body
    assert len(session.get(f"/r/{request}?raw=client")[2]) > 5_000_000


def _stream(stage: Stage, session: Session) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(stage.url.removeprefix("http://"), timeout=20)
    connection.request("GET", "/segue/inspector/events", headers={"cookie": session.cookie})
    return connection, connection.getresponse()


def test_fifty_pages_watch_and_a_slow_one_holds_nobody_up(stage: Stage, agent: Agent) -> None:
    sessions = [Session(stage) for _ in range(10)]
    watching = [_stream(stage, sessions[number % 10]) for number in range(50)]
    try:
        assert all(one.status == 200 for _, one in watching)
        other = Agent(stage.url)
        other.system = "short"
        other.turn("Is somebody watching?")
        for _, one in watching[:5]:  # the others never read
            while not (line := one.readline()).startswith(b'data: {"rows'):
                assert line
            assert other.conversation in json.loads(line[6:])["rows"][0]["id"]
    finally:
        for connection, one in watching:
            one.close()
            connection.close()


def test_a_watcher_that_was_away_gets_what_it_missed_or_fetches_anew(stage: Stage, agent: Agent) -> None:
    channel = stage.inspector.channel
    assert channel.since(channel.count) == []
    assert channel.since(channel.count + 5) is None
    for number in range(3):
        channel._ring.append((channel.count + 1, f"c{number}"))
        channel.count += 1
    assert channel.since(channel.count - 2) == ["c1", "c2"]


def test_a_fork_becomes_a_session(
    stage: Stage, agent: Agent, session: Session, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    status, said = session.post("/api/fork", {"conversation": agent.conversation, "turn": 2})
    assert status == 200
    assert said["said"] == f"Forked. Resume with: segue -r {said['session']}"


def test_the_filter_knows_words() -> None:
    row = overview.ListedConversation(
        id="c",
        title="Refunds",
        client="Claude Code",
        routes=["gemini/gemini-3.5-flash"],
        losses=2,
        dollars=0.6,
    )
    for question, fits in {
        "client:claude": True,
        "client:codex": False,
        "model:gemini*": True,
        "model:gpt*": False,
        "has:loss cost:>0.50": True,
        "cost:<0.50": False,
        "refunds": True,
        "nothing": False,
    }.items():
        assert overview.fits(row, question) == fits, question


def test_the_gateways_front_page_says_what_it_is_to_browsers_only(stage: Stage) -> None:
    status, _, body = stage.ask("/", headers={"accept": "text/html"})
    assert status == 200 and b"segue gateway" in body and b"/segue/inspector/" in body
    assert stage.ask("/", headers={"accept": "*/*"})[2] == b""


def test_a_request_waits_for_no_page(stage: Stage, agent: Agent) -> None:
    other = Agent(stage.url, model="gpt")
    other.system = "short"
    with stage.inspector.recorder.lock:  # as a page holds it while it is made
        other.turn("Is a page being made?")
    assert Session(stage).json(f"/c/{other.conversation}.json")["conversation"]["requests"] == 1


def test_the_page_comes_back_with_its_gateway(browser: Browser) -> None:
    tab = browser.tab()
    with inspected_gateway() as stage:
        port = int(stage.url.rpartition(":")[2])
        tab.open(stage.login_url())
        tab.until("document.getElementById('live')?.innerText.includes('live')")
    tab.until("document.getElementById('live').dataset.kind === 'away'")
    with inspected_gateway(port=port) as stage:
        mine = Agent(stage.url, model="gpt")
        mine.system = "short"
        mine.turn("Are you back?")
        tab.until("document.getElementById('live').dataset.kind !== 'away'", 30)
        tab.until(
            "document.body.innerText.includes('Are you back?') || !document.getElementById('newer').hidden"
        )
    tab.close()


def test_routes_say_what_is_left_of_the_providers_limits(stage: Stage, session: Session) -> None:
    other = Agent(stage.url, model="gpt")
    other.system = "short"
    other.turn("How much is left?")
    held = next(one for one in session.json("/routes.json")["routes"] if one["route"] == GPT)
    assert 0 < held["requests_left"] <= 1
    assert any("requests left" in said for said in held["left"])
    assert b"Requests left" in session.get("/routes")[2]


def test_a_reply_says_what_the_cache_should_give_as_the_page_does(stage: Stage, session: Session) -> None:
    other = Agent(stage.url)
    other.system += " Another one."
    said = []
    for text in ("Hello there.", "And again."):
        other.turn(text)
        said.append(other.received["x-segue-cache"])
    outcomes = session.json(f"/c/{other.conversation}/cache.json")["outcomes"]
    expected = [one.get("predicted") for one in outcomes]
    assert [line.partition(",")[0] for line in said] == [f"expected={number}" for number in expected]
    assert 'cause="first request"' in said[0] and "cause" not in said[1]
    assert expected[1] > 1000 and outcomes[1]["reported"] == expected[1]


def test_the_cache_of_a_conversation_is_saved_as_a_table(session: Session, agent: Agent) -> None:
    twin = session.json(f"/c/{agent.conversation}/cache.json")["outcomes"]
    status, headers, body = session.get(f"/c/{agent.conversation}/cache?export=csv")
    assert status == 200 and headers["content-disposition"].endswith('.csv"')
    rows = list(csv.DictReader(body.decode().splitlines()))
    assert [row["id"] for row in rows] == [one["request"] for one in twin]
    assert [row["cause"] for row in rows if row["cause"]] == [one["cause"] for one in twin if one.get("lost")]


def test_a_failure_leads_to_the_doctor_and_to_a_reproduction(stage: Stage, session: Session) -> None:
    stage.emulator.faults.append(Fault(status=403, retry_after=None, provider="anthropic"))
    body = {"model": "anthropic/claude-opus-4-7", "max_tokens": 5}
    body["messages"] = [{"role": "user", "content": "it isn't right"}]
    assert stage.ask("/v1/messages", "POST", body, HEADERS)[0] == 500
    failed = next(one for one in session.json("/errors.json")["errors"] if one.get("status") == 403)
    name = failed["requests"][0]
    page = session.get("/errors")[2].decode()
    assert f"/doctor?request={name}" in page and f"/r/{name}?raw=curl&amp;save" in page
    assert session.get(f"/doctor?request={name}")[0] == 200
    _, headers, command = session.get(f"/r/{name}?raw=curl&save")
    assert headers["content-disposition"] == 'attachment; filename="request-1.sh"'
    words = shlex.split(command.decode())
    assert words[0] == "curl" and "x-api-key: $KEY" in words
    assert json.loads(words[-1])["messages"] == body["messages"]
