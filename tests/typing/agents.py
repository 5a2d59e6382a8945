"""Agents as users write them: dependencies, outputs, checks, histories and handoffs, each with its type."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, assert_type

import annotated_types as at
import msgspec
from pydantic import BaseModel, Field

from segue import Agent, Answer, AskAgain, BlockingChat, Budget, Chat, Context, Conversation, Tool, tool
from segue.events import PartialOutput


@dataclass
class Shop:
    """What the tools of a request need."""

    customer: str


class Parcel(BaseModel):
    """A pydantic model."""

    number: Annotated[int, Field(ge=1)]


@tool(effect="read")
async def where(
    parcel: Parcel,
    days: Annotated[int, at.Ge(0), msgspec.Meta(description="Until today.")] = 0,
    *,
    context: Context[Shop],
) -> str:
    """Where a parcel is."""
    assert_type(context.deps, Shop)
    assert_type(context.deps.customer, str)
    return f"{context.deps.customer}: {parcel.number}, {days}"


def plain(context: Context) -> str:
    assert_type(context.deps, Any)
    return context.session


def greet(context: Context[Shop]) -> str:
    return f"You help {context.deps.customer}."


async def known(parcel: Parcel, context: Context[Shop]) -> Parcel:
    if parcel.number > 9:
        raise AskAgain(f"{context.deps.customer} has no such parcel.")
    return parcel


bare = Agent("openai/any")
assert_type(bare, Agent[None, None])
typed = Agent("openai/any", output=Parcel)
assert_type(typed, Agent[None, Parcel])
support = Agent(
    "openai/any",
    name="support",
    instructions=greet,
    tools=[where, plain],
    output=Parcel,
    check=known,
    deps=Shop,
    budget=Budget(max_corrections=2),
)
assert_type(support, Agent[Shop, Parcel])
assert_type(Agent(output={"type": "object"}), Agent[None, Any])
front = Agent("openai/any", name="front", output=Parcel, deps=Shop, handoffs=lambda: [support])


async def use(shop: Shop, rows: list[dict[str, str]], conversation: Conversation) -> None:
    answer = await support.run("Where?", deps=shop, model="anthropic/any", max_turns=3)
    assert_type(answer, Answer[Parcel])
    assert_type(answer.output.number, int)
    async with support.chat(session="ann", deps=shop, history=rows) as chat:
        assert_type(chat, Chat[Parcel])
        assert_type((await chat.send("Where?")).output, Parcel)
        assert_type((await chat.send("How many?", output=int)).output, int)
        assert_type(await chat.fork(), Chat[Parcel])
        async for event in chat.stream("Where?"):
            if event.type == "partial_output":
                assert_type(event, PartialOutput)
    with typed.chat(history=conversation).blocking() as blocking:
        assert_type(blocking, BlockingChat[Parcel])
        assert_type(blocking.send("Where?").output, Parcel)
    assert_type(support.as_tool(), Tool)
    assert_type((await bare.run("Hello")).output, None)
    Chat("openai/any", history=Path("session.jsonl"), deps=shop, system=greet)


async def misuse(shop: Shop) -> None:
    await support.run("Where?", deps="shop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    bare.name = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    Agent("openai/any", deps=str, instructions=greet)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Agent("openai/any", instruction="")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await bare.run("Where?", tempratur=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    assert shop
