"""What the user hears of a router's choices: who answers, who could not, why, and what is lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from segue.chat.chat import Chat
from segue.conversation.blocks import Media, Origin
from segue.conversation.events import Failed, Finished, MediaArrived
from segue.dialects.card import ModelCard
from segue.errors import CredentialsError, OverloadError
from segue.events import ChatEvent, Error, Finish, MediaChunk, Switch, Warned, as_dict
from segue.providers.adapter import RequestSent
from segue.providers.scripted import Script, ScriptedProvider, ScriptLine, calls, says
from segue.routing.profiles import Profile, build_router
from segue.routing.retry import RetrySettings
from segue.routing.route import facts_from
from segue.sessions.entries import Switched
from segue.transcript.repairs import Repair


class Previewing(ScriptedProvider):
    """Cannot be told one thing."""

    LOSS = Repair("media_described", "scripted")

    def __init__(self, replies: Iterable[Script] = (), **fields: Any) -> None:
        super().__init__(replies, **fields)
        sent = RequestSent(origin=Origin("scripted", "b", "", "m"), repairs=(self.LOSS,))
        self.capabilities = replace(self.capabilities, preview=lambda _: sent)


def routed(policy: Any, **members: ScriptedProvider | None) -> Chat:
    profile = Profile(
        name="all",
        policy=policy,
        members=tuple(f"{name}/m" for name in members),
        retry=RetrySettings(attempts=1),
    )
    providers = {name: provider for name, provider in members.items() if provider is not None}
    return Chat(build_router(profile, facts_from(providers)), providers=providers, tools=[look])


def look() -> str:
    return "seen"


async def hear(chat: Chat, said: str = "go") -> list[ChatEvent]:
    return [event async for event in chat.stream(said)]


def of(events: list[ChatEvent], kind: type[Any]) -> list[Any]:
    return [event for event in events if type(event) is kind]


@pytest.mark.requirement("REQ-915-043")
def test_a_failover_tells_why_it_came_to_it_and_what_the_next_one_cannot_be_told() -> None:
    async def main() -> None:
        error = OverloadError("too busy", status=529)
        b = Previewing([says("b")], name="b")
        async with routed("failover", a=ScriptedProvider([[error]], name="a"), b=b) as chat:
            events = await hear(chat)
            (switch,) = of(events, Switch)
            assert switch == Switch("a/m", "b/m", "failover", (Previewing.LOSS,), error)
            assert as_dict(switch)["error"]["message"] == "too busy"
            entries = [record.entry for record in await chat.journal.store.read(chat.id)]
            assert Switched(previous="a/m", model="b/m", reason="failover") in entries

    asyncio.run(main())


@pytest.mark.requirement("REQ-915-042")
def test_round_robin_shows_who_answers_whenever_that_changes() -> None:
    async def main() -> None:
        a = ScriptedProvider(answer=lambda _: says("a"), name="a")
        b = Previewing(answer=lambda _: says("b"), name="b")
        async with routed("round_robin", a=a, b=b) as chat:
            assert of(await hear(chat), Switch) == []
            assert of(await hear(chat), Switch) == [Switch("a/m", "b/m", "routed", (Previewing.LOSS,))]
            assert of(await hear(chat), Switch) == [Switch("b/m", "a/m", "routed")]

    asyncio.run(main())


def test_a_member_that_is_passed_over_is_told_with_its_reason_once() -> None:
    async def main() -> None:
        a = ScriptedProvider([[CredentialsError("bad key", status=401)]], name="a")
        b = ScriptedProvider(answer=lambda _: says("b"), name="b")
        async with routed("failover", a=a, b=b) as chat:
            assert of(await hear(chat), Warned) == []
            (warned,) = of(await hear(chat), Warned)
            assert warned.code == "passed_over"
            assert warned.message.startswith("a/m is skipped: It is left alone for")
            assert "bad key" in warned.message
            assert of(await hear(chat), Warned) == []

    asyncio.run(main())


class WithoutTools(ScriptedProvider):
    def card(self, model: str) -> ModelCard:
        return ModelCard(match=model, tools=False)


def test_a_turn_with_tools_skips_a_first_member_without_tools() -> None:
    async def main() -> None:
        a = WithoutTools(answer=lambda _: says("a"), name="a")
        b = ScriptedProvider(answer=lambda _: says("b"), name="b")
        async with routed("failover", a=a, b=b) as chat:
            (warned,) = of(await hear(chat), Warned)
            assert warned.message == "a/m is skipped: It knows no tools."
            assert chat.answer is not None
            assert chat.answer.text == "b"

    asyncio.run(main())


def test_a_member_that_nobody_registered_is_told_and_the_others_answer() -> None:
    async def main() -> None:
        b = ScriptedProvider(answer=lambda _: says("b"), name="b")
        async with routed("failover", gone=None, b=b) as chat:
            (warned,) = of(await hear(chat), Warned)
            assert 'Provider "gone" not registered' in warned.message
            assert chat.answer is not None
            assert chat.answer.text == "b"

    asyncio.run(main())


PICTURE = Media("image", "image/png", "AAAA")


def test_a_picture_that_a_model_makes_is_told_and_counts_as_shown() -> None:
    async def main() -> None:
        whole: list[ScriptLine] = [MediaArrived(0, PICTURE), Finished("stop")]
        broken: list[ScriptLine] = [MediaArrived(0, PICTURE), Failed(OverloadError("busy", status=529))]
        a = ScriptedProvider([whole, broken], name="a")
        async with routed("failover", a=a, b=ScriptedProvider([says("never")], name="b")) as chat:
            events = await hear(chat)
            assert of(events, MediaChunk) == [MediaChunk(PICTURE)]
            assert of(events, Warned) == []
            events = await hear(chat)
            assert of(events, Switch) == []
            assert len(of(events, Error)) == len(of(events, Finish)) == 1
            assert chat.conversation.messages[-1].blocks == (PICTURE,)

    asyncio.run(main())


def test_a_tool_that_wants_to_exit_ends_as_an_error_and_not_the_program() -> None:
    async def main() -> None:
        async def leave() -> None:
            raise SystemExit(3)

        def leave_thread() -> None:
            raise SystemExit(4)

        provider = ScriptedProvider(
            [calls(("leave", {}), ("leave_thread", {})), says("still here")], name="a"
        )
        async with Chat("a/m", tools=[leave, leave_thread], providers={"a": provider}) as chat:
            answer = await chat.send("go")
            assert (answer.finish, answer.text) == ("complete", "still here")
            errors = [interaction.result and interaction.result.error for interaction in chat.ledger.values()]
            assert errors == ["Tool execution failed: SystemExit: 3", "Tool execution failed: SystemExit: 4"]

    asyncio.run(main())
