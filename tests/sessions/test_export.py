"""Sessions for elsewhere, and histories from elsewhere."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from interop.requests import ALL
from interop.session_samples import claude_code, codex, llm_logs
from laws.legality import complaints
from segue.conversation.blocks import Code, Media, Origin, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.document import decode_document
from segue.conversation.message import Conversation, Message, user
from segue.conversation.options import Options
from segue.dialects.registry import DIALECTS
from segue.errors import JournalError, UsageError
from segue.sessions.entries import (
    CallEnded,
    CallsScheduled,
    Compacted,
    ModelReplied,
    SessionStarted,
    ToolsAnswered,
    TurnEnded,
    UserSaid,
)
from segue.sessions.export import as_request, export_session
from segue.sessions.imports import import_session, read_history
from segue.sessions.journal import Journal
from segue.sessions.pages.markdown import MAX_OUTPUT
from segue.sessions.stores.memory import MemoryStore
from segue.sessions.stores.sqlite import SQLiteStore
from segue.sessions.stores.store import Store
from segue.transcript.render import render
from strategies.targets import TARGETS

ORIGIN = Origin("anthropic", "anthropic", "https://api.anthropic.com", "claude-x")
PIXEL = Media("image", "image/png", "aGVsbG8=")


async def a_session(store: Store) -> Journal:
    started = SessionStarted(
        model="anthropic/claude-x", system="Be brief.", title="Foxes", options=Options(seed=3)
    )
    journal = await Journal.start(store, started, "foxes")
    calls = (ToolCall("c0", "read", {"path": "fox.txt"}), ToolCall("c1", "run", {"command": "make"}))
    said = (Reasoning("I should look."), Text("Let me see."), *calls)
    await journal.append(UserSaid(user("How do foxes jump?", PIXEL)))
    await journal.append(ModelReplied(Message("model", said, ORIGIN), "tool_calls"))
    await journal.append(
        CallsScheduled(calls),
        CallEnded(ToolResult("c0", "read", "```\nhigh\n```")),
        CallEnded(ToolResult("c1", "run", error="no such target", output="x" * 5000)),
        ToolsAnswered(("c0", "c1")),
    )
    await journal.append(
        ModelReplied(Message("model", (Text("Highly."), Code("jump()", "python")), ORIGIN)), TurnEnded()
    )
    return journal


def test_a_document_gives_the_session_back() -> None:
    async def main() -> None:
        store = MemoryStore()
        journal = await a_session(store)
        data = await export_session(store, journal.session)
        assert decode_document(data)[0] == journal.state.conversation
        again, history = await import_session(store, data, title="Foxes again")
        assert again.session != journal.session
        assert again.state.conversation == journal.state.conversation
        assert again.state.ledger == journal.state.ledger
        assert (again.state.title, again.state.options, history.repairs) == (
            "Foxes again",
            Options(seed=3),
            (),
        )
        await again.append(UserSaid(user("More.")), ModelReplied(Message("model", (ToolCall("", "read"),))))
        assert again.state.conversation.messages[-1].calls[0].id == "c2"

    asyncio.run(main())


def test_people_are_shown_the_whole_history_also_after_compactions() -> None:
    async def main() -> None:
        store = MemoryStore()
        journal = await a_session(store)
        whole = journal.state.conversation.messages
        short = Conversation((Message("user", (Text("[In short.]"),), instruction=True),))
        await journal.append(Compacted(conversation=short, strategy="summarise"))
        for prompt in ("And birds?", "And fish?"):
            await journal.append(UserSaid(user(prompt)))
            # Also a compaction in the middle of a turn.
            kept = journal.state.conversation.messages[-1:]
            shorter = Conversation((*short.messages, *kept))
            await journal.append(Compacted(conversation=shorter, strategy="truncate"))
            await journal.append(
                ModelReplied(Message("model", (Text(f"{prompt} No."),), ORIGIN)), TurnEnded()
            )
        page = (await export_session(store, journal.session, "markdown")).decode()
        for words in ("How do foxes jump?", "Highly.", "And birds?", "And birds? No.", "And fish? No."):
            assert page.count(words) >= 1
        assert "In short" not in page
        assert "sent 3 messages instead of these 8" in page
        document = decode_document(await export_session(store, journal.session))[0]
        assert document.messages[: len(whole)] == whole
        assert [message.text for message in document.messages[len(whole) :]] == [
            "And birds?",
            "And birds? No.",
            "And fish?",
            "And fish? No.",
        ]
        # The next request has what a model is sent.
        assert b"foxes" not in as_request(journal.state, "openai_chat").body
        await journal.undo()
        assert len(journal.state.history.messages) == len(whole) + 2
        await journal.undo()
        assert journal.state.history.messages == whole
        await journal.redo()
        assert journal.state.history.messages[-1].text == "And birds? No."

    asyncio.run(main())


def test_a_journal_gives_the_session_back_also_when_it_was_cut_off() -> None:
    async def main() -> None:
        store = MemoryStore()
        journal = await a_session(store)
        data = await export_session(store, journal.session, "journal")
        lines = data.splitlines()
        assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
        again, _ = await import_session(store, data)
        assert again.state.conversation == journal.state.conversation
        assert (again.state.model, again.state.title) == ("anthropic/claude-x", "Foxes")
        cut = b"\n".join(lines[:4]) + lines[4][:30]
        half, _ = await import_session(store, cut)
        assert [half.state.ledger[call_id].status for call_id in ("c0", "c1")] == ["cancelled", "cancelled"]
        with pytest.raises(JournalError):
            read_history(b"\n".join([lines[0], b"rubbish", *lines[1:]]))

    asyncio.run(main())


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_session_is_a_request_of_every_dialect(dialect: str) -> None:
    async def main() -> None:
        store = MemoryStore()
        journal = await a_session(store)
        data = await export_session(store, journal.session, dialect)
        text = json.dumps(json.loads(data), ensure_ascii=False)
        assert "How do foxes jump?" in text
        assert "no such target" in text
        assert "Highly." in text
        again, _ = await import_session(store, data, dialect=dialect)
        assert again.state.conversation.messages[0].text.startswith("How do foxes jump?")
        assert sum(len(message.calls) for message in again.state.conversation.messages) == 2

    asyncio.run(main())


def test_a_conversation_is_no_request() -> None:
    async def main() -> None:
        journal = await a_session(MemoryStore())
        with pytest.raises(UsageError):
            as_request(journal.state, "conversation")

    asyncio.run(main())


def test_people_get_a_page() -> None:
    async def main() -> None:
        store = MemoryStore()
        await a_session(store)
        page = (await export_session(store, "foxes", "markdown", max_output=MAX_OUTPUT)).decode()
        for part in (
            "# Foxes",
            "*anthropic/claude-x*",
            "## System\n\nBe brief.",
            "## User\n\nHow do foxes jump?\n\n*image, image/png, 6 bytes*",
            "## claude-x\n\n> I should look.\n\nLet me see.",
            '**read** (c0)\n\n```json\n{"path":"fox.txt"}\n```',
            "→ **read** (c0)\n\n````\n```\nhigh\n```\n````",
            "→ **run** (c1): failed\n\n```\nno such target\nxxx",
            "more characters",
            "```python\njump()\n```",
        ):
            assert part in page
        assert len(page) < 5500

    asyncio.run(main())


@pytest.mark.parametrize(
    ("data", "source"),
    [
        (claude_code(), "Claude Code session"),
        (codex(), "Codex rollout"),
        (llm_logs(), "llm log"),
    ],
)
def test_a_session_of_another_program_goes_on_as_ours(data: bytes, source: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "s.db")
        journal, history = await import_session(store, data)
        assert history.adopted.source == source
        assert not journal.state.in_turn
        assert journal.state.open_calls() == ()
        asked = journal.state.conversation.append(user("Go on."))
        for rules in TARGETS.values():
            assert list(complaints(render(asked, journal.state.ledger, rules), rules)) == []
        (info,) = await store.find()
        assert info.turns > 0
        assert info.first_words
        await journal.close()
        again = await Journal.resume(store, journal.session)
        assert again.state == journal.state
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("dialect", sorted(ALL))
def test_a_request_of_every_dialect_becomes_a_session(dialect: str) -> None:
    async def main() -> None:
        request: Any = ALL[dialect]
        journal, _ = await import_session(MemoryStore(), json.dumps(request).encode(), dialect=dialect)
        assert journal.state.conversation.messages
        assert all(interaction.finished for interaction in journal.state.ledger.values())
        assert journal.state.options == Options()

    asyncio.run(main())


def test_an_empty_history_is_refused() -> None:
    with pytest.raises(UsageError, match="no message"):
        read_history(b'{"segue": "conversation", "version": 1, "messages": []}')
