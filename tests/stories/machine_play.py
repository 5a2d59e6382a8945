"""Plays one planned turn on a chat: says something, hears what happens, and meddles while it does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from segue.chat.chat import Chat
from segue.conversation.blocks import Media
from segue.errors import UsageError
from segue.events import ChatEvent
from stories.machine_plans import Turn, When
from stories.machine_world import PIXEL, World


async def play(world: World, chat: Chat, turn: Turn, asked: str) -> tuple[list[ChatEvent], list[str]]:
    """What was heard, and the switches that were asked for, in order."""
    world.model.plan.clear()
    world.model.plan.extend(turn.replies)
    world.spoil(turn.faults, chat.model)
    world.stop = chat.cancel
    said: list[Any] = [f"{asked}?", *([Media("image", "image/png", PIXEL)] if turn.image else ())]
    playing = _Playing(world, chat, turn)
    meddling = [
        asyncio.ensure_future(playing.meddle_after(when.number, target))
        for when, target in turn.meddling
        if not when.event
    ]
    if turn.way in ("send", "drop"):
        await playing.wait(said)
    else:
        await playing.listen(said)
    world.stop = lambda: None
    outcomes = await asyncio.gather(*meddling, return_exceptions=True)
    await world.settle()
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return playing.heard, playing.meant


class _Playing:
    def __init__(self, world: World, chat: Chat, turn: Turn) -> None:
        self._world = world
        self._chat = chat
        self._turn = turn
        self.heard: list[ChatEvent] = []
        self.meant: list[str] = []

    async def wait(self, said: list[Any]) -> None:
        waiting = asyncio.ensure_future(self._chat.send(*said, raises=False))
        if self._turn.way == "drop":
            await ticks(self._turn.until.number)
            waiting.cancel()
        await asyncio.wait({waiting})
        if not waiting.cancelled():
            answer = waiting.result()
            assert (answer.finish == "error") == (answer.error is not None), answer

    async def listen(self, said: list[Any]) -> None:
        stream = self._chat.stream(*said)
        async for event in stream:
            self.heard.append(event)
            here = When(sum(known.type == event.type for known in self.heard), event.type)
            for when, target in self._turn.meddling:
                if when == here:
                    await self._meddle(target)
            if self._turn.way == "leave" and len(self.heard) > self._turn.until.number:
                break
        await stream.aclose()

    async def meddle_after(self, steps: int, target: str) -> None:
        await ticks(steps)
        await self._meddle(target)

    async def _meddle(self, target: str) -> None:
        chat = self._chat
        if target == "intrude":
            await self._intrude()
        elif target == "close":
            await chat.close()
            await chat.open()
        elif target:
            await chat.switch(self._world.router(target))
            self.meant.append(target)
        else:
            chat.cancel()

    async def _intrude(self) -> None:
        """All that would tear the turn is refused, and nothing comes of it."""
        chat = self._chat
        for what in (chat.undo, chat.redo, chat.fork, chat.compact, lambda: chat.send("Me first!")):
            if chat.busy:
                with pytest.raises(UsageError) as caught:
                    await what()
                assert caught.value.code == "turn_in_flight"


async def ticks(steps: int) -> None:
    """Let everybody else go on by so many steps of the event loop."""
    for _ in range(steps):
        await asyncio.sleep(0)
