"""What the runtime costs beside providers and tools: the scheduler per call, and a turn against its JSON floor."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import msgspec

from bench.histories import agent_like
from segue.chat.chat import Chat
from segue.conversation.blocks import ToolCall
from segue.conversation.message import Message, user
from segue.conversation.tools import ToolSpec
from segue.providers.scripted import ScriptedProvider, ScriptLine, calls, says
from segue.sessions.entries import Adopted, ModelReplied, SessionStarted, UserSaid
from segue.sessions.journal import Journal
from segue.sessions.stores.memory import MemoryStore
from segue.sessions.stores.store import Store
from segue.tools.definition import Context, Host, Tool, ToolSet
from segue.tools.scheduler import Scheduler

CALLS = 100
SLEEP = 0.1
ROUNDS = 15
HISTORIES = (2, 20, 200, 2_000)


def run() -> None:
    asyncio.run(_scheduler())
    asyncio.run(_turns())


async def _scheduler() -> None:
    print(f"scheduler: a batch of {CALLS} calls, per call")
    print(f"{'store':>9} {'CPU µs':>9} {'wall beyond the slowest tool µs':>33}")
    with tempfile.TemporaryDirectory() as folder:
        from segue.sessions.stores.sqlite import SQLiteStore

        stores: dict[str, Callable[[int], Store]] = {
            "memory": lambda _: MemoryStore(),
            "sqlite": lambda n: SQLiteStore(Path(folder) / f"{n}.db"),
        }
        for name, make in stores.items():
            busy, waited = [], []
            for n in range(ROUNDS):
                store = make(n)
                busy.append(await _batch(store, 0.0, process_time))
                waited.append(await _batch(store, SLEEP, perf_counter) - SLEEP)
                await store.close()
            print(f"{name:>9} {_micro(median(busy)) / CALLS:>9.0f} {_micro(median(waited)) / CALLS:>33.0f}")


async def _batch(store: Store, seconds: float, clock: Callable[[], float]) -> float:
    async def work(arguments: dict[str, int], _context: Context) -> str:
        if seconds:
            await asyncio.sleep(seconds)
        return f"{arguments['n']} is fine"

    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tool = Tool(spec=ToolSpec("work", "Works.", parameters), run=work)
    journal = await Journal.start(store, SessionStarted(model="m"))
    batch = tuple(ToolCall(f"c{n}", "work", {"n": n}) for n in range(CALLS))
    await journal.append(UserSaid(user("go")), ModelReplied(Message("model", batch), "tool_calls"))
    scheduler = Scheduler(journal, Host(providers={}, store=store))
    start = clock()
    await scheduler.run(batch, ToolSet([tool]), _ignore, asyncio.Event())
    taken = clock() - start
    await journal.close()
    return taken


async def _turns() -> None:
    print("a turn beside its provider: CPU µs, and × the msgspec.json.encode of the conversation it sends")
    print(f"{'messages':>9} {'floor':>9} {'plain turn':>12} {'':>8} {'3 exchanges, 4 calls':>22} {'':>8}")
    for size in HISTORIES:
        floor = _floor(size)
        plain = await _median(partial(_turn, size, [says("Fine.")]))
        wishes = [calls(*[("note", {"text": "a"})] * 3), calls(("note", {"text": "b"})), says("Fine.")]
        working = await _median(partial(_turn, size, wishes))
        ratios = f"{plain / floor:>7.1f}×", f"{working / floor:>7.1f}×"
        print(
            f"{size:>9} {_micro(floor):>9.1f} {_micro(plain):>12.0f} {ratios[0]} {_micro(working):>22.0f} {ratios[1]}"
        )


async def _turn(size: int, script: list[list[ScriptLine]]) -> float:
    def note(text: str) -> str:
        return text

    provider = ScriptedProvider([says("Hello."), *script])
    chat = Chat("scripted/m", tools=[_inline(note)], providers={"scripted": provider})
    async with chat:
        await chat.journal.append(Adopted(conversation=agent_like(size)))
        await chat.send("hello")
        start = process_time()
        await chat.send("go")
        return process_time() - start


def _inline(function: Callable[[str], str]) -> Tool:
    async def run(arguments: dict[str, str], _context: Context) -> str:
        return function(arguments["text"])

    parameters = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return Tool(spec=ToolSpec("note", "Notes.", parameters), run=run)


def _floor(size: int) -> float:
    conversation = agent_like(size)
    encode = msgspec.json.Encoder().encode
    times = []
    for _ in range(ROUNDS):
        start = process_time()
        for _ in range(20):
            encode(conversation)
        times.append((process_time() - start) / 20)
    return median(times)


async def _median(measured: Callable[[], Awaitable[float]]) -> float:
    return median([await measured() for _ in range(ROUNDS)])


def _ignore(_event: object) -> None:
    """Nobody listens."""


def _micro(seconds: float) -> float:
    return seconds * 1_000_000
