"""Subagents: tasks handed to a chat with its own model, tools and budget."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from segue.chat.chat import Chat
from segue.chat.subagent import subagent_tool
from segue.chat.turn_settings import Budget
from segue.conversation.blocks import ToolResult
from segue.conversation.usage import Usage
from segue.errors import InvalidRequestError
from segue.events import ToolCallStart, ToolProgress
from segue.providers.scripted import ScriptedProvider, ScriptLine, calls, says
from segue.sessions.entries import Link, TurnEnded
from segue.sessions.stores.memory import MemoryStore
from segue.tools.approval import Approval
from segue.tools.definition import Context
from segue.tools.function_tools import tool


async def slow() -> str:
    await asyncio.sleep(30)
    return "at last"


def look() -> str:
    return "seen"


class Family:
    """A parent that hands one task to a child, and what the child is scripted to do."""

    def __init__(self, *child: list[ScriptLine], tasks: int = 1, **settings: Any) -> None:
        self.child = ScriptedProvider(child, name="small")
        wishes = [("explore", {"task": f"task {n}"}) for n in range(tasks)]
        self.parent = ScriptedProvider([calls(*wishes), says("thanks")], name="big")
        self.store = MemoryStore()
        explore = subagent_tool("explore", "Looks around.", "small/m", **settings)
        self.chat = Chat(
            "big/m",
            tools=[explore],
            store=self.store,
            providers={"small": self.child, "big": self.parent},
        )

    async def result(self) -> ToolResult:
        async with self.chat:
            assert (await self.chat.send("go")).finish == "complete"
            result = self.chat.ledger["c0"].result
            assert result is not None
            return result


def test_a_child_has_its_own_model_tools_and_session_linked_to_the_call_it_answers() -> None:
    async def main() -> None:
        family = Family(calls(("look", {})), says("a cat"), tools=[look], system="Be a scout.")
        result = await family.result()
        assert (result.output, result.error) == ("a cat", None)
        (parent,) = await family.store.find()
        (child,) = await family.store.find(parent=parent.id)
        assert child.parent is not None
        assert child.parent.call == "c0"
        assert [spec.name for spec in family.child.requests[0].tools] == ["look"]
        assert family.child.requests[0].conversation.system == "Be a scout."
        assert family.child.requests[0].conversation.messages[0].text == "task 0"

    asyncio.run(main())


def test_several_children_work_side_by_side() -> None:
    async def main() -> None:
        family = Family(tasks=4)
        family.child.add(*[says(f"answer {n}") for n in range(4)])
        async with family.chat as chat:
            await chat.send("go")
            answers = {
                interaction.result.output for interaction in chat.ledger.values() if interaction.result
            }
            assert answers == {f"answer {n}" for n in range(4)}
            assert len(await family.store.find(parent=chat.id)) == 4

    asyncio.run(main())


def test_errors_of_a_child_are_results_that_the_parent_reads() -> None:
    async def main() -> None:
        family = Family([InvalidRequestError("too odd", status=400)])
        result = await family.result()
        assert result.error == "Tool execution failed: too odd"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (Budget(max_turns=2), "2 exchanges"),
        (Budget(max_tokens=100), "120 of 100 tokens"),
    ],
)
def test_a_child_that_uses_up_its_budget_is_stopped_and_says_so(budget: Budget, why: str) -> None:
    async def main() -> None:
        wish = calls(("look", {}), text="hm", usage=Usage(50, 10))
        family = Family(wish, wish, wish, wish, says("never"), tools=[look], budget=budget)
        result = await family.result()
        assert why in (result.error or "")
        assert len(family.child.requests) == 2

    asyncio.run(main())


def test_cancelling_the_parent_cancels_the_child_and_both_journals_are_closed() -> None:
    async def main() -> None:
        family = Family(calls(("slow", {})), tools=[slow])
        async with family.chat as chat:
            started = time.perf_counter()
            async for event in chat.stream("go"):
                if type(event) is ToolProgress:
                    assert event.message.endswith("slow")
                    chat.cancel()
            assert time.perf_counter() - started < 2
            assert chat.ledger["c0"].status == "cancelled"
            (child,) = await family.store.find(parent=chat.id)
            entries = [record.entry for record in await family.store.read(child.id)]
            assert entries[-1] == TurnEnded("cancelled")
            assert child.parent == Link(chat.id, "c0")
            assert child.holder is None

    asyncio.run(main())


def test_a_child_asks_the_approval_of_its_parent() -> None:
    @tool(effect="run")
    def shell(command: str) -> str:
        return f"ran {command}"

    async def main(approval: Approval | None, expected: str) -> None:
        family = Family(calls(("shell", {"command": "ls"})), says("done"), tools=[shell])
        explore = subagent_tool("explore", "Looks around.", "small/m", tools=[shell])
        chat = Chat(
            "big/m",
            tools=[explore],
            store=family.store,
            providers={"small": family.child, "big": family.parent},
            approval=approval,
        )
        async with chat:
            await chat.send("go")
            (child,) = await family.store.find(parent=chat.id)
        async with Chat(session=child.id, store=family.store, providers={"small": family.child}) as seen:
            assert seen.ledger["c0"].status == expected

    asyncio.run(main(Approval("yolo"), "complete"))
    asyncio.run(main(None, "cancelled"))


def test_a_child_without_a_parent_is_possible() -> None:
    from segue.tools.definition import Host
    from segue.tools.execution import run_tool

    async def main() -> None:
        provider = ScriptedProvider([says("alone")], name="small")
        explore = subagent_tool("explore", "Looks around.", "small/m")
        host = Host(providers={"small": provider}, store=MemoryStore())
        assert (await run_tool(explore, {"task": "go"}, host=host)).output == "alone"

    asyncio.run(main())


def test_children_may_have_children() -> None:
    async def main() -> None:
        inner = ScriptedProvider([says("deep")], name="inner")
        middle = ScriptedProvider([calls(("deeper", {"task": "x"})), says("so deep")], name="middle")
        outer = ScriptedProvider([calls(("deep", {"task": "y"})), says("end")], name="outer")
        deeper = subagent_tool("deeper", "", "inner/m")
        deep = subagent_tool("deep", "", "middle/m", tools=[deeper])
        providers = {"inner": inner, "middle": middle, "outer": outer}
        seen: list[str] = []

        async def watch(context: Context) -> None:
            seen.append(context.session)

        async with Chat("outer/m", tools=[deep, watch], providers=providers) as chat:
            starts = [event async for event in chat.stream("go") if type(event) is ToolCallStart]
            assert len(starts) == 1
            result = chat.ledger["c0"].result
            assert result is not None
            assert result.output == "so deep"

    asyncio.run(main())
