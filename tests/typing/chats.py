"""A chat as users write it: awaited, blocking, switched, forked, and kept in a store."""

from __future__ import annotations

from typing import assert_type

from segue import (
    Answer,
    BlockingChat,
    Budget,
    Chat,
    CompactionSettings,
    Conversation,
    Media,
    MemoryStore,
    Message,
    Options,
    Route,
    SegueError,
    SQLiteStore,
    Usage,
    __version__,
    default_registry,
)
from segue.events import Compaction, Switch


async def ask() -> None:
    async with Chat("anthropic/any", system="Be brief.", options=Options(temperature=0.2)) as chat:
        answer = await chat.send("Hello", Media("image", "image/png", "aGVsbG8="))
        assert_type(answer, Answer[None])
        assert_type(answer.output, None)
        assert_type(answer.text, str)
        assert_type(answer.usage, Usage)
        assert_type(answer.message, Message | None)
        assert_type(answer.cost, float | None)
        assert_type(answer.error, SegueError | None)
        assert_type(answer.or_raise(), Answer[None])
        assert_type(await chat.send("Hello", raises=False), Answer[None])
        assert_type((await chat.resume()).text, str)
        assert_type(chat.conversation, Conversation)
        assert_type(await chat.switch(Route(provider="openai", model="any")), Switch | None)
        assert_type(await chat.compact(), Compaction | None)
        assert_type(await chat.fork(), Chat)
        assert_type(chat.cancel(), bool)


async def keep(path: str) -> None:
    store = SQLiteStore(path)
    chat = Chat(
        "openai/any",
        store=store,
        session="trip",
        providers=default_registry(),
        budget=Budget(max_turns=3),
        compaction=CompactionSettings(),
    )
    async with chat:
        await chat.rename("A trip")
    await store.close()


def block() -> str:
    with Chat("ollama/any", store=MemoryStore()).blocking() as chat:
        assert_type(chat, BlockingChat)
        return chat.send("Hello").text


assert_type(__version__, str)
Chat(modle="a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Chat(tools=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
