"""A provider's stream with a frame that cannot be read ends, for the client, with whole frames and an error of its own wire;
before the first content, somebody else answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.clients import AGENTS
from gateway.world import ROUTES, GatewayWorld
from segue.conversation.blocks import Origin
from segue.conversation.events import Failed, fold
from segue.dialects.registry import DIALECTS
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Call, Prompt, Reply, Say

WORDS = "One two three four five six seven eight nine ten eleven twelve. " * 4
OWN = {
    "anthropic": "anthropic",
    "openai_responses": "responses",
    "openai_chat": "chat",
    "ollama": "ollama",
    "gemini": "gemini",
    "mistral": "mistral",
}
"""A model of each wire's own provider."""


class Talker:
    """Says a lot, or calls a tool with long arguments."""

    def reply(self, prompt: Prompt) -> Reply:
        if "look" in prompt.text:
            return Reply(pieces=(Call("weather", {"city": WORDS}),))
        return Reply(pieces=(Say(WORDS),))

    def reset(self) -> None:
        """Nothing is remembered."""


def world_of(*members: str) -> tuple[GatewayWorld, str]:
    """A gateway, and a name for these members. Under the provider's own nothing has to be replaced: its bytes go through."""
    name = ROUTES[members[0]].partition("/")[2]
    profile = {"members": [ROUTES[member] for member in members], "policy": "failover"}
    return GatewayWorld(responder=Talker(), profiles={name: profile}), name


def received(wire: str, body: bytes) -> tuple[str, list[object], bool]:
    """The text and the arguments that a client read, and whether it was told that the reply failed."""
    decoder = DIALECTS[wire].new_decoder()
    events = [*decoder.feed(body), *decoder.close()]
    reply = fold(events, Origin())
    return (
        reply.message.text,
        [call.arguments for call in reply.message.calls if call.raw],
        any(type(event) is Failed for event in events),
    )


@pytest.mark.parametrize("target", OWN.values())
@pytest.mark.parametrize("wire", OWN)
@pytest.mark.parametrize("asked", ["Talk.", "Please look."])
def test_a_reply_with_a_hole_ends_with_an_error(wire: str, target: str, asked: str) -> None:
    async def main() -> None:
        shown = 0
        for at in (0, 700, 1500, 3200):
            world, name = world_of(target)
            agent = AGENTS[wire](world, name, stream=True)
            agent.add_user(asked)
            world.emulator.faults.append(Fault(kind="malformed", at_byte=at))
            reply = await agent.send()
            report = world.reports[-1]
            if target in ("ollama", "mistral") and not report.error:
                # Behind the end of the reply there is nothing to lose.
                assert received(wire, reply.body) in ((WORDS, [], False), ("", [{"city": WORDS}], False))
                continue
            assert report.error == "reply_garbled"
            assert report.forwarded == (OWN[wire] == target)
            if reply.status == 200:
                text, arguments, failed = received(wire, reply.body)
                shown += 1
                assert failed
                assert b"could not be read" in reply.body
                assert WORDS.startswith(text)
                # A call with a hole is none.
                assert arguments in ([], [None], [{"city": WORDS}])
                assert report.usage_estimated
        assert shown or target == "mistral"

    asyncio.run(main())


@pytest.mark.parametrize("wire", OWN)
def test_before_the_first_content_the_next_member_answers(wire: str) -> None:
    async def main() -> None:
        for first in ("anthropic", "responses", OWN[wire]):
            world, name = world_of(first, "kimi")
            agent = AGENTS[wire](world, name, stream=True)
            agent.add_user("Talk.")
            world.emulator.faults.append(Fault(kind="malformed"))
            text, _, failed = received(wire, (await agent.send()).body)
            report = world.reports[-1]
            assert report.tries[0].error == "reply_garbled"
            if first in ("gemini", "ollama"):  # their first frame has content
                assert (failed, report.error) == (True, "reply_garbled")
                assert text
            else:
                assert (text, failed, report.route) == (WORDS, False, ROUTES["kimi"])

    asyncio.run(main())


@pytest.mark.parametrize("wire", OWN)
def test_before_the_first_content_it_is_asked_for_again(wire: str) -> None:
    async def main() -> None:
        world = GatewayWorld(responder=Talker())
        agent = AGENTS[wire](world, ROUTES["anthropic"], stream=True)
        agent.add_user("Talk.")
        world.emulator.faults.append(Fault(kind="malformed"))
        assert received(wire, (await agent.send()).body) == (WORDS, [], False)
        assert [one.error for one in world.reports[-1].tries] == ["reply_garbled", ""]

    asyncio.run(main())


@pytest.mark.parametrize("wire", OWN)
def test_a_whole_reply_that_cannot_be_read_is_answered_by_the_next_member(wire: str) -> None:
    async def main() -> None:
        world, name = world_of(OWN[wire], "kimi")
        agent = AGENTS[wire](world, name)
        agent.add_user("Talk.")
        world.emulator.faults.append(Fault(kind="malformed"))
        assert agent.text((await agent.send()).json()) == WORDS
        assert world.reports[-1].failovers == 1

    asyncio.run(main())


def test_the_frames_before_the_garbled_one_reach_the_client_though_they_came_with_it() -> None:
    """What arrives at once is one portion; the client gets what is whole of it."""
    written = [
        b'data: {"id":"x","model":"gpt-4.1","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % word
        for word in (b"one ", b"two ")
    ]

    async def provider(scope: Any, receive: Any, send: Any) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"text/event-stream")],
            }
        )
        await send({"type": "http.response.body", "body": written[0], "more_body": True})
        rest = written[1] + b'data: {"id":"x","choi\n\n' + written[0] + b"data: [DONE]\n\n"
        await send({"type": "http.response.body", "body": rest})

    async def main() -> None:
        world = GatewayWorld(models={"gpt-4.1": ROUTES["chat"]})
        world.app = provider  # type: ignore[assignment]  # any server
        world.restart()
        agent = AGENTS["openai_chat"](world, "gpt-4.1", stream=True)
        agent.add_user("Talk.")
        body = (await agent.send()).body
        assert body.startswith(b"".join(written))
        assert received("openai_chat", body) == ("one two ", [], True)
        assert (world.reports[-1].forwarded, world.reports[-1].error) == (True, "reply_garbled")

    asyncio.run(main())
