"""The ten questions that the pages answer, asked in a real browser on the story."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from inspector.browser import Tab
from inspector.story import GEMINI, GPT, MISTRAL, OPUS, TURNS, Agent, Session, Stage
from segue.gateway.telemetry.report import RequestReport
from segue.inspector.markup import words

_PART = re.compile(r"(system|tool results|tools|messages) ([\d,]+)")


def _open(tab: Tab, stage: Stage, path: str) -> str:
    tab.open(stage.page + path)
    return tab.text()


def _requests(session: Session, agent: Agent) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = session.json(f"/c/{agent.conversation}/requests.json")["requests"]
    return found


def test_1_which_model_answers_now_who_chose_it_and_what_may_i_switch_to(
    tab: Tab, stage: Stage, agent: Agent
) -> None:
    text = _open(tab, stage, f"/c/{agent.conversation}")
    assert "Chosen by a switch (you, " in text and "claude-opus-4-7" in text and "the client asks for" in text
    options = tab.run("[...document.querySelectorAll('#next-model option')].map(one => one.value)")
    assert {OPUS, GEMINI, MISTRAL, GPT} <= set(options)


def test_2_what_does_the_next_model_not_see_before_i_switch(tab: Tab, stage: Stage, agent: Agent) -> None:
    text = _open(tab, stage, f"/c/{agent.conversation}/as")
    row = next(line for line in text.splitlines() if "reasoning blocks" in line)
    assert "reasoning blocks" in row
    assert "kept for the way back" in text


def test_3_what_was_changed_by_which_rule_and_where(
    tab: Tab, stage: Stage, agent: Agent, session: Session
) -> None:
    request = _requests(session, agent)[6]
    text = _open(tab, stage, f"/r/{request['id']}")
    assert "MIS-05" in text and "Call without a result" in text
    assert "prevents: 400 Not the same number of function calls and responses" in text
    tab.press("n")
    assert tab.run("document.querySelectorAll('.here').length") == 1
    added = str(tab.run("[...document.querySelectorAll('.ch.add')].map(one => one.innerText).join('|')"))
    lines = " ".join(added.split())
    assert (
        "MIS-05 messages[17] tool" in lines
        and "MIS-02 messages[18] assistant" in lines
        and "MIS-02 messages[0] system" not in lines
    )


def test_4_what_exactly_did_the_provider_get_and_what_did_my_client_send(
    stage: Stage, agent: Agent, session: Session
) -> None:
    for one in _requests(session, agent):
        got = session.get(f"/r/{one['id']}?raw=provider")[2]
        sent = [entry.body for entry in stage.emulator.log if entry.verdict == "accepted"]
        assert json.loads(got) in sent
    first = _requests(session, agent)[0]
    assert session.get(f"/r/{first['id']}?raw=client")[2] == session.get(f"/r/{first['id']}?raw=provider")[2]


def test_a_body_is_shown_formatted_with_a_way_back(
    tab: Tab, stage: Stage, agent: Agent, session: Session
) -> None:
    request = _requests(session, agent)[6]["id"]
    for form in ("client", "provider", "answer"):
        exact = session.get(f"/r/{request}?raw={form}")[2]
        tab.open(f"{stage.page}/r/{request}")
        tab.click(f'.menu a[href$="body={form}"]')
        tab.until(f"location.search === '?body={form}' && document.readyState === 'complete'")
        shown = str(tab.run("document.querySelector('pre').textContent"))
        assert json.loads(shown) == json.loads(exact) and shown.count("\n") > 3
        tab.press("Escape")
        tab.until(f"location.pathname.endsWith('/r/{request}') && !location.search")


def test_5_did_the_cache_hold_which_byte_differed_and_what_did_it_cost(
    tab: Tab, stage: Stage, agent: Agent, session: Session
) -> None:
    text = _open(tab, stage, f"/c/{agent.conversation}/cache")
    assert "miss: the tool list changed · cost $0.036 more" in " ".join(text.split())
    assert "first differing byte" in text and "tools[2]" in text
    outcomes = session.json(f"/c/{agent.conversation}/cache.json")["outcomes"]
    missed = [one for one in outcomes if one.get("lost")]
    assert [one["cause"] for one in missed][:3] == ["model", "model", "tools"]
    assert all(one["dollars"] > 0 for one in missed)


def test_6_what_did_it_cost_and_what_would_it_cost_elsewhere(
    tab: Tab, stage: Stage, agent: Agent, session: Session
) -> None:
    total = sum(float(str(one["dollars"])) for one in _requests(session, agent))
    assert f"${total:.3f}" in _open(tab, stage, f"/c/{agent.conversation}")
    found = session.json(f"/c/{agent.conversation}/as.json")["candidates"]
    assert all(one["cold"] > 0 and one["so_far"] > 0 for one in found)
    cheapest = min(found, key=lambda one: one["so_far"])
    assert cheapest["so_far"] < total
    assert f"${cheapest['so_far']:.3f}" in _open(tab, stage, f"/c/{agent.conversation}/as")


def test_7_what_is_slow(tab: Tab, stage: Stage, agent: Agent, session: Session) -> None:
    text = _open(tab, stage, f"/r/{_requests(session, agent)[0]['id']}")
    assert "segue: read, plan, render" in text and "commit point" in text
    request = session.json(f"/c/{agent.conversation}/requests.json")["requests"][1]
    (attempt,) = request["attempts"]
    assert 0 < attempt["first_bytes"] <= attempt["first_content"] <= attempt["seconds"]
    text = _open(tab, stage, f"/r/{request['id']}")
    assert "before it the client took" in text and "the gateway itself took" in text
    assert "Slowest: " in _open(tab, stage, f"/c/{agent.conversation}")


def test_all_times_of_a_request_count_from_its_arrival(stage: Stage, agent: Agent, session: Session) -> None:
    listed = session.get(f"/c/{agent.conversation}/requests")[2].decode()
    for number, one in enumerate(_requests(session, agent)):
        ended, taken = 0.0, 0.0
        for attempt in one["attempts"]:
            assert attempt["after"] >= ended - 1e-5, number
            ended, taken = attempt["after"] + attempt["seconds"], taken + attempt["seconds"]
        assert ended <= one["seconds"] + 1e-5
        assert one["gateway_seconds"] == pytest.approx(one["seconds"] - taken, abs=1e-5)
        last = one["attempts"][-1]
        first = last["after"] + last["first_content"]
        assert one["first_content"] == pytest.approx(first)
        row = listed.partition(f'data-row="{one["id"]}"')[2].partition("</tr>")[0]
        chart = session.get(f"/r/{one['id']}")[2].decode()
        for seconds in (first, one["seconds"]):
            assert f">{words.seconds(seconds)}<" in row
        assert f"ends at {words.seconds(one['seconds'])}" in chart and f">{words.seconds(first)}<" in chart


def test_a_clock_that_is_set_moves_no_attempt() -> None:
    report = RequestReport(request_id="one", began=1_800_000_000.0, started=50.0)
    assert report.moment_of(50.25) - report.began == pytest.approx(0.25, abs=1e-6)


def test_8_what_failed_who_took_over_and_was_anything_billed_twice(
    tab: Tab, stage: Stage, agent: Agent, session: Session
) -> None:
    text = _open(tab, stage, f"/r/{_requests(session, agent)[6]['id']}")
    assert "529 overloaded_error" in text and "nothing billed twice" in text
    assert "It did not reach the client" in text
    text = _open(tab, stage, "/errors")
    assert "never seen by the client" in text and "if there was one" not in text
    title = TURNS[0].partition(". ")[0]
    row = f"{title}. · request 7 · attempts 1 and 2 failed; mistral-large-latest took over at attempt 3"
    assert row in " ".join(text.split())


def test_9_are_the_first_models_signatures_still_there(tab: Tab, stage: Stage, agent: Agent) -> None:
    text = _open(tab, stage, f"/c/{agent.conversation}")
    assert "restored as their models gave them" in text
    assert "Signatures kept in this conversation for the way back: opus-4-7 (4)" in " ".join(text.split())
    assert "its own" in _open(tab, stage, f"/c/{agent.conversation}/as")
    assert "its cache was still warm" in text


def test_10_what_fills_the_window(tab: Tab, stage: Stage, agent: Agent, session: Session) -> None:
    text = _open(tab, stage, f"/c/{agent.conversation}")
    shown = " ".join(text.partition("tokens in the window")[2].partition("scaled")[0].split())
    parts = {name: int(number.replace(",", "")) for name, number in _PART.findall(shown)}
    assert set(parts) == {"system", "tools", "messages", "tool results"}
    assert sum(parts.values()) == _requests(session, agent)[-1]["usage"]["input_tokens"]
    assert "scaled to what the provider counted" in text
    assert tab.run("document.querySelectorAll('.ctx .key rect').length") == 4


def test_a_switch_is_a_click(tab: Tab, stage: Stage, agent: Agent, session: Session) -> None:
    _open(tab, stage, f"/c/{agent.conversation}")
    tab.run(f"document.getElementById('next-model').value = {json.dumps(GPT)}")
    tab.click('[data-action="switch"]')
    tab.until("document.body.innerText.includes('answers from the next turn on')")
    assert session.json(f"/c/{agent.conversation}.json")["conversation"]["switched"] == GPT
    agent.turn("Which model are you?")
    assert _requests(session, agent)[-1]["route"] == GPT


def test_a_turn_is_run_once_after_the_price_was_asked(tab: Tab, stage: Stage, agent: Agent) -> None:
    _open(tab, stage, f"/c/{agent.conversation}/as")
    seen = len(stage.emulator.log)
    tab.click('[data-action="run-once"]')
    tab.until("document.querySelector('dialog[open] .btn.main')")
    assert len(stage.emulator.log) == seen
    assert "$" in str(tab.run("document.querySelector('dialog[open] .btn.main').innerText"))
    tab.click("dialog[open] .btn.main")
    tab.until("document.body.innerText.includes('The same turn, twice')")
    assert len(stage.emulator.log) == seen + 1


def test_rows_live_while_an_agent_works(tab: Tab, stage: Stage, agent: Agent) -> None:
    other = Agent(stage.url, model="kimi")
    other.system = "Another one."
    other.turn("Why is checkout slow on mobile?")
    tab.until("!document.getElementById('newer').hidden")
    tab.press(".")
    tab.until("document.getElementById('rows').innerText.includes('Why is checkout slow')")
    other.turn("And on the desktop?")
    tab.until(f"document.querySelector('[data-row=\"{other.conversation}\"] .ct').innerText === '2'")


def test_the_page_is_walked_with_the_keyboard_alone(tab: Tab, stage: Stage, agent: Agent) -> None:
    tab.open(f"{stage.page}/")
    tab.press("/")
    assert tab.run("document.activeElement.id") == "filter"
    tab.type("has:switch")
    tab.press("Enter")
    tab.until("location.search.includes('has')")
    tab.until("document.getElementById('rows')?.children.length === 1 && document.readyState === 'complete'")
    tab.press("j")
    tab.press("Enter")
    tab.until(f"location.pathname.endsWith('/c/{agent.conversation}') && document.readyState === 'complete'")
    tab.press("j")
    assert TURNS[0][:20] in str(tab.run("document.querySelector('.at').innerText"))
    tab.press("x")
    tab.until("document.querySelector('[data-seam].here')")
    tab.press("?")
    tab.until("document.getElementById('help').open")
    tab.press("Escape")
    tab.until("!document.getElementById('help').open")
    tab.press("Escape")
    tab.until("document.getElementById('rows')")


def test_escape_closes_an_open_menu_before_it_leaves_the_page(tab: Tab, stage: Stage, agent: Agent) -> None:
    tab.open(f"{stage.page}/c/{agent.conversation}")
    tab.click("details.drop > summary")
    assert tab.run("document.querySelector('details.drop').open")
    tab.press("Escape")
    assert not tab.run("document.querySelector('details.drop').open")
    assert str(tab.run("location.pathname")).endswith(f"/c/{agent.conversation}")
    tab.press("Escape")
    tab.until("document.getElementById('rows')")


def test_each_page_of_a_conversation_has_its_tabs(stage: Stage, agent: Agent, session: Session) -> None:
    for path in ("", "/requests", "/cache", "/as"):
        page = session.get(f"/c/{agent.conversation}{path}")[2].decode()
        tabs = page.partition('class="tabs under"')[2].partition("</nav>")[0]
        assert tabs.count("<a ") == 4 and tabs.count('aria-current="true"') == 1
        assert f'{path}" aria-current="true"' in tabs


def test_what_is_shown_is_in_plain_words(tab: Tab, stage: Stage, agent: Agent, session: Session) -> None:
    text = _open(tab, stage, f"/r/{_requests(session, agent)[6]['id']}")
    assert "added for this API" in text and "provider’s marks not sent" in text
    assert not {word for word in ("Canonical", "hints dropped", "this wire’s") if word in text}
    text = _open(tab, stage, "/keys")
    assert "no caller has a key" in text and "local (programs of this machine, no key)" in text
    assert "0 callers" not in text


def test_the_token_stays_in_no_address(stage: Stage, agent: Agent, tab: Tab) -> None:
    tab.open(stage.login_url())
    tab.until("document.getElementById('rows')")
    assert "#" not in str(tab.run("location.href"))
    assert tab.run("document.cookie") == ""
