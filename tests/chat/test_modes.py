"""Interactive, one-shot and subagent: one code path, so one and the same turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from segue.chat.chat import Chat
from segue.chat.subagent import subagent_tool
from segue.conversation.blocks import ToolResult
from segue.conversation.tools import ToolSpec
from segue.providers.adapter import ChatRequest
from segue.providers.scripted import ScriptedProvider, calls, says
from segue.sessions.entries import CallEnded, CallsScheduled, Entry, ToolsAnswered
from segue.sessions.stores.jsonl import JsonlStore
from segue.sessions.stores.memory import MemoryStore
from segue.sessions.stores.sqlite import SQLiteStore
from segue.sessions.stores.store import Store
from segue.tools.definition import Context, Tool
from segue.tools.scheduler import Scheduler


def five_calls() -> ScriptedProvider:
    """A model that reads three files, one of which is not there, calls a tool nobody has, and calls one wrongly."""
    wishes: list[tuple[str, dict[str, Any]]] = [
        ("read", {"path": "a", "seconds": 0.03}),
        ("read", {"path": "b", "seconds": 0.0}),
        ("read", {"path": "missing", "seconds": 0.06}),
        ("nowhere", {}),
        ("read", {"seconds": "soon"}),
    ]
    return ScriptedProvider(
        [calls(*wishes, text="let me see"), says("That is all.", reasoning="done")], name="five"
    )


def read_tool() -> Tool:
    async def read(arguments: dict[str, Any], context: Context) -> str:
        await asyncio.sleep(arguments["seconds"])
        if arguments["path"] == "missing":
            raise FileNotFoundError("no such file: missing")
        return f"contents of {arguments['path']}"

    parameters = {
        "type": "object",
        "properties": {"path": {"type": "string"}, "seconds": {"type": "number"}},
        "required": ["path", "seconds"],
    }
    return Tool(spec=ToolSpec("read", "Reads.", parameters), run=read)


async def interactive(provider: ScriptedProvider, store: Store) -> str:
    async with Chat("five/m", tools=[read_tool()], store=store, providers={"five": provider}) as chat:
        async for event in chat.stream("what is there?"):
            await asyncio.sleep(0)  # somebody draws it on a screen
            assert event.type
        return chat.id


async def one_shot(provider: ScriptedProvider, store: Store) -> str:
    async with Chat("five/m", tools=[read_tool()], store=store, providers={"five": provider}) as chat:
        assert (await chat.send("what is there?")).text == "That is all."
        return chat.id


async def subagent(provider: ScriptedProvider, store: Store) -> str:
    parent = ScriptedProvider([calls(("explore", {"task": "what is there?"})), says("It says so.")])
    explore = subagent_tool("explore", "Looks around.", "five/m", tools=[read_tool()])
    providers = {"five": provider, "scripted": parent}
    async with Chat("scripted/p", tools=[explore], store=store, providers=providers) as chat:
        assert (await chat.send("go")).text == "It says so."
        result = chat.ledger["c0"].result
        assert result is not None
        assert result.output == "That is all."
        (child,) = await store.find(parent=chat.id)
        return child.id


MODES = {"interactive": interactive, "one_shot": one_shot, "subagent": subagent}


async def journal_of(mode: str, store: Store | None = None) -> tuple[list[Entry], list[ChatRequest]]:
    store = store or MemoryStore()
    provider = five_calls()
    session = await MODES[mode](provider, store)
    return [record.entry for record in await store.read(session)][1:], provider.requests


@pytest.mark.requirement("REQ-915-045", "REQ-915-029", "REQ-915-031", "REQ-915-032", "REQ-915-033")
@pytest.mark.parametrize("mode", ["one_shot", "subagent"])
def test_the_same_turn_of_five_calls_is_the_same_in_every_mode(mode: str) -> None:
    async def main() -> None:
        expected, asked = await journal_of("interactive")
        entries, requests = await journal_of(mode)
        assert entries == expected
        batches = [entry.calls for entry in entries if isinstance(entry, CallsScheduled)]
        assert [len(batch) for batch in batches] == [5]
        assert len([entry for entry in entries if isinstance(entry, CallEnded)]) == 5
        # One batch: what takes longer ends later, and what cannot run ends before all that do.
        ended = [entry.result.call_id for entry in entries if isinstance(entry, CallEnded)]
        assert ended == ["c3", "c4", "c1", "c0", "c2"]
        assert [entry.call_ids for entry in entries if isinstance(entry, ToolsAnswered)] == [
            ("c0", "c1", "c2", "c3", "c4")
        ]
        # What is fed back: the same results, in the same order, and no call among them.
        assert [r.conversation.messages for r in requests] == [r.conversation.messages for r in asked]
        assert requests[1].conversation.messages[-1].calls == ()
        fed_back = requests[1].conversation.messages
        assert [message.speaker for message in fed_back] == ["user", "model", "tool"]
        results = [block for block in fed_back[-1].blocks if isinstance(block, ToolResult)]
        assert len(results) == len(fed_back[-1].blocks) == 5
        assert [result.output for result in results] == ["contents of a", "contents of b", None, None, None]
        assert [bool(result.error) for result in results] == [False, False, True, True, True]

    asyncio.run(main())


@pytest.mark.requirement("REQ-915-030")
@pytest.mark.parametrize(("mode", "sessions"), [("interactive", 1), ("one_shot", 1), ("subagent", 2)])
def test_every_mode_has_one_scheduler_per_session(
    mode: str, sessions: int, schedulers: list[Scheduler]
) -> None:
    asyncio.run(journal_of(mode))
    assert len(schedulers) == sessions


@pytest.mark.parametrize("mode", MODES)
def test_the_journal_is_the_same_wherever_it_is_kept(mode: str, tmp_path: Path) -> None:
    async def main() -> None:
        expected, _ = await journal_of(mode)
        for store in (SQLiteStore(tmp_path / "sessions.db"), JsonlStore(tmp_path / "sessions")):
            entries, _ = await journal_of(mode, store)
            assert entries == expected
            await store.close()

    asyncio.run(main())


@pytest.mark.requirement("REQ-915-029", "REQ-915-045")
def test_a_chat_without_a_loop_leaves_the_same_journal() -> None:
    expected, _ = asyncio.run(journal_of("interactive"))
    store = MemoryStore()
    chat = Chat("five/m", tools=[read_tool()], store=store, providers={"five": five_calls()})
    with chat.blocking() as held:
        assert held.send("what is there?").text == "That is all."
        session = held.chat.id
    entries = [record.entry for record in asyncio.run(store.read(session))][1:]
    assert entries == expected
