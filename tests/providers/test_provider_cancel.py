from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

import pytest

from segue.conversation.events import Failed, Finished, TextDelta
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Reply, Say
from segue.emulators.server import Served
from segue.providers.adapter import RequestSent, StreamEvent
from strategies.provider_places import PLACES, Place, asking, provider_at, say

every_place = pytest.mark.parametrize("place", PLACES, ids=str)
OPENAI, RESPONSES, ANTHROPIC, GEMINI, MISTRAL, KIMI, DEEPSEEK, OLLAMA, BEDROCK = PLACES


@every_place
@pytest.mark.requirement("Property 5", "Property 34")
def test_an_abort_in_mid_stream_is_one_cancellation_and_a_hang_up(
    segue_emulator_server: Served, place: Place
) -> None:
    say(segue_emulator_server, Reply(pieces=(Say("word " * 400),), delay=0.02))
    provider = provider_at(segue_emulator_server, place)

    async def main() -> list[StreamEvent]:
        abort = asyncio.Event()
        heard: list[StreamEvent] = []
        async for event in provider.chat_stream(asking(place, abort=abort)):
            heard.append(event)
            if isinstance(event, TextDelta) and not abort.is_set():
                asyncio.get_running_loop().call_later(0.05, abort.set)
        for _ in range(100):
            if segue_emulator_server.emulator.hung_up:
                break
            await asyncio.sleep(0.02)
        return heard

    heard = asyncio.run(main())
    assert heard[-1] == Finished("cancelled")
    assert sum(isinstance(event, Finished | Failed) for event in heard) == 1
    assert segue_emulator_server.emulator.hung_up == 1


def test_an_abort_ends_also_the_wait_for_the_first_word(segue_emulator_server: Served) -> None:
    segue_emulator_server.emulator.faults.append(Fault(kind="silence", seconds=20))
    provider = provider_at(segue_emulator_server, OPENAI)

    async def main() -> list[StreamEvent]:
        abort = asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, abort.set)
        return [event async for event in provider.chat_stream(asking(OPENAI, abort=abort))]

    began = time.monotonic()
    sent, *rest = asyncio.run(main())
    assert type(sent) is RequestSent
    assert rest == [Finished("cancelled")]
    assert time.monotonic() - began < 5


def test_an_abort_beforehand_asks_nobody(segue_emulator_server: Served) -> None:
    async def main() -> list[StreamEvent]:
        abort = asyncio.Event()
        abort.set()
        request = asking(OPENAI, abort=abort)
        return [event async for event in provider_at(segue_emulator_server, OPENAI).chat_stream(request)]

    assert asyncio.run(main()) == [Finished("cancelled")]
    assert not segue_emulator_server.emulator.log


@pytest.mark.parametrize("how", ["closed", "cancelled"])
def test_who_stops_listening_hangs_up(segue_emulator_server: Served, how: str) -> None:
    say(segue_emulator_server, Reply(pieces=(Say("word " * 400),), delay=0.02))
    provider = provider_at(segue_emulator_server, OPENAI)

    async def listen(started: asyncio.Event) -> None:
        async with aclosing(provider.chat_stream(asking(OPENAI))) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    started.set()
                    if how == "closed":
                        return

    async def main() -> None:
        started = asyncio.Event()
        listening = asyncio.ensure_future(listen(started))
        await started.wait()
        if how == "cancelled":
            listening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await listening
        else:
            await listening
        for _ in range(100):
            if segue_emulator_server.emulator.hung_up:
                return
            await asyncio.sleep(0.02)

    asyncio.run(main())
    assert segue_emulator_server.emulator.hung_up == 1
