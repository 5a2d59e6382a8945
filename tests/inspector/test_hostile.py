"""Everything shown is hostile: strings in every field that a client, a model, a tool or a provider can fill, on every page."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import quote

import pytest

from inspector.browser import Browser
from inspector.story import HEADERS, Agent, Session, Stage, inspected_gateway, tool
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Call, Prompt, Reply, Say, Think

MARK = "hostile"
XSS = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "</title></script></textarea><svg onload=document.title='owned'>\"'><a href=\"javascript:document.title='owned'\">x</a>"
    "\u202e\u2066 \x1b[31mred {{7*7}} ${7*7} https://evil.example/?q=1 ![x](https://evil.example/x.png) "
    + MARK
)
_OURS = re.compile(
    rb'<script type="module" src="/segue/inspector/static/[0-9a-f]{12}/inspector\.js"></script>'
)


class _Markup(HTMLParser):
    """What a page must not have: elements that fetch or run something, attributes that do, addresses elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("img", "iframe", "object", "embed", "base", "textarea", "style"):
            self.found.append(tag)
        for name, value in attrs:
            leads = name in ("href", "src", "action") and not (value or "#").startswith(
                ("/segue/inspector", "#")
            )
            if name.startswith("on") or name == "style" or leads:
                self.found.append(f"{tag} {name}={value}")


class HostileModel:
    """Says it in every way in which a model can."""

    def reply(self, prompt: Prompt) -> Reply:
        if prompt.results or not prompt.tools:
            return Reply(pieces=(Say(XSS),))
        thought = (Think(XSS),) if prompt.thinking else ()
        return Reply(pieces=(*thought, Say(XSS), Call("Bash", {"command": XSS, XSS: XSS})))

    def reset(self) -> None:
        """Nothing is remembered."""


class HostileAgent(Agent):
    """Fills every field that a client can."""

    def __init__(self, stage: Stage, model: str = "claude-opus-4-7") -> None:
        agent = XSS.encode("ascii", "ignore").decode().replace("\x1b", "")
        super().__init__(stage.url, {**HEADERS, "user-agent": agent}, model)
        hostile = tool("Bash", "command")
        hostile["description"] = XSS
        hostile["input_schema"]["properties"][XSS] = {"type": "string", "description": XSS}
        self.system, self.tools = f"{XSS} Working directory: {XSS}", [hostile]

    def act(self) -> None:
        """A turn with a call whose result is as hostile, and one more."""
        self.history.append({"role": "user", "content": [{"type": "text", "text": XSS}]})
        for _ in range(2):
            content = self.send()
            self.history.append({"role": "assistant", "content": content})
            results = [
                {"type": "tool_result", "tool_use_id": block["id"], "content": XSS, "is_error": True}
                for block in content
                if block["type"] == "tool_use"
            ]
            self.history.append({"role": "user", "content": [*results, {"type": "text", "text": XSS}]})
        self.send()


@pytest.fixture(scope="module")
def hostile() -> Iterator[tuple[Stage, list[str]]]:
    """A gateway through which all of it went, and its pages."""
    with inspected_gateway(responder=HostileModel()) as stage:
        agent = HostileAgent(stage)
        agent.act()
        session = Session(stage)
        session.post("/api/switch", {"conversation": agent.conversation, "model": "gemini/gemini-3.5-flash"})
        agent.history.append({"role": "assistant", "content": [{"type": "text", "text": XSS}]})
        agent.history.append({"role": "user", "content": [{"type": "text", "text": XSS}]})
        agent.send()
        stage.emulator.faults.append(Fault(status=400, message=XSS, provider="openai"))
        body = {"model": "gpt", "max_tokens": 9, "messages": [{"role": "user", "content": XSS}]}
        assert stage.ask("/v1/messages", "POST", body, HEADERS)[0] == 400
        stage.ask("/v1/messages", "POST", {**body, "model": XSS}, HEADERS)
        yield stage, _pages(session, agent.conversation)


def _pages(session: Session, conversation: str) -> list[str]:
    here = f"/c/{conversation}"
    requests = [one["id"] for one in session.json("/log.json")["requests"]]
    every = ["/", here, f"{here}/requests", f"{here}/cache", f"{here}/as", f"{here}/as?form=raw"]
    every += ["/errors", "/routes", "/keys", "/log", "/audit", "/settings", "/doctor"]
    every += [f"/r/{name}" for name in requests] + [f"/r/{name}/diff" for name in requests[:2]]
    every += [f"/doctor?request={requests[-1]}"]
    words = quote(XSS, safe="")
    return [
        *every,
        f"/?q={words}",
        f"/?show={words}",
        f"/log?q={words}",
        f"{here}/as?model={words}",
        f"{here}/as?form={words}",
    ]


def test_no_page_has_markup_of_a_stranger(hostile: tuple[Stage, list[str]]) -> None:
    stage, paths = hostile
    session, shown = Session(stage), 0
    for path in paths:
        status, headers, body = session.get(path)
        assert status in (200, 404), path
        text = body.decode()
        shown += MARK in text
        assert body.count(b"<script") == len(_OURS.findall(body)), path
        assert not {"\u202e", "\u2066", "\x1b"} & {*text}, path
        reader = _Markup()
        reader.feed(text)
        assert not reader.found, path
        assert "default-src 'none'" in headers["content-security-policy"]
    assert shown >= 12, "the strings are not even shown"


def test_what_is_saved_is_no_page_and_an_export_runs_nothing(hostile: tuple[Stage, list[str]]) -> None:
    stage, paths = hostile
    session = Session(stage)
    for form in ("html", "conversation", "anthropic", "openai_chat", "openai_responses", "gemini"):
        status, headers, body = session.get(f"{paths[1]}?export={form}")
        assert status == 200 and headers["content-disposition"].startswith("attachment"), form
        assert headers["content-type"].startswith("text/plain")
        if form == "html":
            assert b"<script" not in body and b"<img" not in body and MARK.encode() in body


def test_a_file_for_the_doctor_is_shown_as_text(hostile: tuple[Stage, list[str]]) -> None:
    stage, _ = hostile
    session = Session(stage)
    for data in (XSS, f'{{"model": "x", "messages": [{{"role": "user", "content": "{MARK}"}}]}}', "\x00\xff"):
        given = {"name": XSS, "data": base64.b64encode(data.encode("latin-1", "replace")).decode()}
        status, held = session.post("/api/doctor", given)
        assert status == 200
        assert "onerror" not in str(list(_attributes(held["tree"])))


def _attributes(tree: object) -> Iterator[str]:
    """The names of all attributes that the script would set."""
    if isinstance(tree, list):
        if len(tree) > 1 and isinstance(tree[0], str) and isinstance(tree[1], dict):
            yield from tree[1]
        for part in tree:
            yield from _attributes(part)


def test_in_a_browser_nothing_of_it_runs_or_is_fetched(
    hostile: tuple[Stage, list[str]], browser: Browser
) -> None:
    stage, paths = hostile
    tab = browser.tab()
    tab.open(stage.login_url())
    tab.until("document.getElementById('rows')")
    for path in [path for path in paths if not path.startswith("/r/")] + [paths[13], paths[14]]:
        tab.open(stage.page + path)
        found = tab.run(
            "[document.title.includes('owned'), document.querySelectorAll('img, iframe, object').length,"
            " document.querySelectorAll('script').length,"
            " [...document.links].every(one => one.protocol === 'http:' && one.host === location.host)]"
        )
        assert found == [False, 0, 1, True], path
    assert tab.faults() == [] or all("404" in fault for fault in tab.faults())
    assert tab.hosts() <= {stage.url.removeprefix("http://")}
    tab.close()
