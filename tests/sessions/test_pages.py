"""A session as a page: everything that happened, in its place, and nothing of it is taken for HTML."""

from __future__ import annotations

import asyncio
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import Media, Origin, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.message import Message, user
from segue.sessions.entries import (
    CallEnded,
    CallsScheduled,
    Entry,
    ModelReplied,
    SessionStarted,
    Switched,
    ToolsAnswered,
    TurnEnded,
    UserSaid,
)
from segue.sessions.export import export_session
from segue.sessions.journal import Journal
from segue.sessions.stores.memory import MemoryStore

EVIL = '<script>alert("x")</script><img src=x onerror=y>&'
ORIGIN = Origin("openai_chat", "openai", "gpt-4.1")
CALL = ToolCall("c0", "read_file", {"path": EVIL})


async def pages(*entries: Entry, title: str = "Foxes") -> dict[str, str]:
    store = MemoryStore()
    journal = await Journal.start(
        store, SessionStarted(model="openai/gpt-4.1", title=title, system="Be brief.")
    )
    await journal.append(*entries)
    await journal.close()
    return {
        form: (await export_session(store, journal.session, form)).decode() for form in ("html", "markdown")
    }


def a_turn(text: str = "Look.", output: str = "found") -> list[Entry]:
    call = Message("model", (Reasoning("Let me see."), Text("I look."), CALL), ORIGIN)
    result = ToolResult("c0", "read_file", output=output)
    return [
        UserSaid(user(text, Media("image", "image/png", "aGVsbG8=")), "openai/gpt-4.1"),
        ModelReplied(call, "tool_calls", repairs=2),
        CallsScheduled((CALL,)),
        CallEnded(result),
        ToolsAnswered(("c0",)),
        ModelReplied(Message("model", (Text("Done.\n```py\na < b\n```\nYes."),), ORIGIN)),
        TurnEnded(),
        Switched(previous="openai/gpt-4.1", model="mistral/large"),
        UserSaid(user("More?"), "mistral/large"),
        TurnEnded("error", {"message": "It was overloaded."}),
    ]


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_a_page_has_everything_in_its_order(form: str) -> None:
    page = asyncio.run(pages(*a_turn(output="x" * 9000)))[form]
    words = [
        "Foxes", "Be brief.", "Look.", "2 repairs", "Let me see.", "I look.", "read_file", "x" * 9000, "Done.", "Yes.",
        "mistral/large", "The turn ended: error: It was overloaded.",
    ]  # fmt: skip
    places = [page.rindex(word) if word == "mistral/large" else page.index(word) for word in words]
    assert places == sorted(places)


def test_a_page_folds_calls_shows_images_and_fetches_nothing() -> None:
    page = asyncio.run(pages(*a_turn()))["html"]
    assert re.search(
        r"<details><summary>read_file: complete</summary><pre>.*found</pre></details>", page, re.DOTALL
    )
    assert page.count("found") == 1  # beside its call, and not once more
    assert '<pre><code class="language-py">a &lt; b\n</code></pre>' in page
    assert 'src="data:image/png;base64,aGVsbG8="' in page
    assert "default-src 'none'" in page
    assert not re.search(r"<script|https?://", page)


def a_reply(text: str) -> str:
    reply = ModelReplied(Message("model", (Text(text),), ORIGIN))
    return asyncio.run(pages(UserSaid(user("A *word*."), "openai/gpt-4.1"), reply, TurnEnded()))["html"]


def test_a_page_shows_the_markdown_of_a_model_and_the_words_of_the_user() -> None:
    page = a_reply(
        "## Port\n\nIt is **8080**, see `a.toml`:\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    shown = page.partition("<body>")[2]
    for html in (
        "<h2>Port</h2>",
        "<strong>8080</strong>",
        "<code>a.toml</code>",
        "<li>one</li>",
        "<td>1</td>",
    ):
        assert html in shown
    assert "A *word*." in shown


def test_the_markdown_of_a_model_fetches_nothing_and_runs_nothing() -> None:
    page = a_reply(
        f"![x](http://a.example/b.png) [y](javascript:alert(1)) <b>z</b> {EVIL}\n\n<div onclick=a>\n"
    )
    shown = Tags(page)
    assert not {"img", "b", "div onclick"} & shown.tags
    assert shown.attributes <= {"class", "lang", "charset", "http-equiv", "content", "name", "href"}
    assert 'href="javascript' not in page
    assert "&lt;b&gt;z&lt;/b&gt;" in page


class Tags(HTMLParser):
    """The tags of a page, and its attributes that could do something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_nothing_that_anybody_wrote_becomes_html() -> None:
    evil = Media("image", 'image/png"><script>', 'x"><script>', name=EVIL)
    turn = [
        *a_turn(EVIL, EVIL),
        UserSaid(user(evil, "```" + EVIL + "\n" + EVIL + "\n```"), "a/b"),
        TurnEnded(),
    ]
    quiet, loud = asyncio.run(pages(*a_turn())), asyncio.run(pages(*turn, title=EVIL))
    assert Tags(loud["html"]).tags <= Tags(quiet["html"]).tags
    assert Tags(loud["html"]).attributes <= Tags(quiet["html"]).attributes


@given(text=st.text(st.sampled_from("<>&\"'`\n\x1b\x00ab/=-"), max_size=40))
def test_no_text_becomes_html(text: str) -> None:
    quiet, loud = asyncio.run(pages(*a_turn())), asyncio.run(pages(*a_turn(f"a{text}", text), title=text))
    assert Tags(loud["html"]).tags <= Tags(quiet["html"]).tags
    assert Tags(loud["html"]).attributes <= Tags(quiet["html"]).attributes
    assert "\x1b" not in loud["html"]
